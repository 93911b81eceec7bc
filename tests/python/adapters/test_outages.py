"""What clients get while the store is away, slow or silent, or goes in the middle, under every adapter."""

from __future__ import annotations

import logging
import time

import pytest

from adapters import each
from adapters.site import Reply
from servers.patience import PATIENCE, eventually

NOWHERE = "redis://localhost:1/0"
DEADLINE = 0.2
GRACE = 3.0
"""Seconds beyond all deadlines that a busy machine may take."""


@each()
@pytest.mark.parametrize(
    ("on_error", "statuses"),
    [("allow", [200] * 3), ("deny", [503] * 3), ("raise", [500] * 3), ("local", [200, 200, 429])],
)
def test_on_error_says_what_happens_while_no_store_answers(serve, prefix, on_error, statuses):
    given = {"store": NOWHERE, "on_error": on_error, "clock": None, "key_prefix": prefix}
    site = serve(limits="2/minute", headers="both", **given)
    answers = [site.ask() for _ in range(3)]
    assert [answer.status for answer in answers] == statuses
    shown = 5 if on_error == "local" else 0
    assert [len(answer.ours) for answer in answers] == [shown] * 3
    assert ["Retry-After" in answer.headers for answer in answers] == [
        each in (429, 503) for each in statuses
    ]
    if on_error == "deny":
        assert 1 <= int(answers[0].headers["Retry-After"]) <= 60
        assert answers[0].json["title"] == "Service Unavailable"
        page = site.ask("/", ("Accept", "text/html"))
        assert (page.status, "503 Service Unavailable" in page.text) == (503, True)


@each()
def test_what_is_exempt_or_in_shadow_asks_no_store_that_could_refuse(serve, prefix):
    exempt = serve(limits="2/minute", store=NOWHERE, on_error="raise", clock=None, exempt=["/"])
    assert exempt.statuses(times=2) == [200, 200]
    for on_error in ("allow", "deny", "local"):
        given = {"store": NOWHERE, "on_error": on_error, "clock": None, "key_prefix": prefix}
        shadow = serve(limits="1/minute", shadow=True, **given)
        assert shadow.statuses(times=3) == [200] * 3


@each("meta")
def test_a_fallback_holds_in_memory_while_the_store_fails(serve):
    site = serve(limits="1/minute", in_memory_fallback="2/minute", store=NOWHERE, clock=None)
    assert site.statuses(times=3) == [200, 200, 429]
    looked_up = serve(limits="1/minute", in_memory_fallback=lambda: "2/minute", store=NOWHERE, clock=None)
    assert looked_up.statuses(times=3) == [200, 200, 429]


@pytest.fixture
def server(start_redis):
    return start_redis()


@each()
@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 503)])
def test_no_request_waits_longer_than_the_deadline_and_limits_hold_again_by_themselves(
    serve, server, on_error, status, caplog
):
    caplog.set_level(logging.WARNING, logger="overlimit")
    url = f"{server.tcp_url()}?timeout={DEADLINE}"
    site = serve(limits="99/hour", together="4/hour", store=url, on_error=on_error, clock=None)
    eventually(lambda: len(site.ask().ours) == 2)
    server.pause()
    try:
        began = time.monotonic()
        answers = [site.ask() for _ in range(3)]
        taken = time.monotonic() - began
    finally:
        server.resume()
    assert [(answer.status, answer.ours) for answer in answers] == [(status, [])] * 3
    assert DEADLINE / 2 <= taken < 6 * DEADLINE + GRACE
    assert [record for record in caplog.records if record.name.startswith("overlimit")]
    server.kill()
    assert site.ask().status == status
    server.restart()
    eventually(lambda: len(site.ask().ours) == 2)
    eventually(lambda: site.ask().status == 429)
    assert site.statuses(times=2) == [429, 429]


@each()
@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("raise", 500)])
@pytest.mark.parametrize("what", ["refund", "settlement"])
def test_a_store_that_goes_while_the_view_runs_is_logged_or_an_error(
    serve, server, on_error, status, what, caplog
):
    def view(asked):
        server.kill()
        return Reply(spends=(("settle", 30),) if what == "settlement" else ())

    caplog.set_level(logging.WARNING, logger="overlimit")
    beside = {"deduct_when": lambda response, asked: False} if what == "refund" else {"cost": 5}
    url = f"{server.tcp_url()}?timeout={PATIENCE}"
    answer = serve(view, limits="100/day", store=url, on_error=on_error, clock=None, **beside).ask()
    assert answer.status == status
    assert ("fails" in caplog.text) is (on_error == "allow")


@each()
def test_no_password_is_shown(serve, start_redis, caplog):
    server = start_redis(password="s3cret")
    caplog.set_level(logging.DEBUG)
    url = f"{server.tcp_url()}?timeout={PATIENCE}"
    site = serve(limits="9/hour", store=url, on_error="deny", clock=None)
    assert site.statuses() == [200]
    server.kill()
    answer = site.ask()
    assert answer.status == 503
    assert [text for text in (caplog.text, answer.text, repr(site.limiter)) if "s3cret" in text] == []
