"""The page of the example app, in a real browser."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from servers.browser import Browser
from servers.patience import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
FIELDS = ("RateLimit-Policy", "RateLimit", "Retry-After")
ENTER = 13


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.stop()


@pytest.fixture
def url(monkeypatch):
    """Serve an example app that has counted nothing yet, and return its address."""
    monkeypatch.delenv("OVERLIMIT_STORE", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES)
    sys.modules.pop("flask_app", None)
    app = importlib.import_module("flask_app").app
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser, url):
    browser.open(url)
    yield browser
    browser.open("about:blank")  # before its server goes


def tally(page, outcome):
    return int(page.text(f"#{outcome}"))


def shown(page):
    return {name: page.text(f'[data-header="{name}"]') for name in FIELDS}


def answers(page, path):
    """Return status and header fields of each answer that the browser got from a route, in order."""
    responses = [event["response"] for event in page.of("Network.responseReceived")]
    return [
        (response["status"], {name: response["headers"].get(name, "-") for name in FIELDS})
        for response in responses
        if response["url"].endswith(path)
    ]


def burst(page, count, rate):
    """Send a burst from the form and wait until every request was answered."""
    before = tally(page, "sent")
    page.fill("[name=count]", str(count))
    page.fill("[name=rate]", str(rate))
    page.click("#burst")
    eventually(lambda: tally(page, "sent") == before + count, within=30)
    eventually(lambda: tally(page, "passed") + tally(page, "refused") == tally(page, "sent"))


def one(page):
    """Send one request and wait until it was answered."""
    before = tally(page, "sent")
    page.click("#one")
    eventually(lambda: tally(page, "passed") + tally(page, "refused") == before + 1)


def test_it_loads_without_a_complaint_and_from_nowhere_else(page, url):
    assert page.text("h1") == "overlimit"
    assert page.complaints() == []
    asked = [event["request"]["url"] for event in page.of("Network.requestWillBeSent")]
    assert [address for address in asked if not address.startswith(url)] == []
    assert 4 <= len(asked) <= 10
    assert tally(page, "sent") == 0


def test_a_click_sends_one_request_and_shows_what_the_answer_says(page):
    one(page)
    assert [tally(page, each) for each in ("sent", "passed", "refused", "failed")] == [1, 1, 0, 0]
    ((status, fields),) = answers(page, "/hello")
    assert status == 200
    assert shown(page) == fields
    assert fields["RateLimit-Policy"].count("q=10;") >= 1
    assert fields["Retry-After"] == "-"
    assert page.text("#status").startswith("Request 1: 200")
    assert page.complaints() == []


def test_a_burst_shows_what_passed_and_what_was_refused(page):
    burst(page, 60, 200)
    assert 10 <= tally(page, "passed") <= 50
    assert tally(page, "passed") + tally(page, "refused") == 60
    statuses = [status for status, _ in answers(page, "/hello")]
    assert statuses.count(200) == tally(page, "passed")
    assert statuses.count(429) == tally(page, "refused")
    said = f"{tally(page, 'refused')} refused"
    eventually(lambda: said in page.text("#summary"))
    eventually(lambda: said in page.value("document.getElementById('chart').ariaLabel"))
    assert page.of("Runtime.exceptionThrown") == page.of("Runtime.consoleAPICalled") == []


def test_a_refusal_is_shown_with_its_header_fields(page):
    page.click("[value='/report']")
    burst(page, 12, 50)
    one(page)
    assert (tally(page, "passed"), tally(page, "refused")) == (12, 1)
    status, fields = answers(page, "/report")[-1]
    assert status == 429
    assert shown(page) == fields
    assert 1 <= int(fields["Retry-After"]) <= 62
    assert page.text("#status").startswith("Request 13: 429")
    eventually(lambda: "would pass in" in page.text("#summary"))
    assert page.text("#history tr").split("\t")[1:] == [
        "/report",
        "alice, 203.0.113.7",
        "429 refused",
        f"{fields['Retry-After']} s",
    ]


def test_the_meters_show_what_each_limit_has_left(page):
    page.click("[value='/report']")
    for _ in range(3):
        one(page)
    meters = page.value("[...document.querySelectorAll('meter')].map(({value, max}) => [value, max])")
    assert [45, 60] in meters
    said = page.value("[...document.querySelectorAll('#quotas label')].map(label => label.innerText)")
    assert len(said) == len(meters) == answers(page, "/report")[-1][1]["RateLimit"].count(";r=")
    assert any("45 of 60 left" in text for text in said)


def test_the_bars_are_drawn(page):
    def painted():
        return page.value(
            "(() => { const canvas = document.getElementById('chart');"
            "const wanted = getComputedStyle(document.querySelector('.passed dd')).color.match(/\\d+/g);"
            "const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
            "let pixels = 0; for (let i = 0; i < bytes.length; i += 4)"
            "if (wanted.every((part, j) => bytes[i + j] == part)) pixels += 1; return pixels; })()"
        )

    before = painted()
    page.click("#one")
    eventually(lambda: painted() > before + 50)


def test_another_user_at_another_address_has_quotas_of_their_own(page):
    page.click("[value='/report']")
    burst(page, 13, 50)
    assert tally(page, "refused") == 1
    page.fill("[name=user]", "bob")
    one(page)
    assert tally(page, "refused") == 2  # the address is still alice's
    page.fill("[name=address]", "198.51.100.1")
    one(page)
    assert (tally(page, "passed"), tally(page, "refused")) == (13, 2)
    sent = [event["request"]["headers"] for event in page.of("Network.requestWillBeSent")]
    assert (sent[-1]["X-User"], sent[-1]["X-Forwarded-For"]) == ("bob", "198.51.100.1")


def test_stopping_ends_a_burst(page):
    page.fill("[name=count]", "2000")
    page.fill("[name=rate]", "50")
    page.click("#burst")
    eventually(lambda: tally(page, "sent") >= 5)
    page.click("#stop")
    assert page.value("document.getElementById('stop').disabled") is True
    sent = tally(page, "sent")
    page.value("new Promise(done => setTimeout(done, 300))")
    assert tally(page, "sent") == sent < 2000


def test_it_is_used_by_keyboard_too_and_everything_has_a_name(page):
    page.value("document.querySelector('[name=count]').focus()")
    page.fill("[name=count]", "2")
    page.press("Enter", ENTER)
    eventually(lambda: tally(page, "passed") == 2)
    nodes = page.tell("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "textbox", "spinbutton", "radio", "meter", "image", "table")
    named = {
        (node["role"]["value"], node["name"]["value"])
        for node in nodes
        if node.get("role", {}).get("value") in roles and not node["ignored"]
    }
    assert {role for role, _ in named} >= {"button", "textbox", "spinbutton", "radio"}
    assert [role for role, name in named if not name.strip()] == []
    assert {("button", "Send one"), ("textbox", "User"), ("spinbutton", "How many")} <= named


def test_the_command_it_offers_is_the_request_it_sends(page, url):
    page.fill("[name=user]", "eve")
    assert page.text("#curl") == f"curl -i -H 'X-User: eve' -H 'X-Forwarded-For: 203.0.113.7' {url}hello"
