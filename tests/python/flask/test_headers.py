"""The header fields of passed and refused responses."""

from __future__ import annotations

import math
import re

import pytest
from flask import Response
from werkzeug.datastructures import Headers

from overlimit import FixedWindow, LeakyBucket, Limiter, MemoryStore, SlidingLog, TokenBucket, _core
from overlimit.flask import RateLimit, RateLimitExceeded, rate_limit


def test_headers_are_formatted_once_per_request(make_site, monkeypatch):
    formatted = []
    rate_field = _core._rate_field
    monkeypatch.setattr(
        _core, "_rate_field", lambda keys, decision: formatted.append(keys) or rate_field(keys, decision)
    )
    site = make_site(application_limits="100/minute")
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    assert site.ask("/", 2) == [200, 429]
    assert len(formatted) == 2


def test_there_is_no_current_decision_where_nothing_was_decided(make_site):
    site = make_site()
    assert site.limiter.current_decision is None
    with site.app.test_request_context("/free"):
        assert site.limiter.current_decision is None
    with site.app.app_context():
        assert site.limiter.current_decision is None


@pytest.mark.parametrize("kind", [dict, list, tuple, Headers])
def test_a_view_may_replace_the_header_fields(make_site, kind):
    site = make_site(default_limits="2/minute")
    site.app.errorhandler(429)(lambda error: replaced(429))

    def replaced(status):
        response = Response("ok", status)
        response.headers = kind([("X-Own", "1"), ("ratelimit", "mine")])
        return response

    site.app.add_url_rule("/", "index", lambda: replaced(200))
    answers = [site.open("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    for answer in answers:
        assert answer.headers["X-Own"] == "1"
        assert [value.partition(";")[0] for value in answer.headers.getlist("RateLimit")] == ['"default"']
    assert [answer.headers.get("Retry-After") for answer in answers] == [None, None, "60"]


def test_a_refusal_outside_of_a_view_may_replace_the_header_fields_too(make_site):
    site = make_site()

    @site.app.errorhandler(RateLimitExceeded)
    def refused(error):
        response = Response("no", 429)
        response.headers = {"X-Own": "1"}
        return response

    @site.app.before_request
    def refuse():
        raise RateLimitExceeded(Limiter("0/minute", name="none", store=MemoryStore()).hit("a"))

    assert site.open("/free").headers["X-Own"] == "1"


KINDS = {
    "fixed window": (FixedWindow(5, per=60), 5, 60),
    "sliding log": (SlidingLog(5, per=60), 5, 60),
    "token bucket": (TokenBucket(2, per=1, burst=20), 20, 10),
    "slow token bucket": (TokenBucket(3, per=10, burst=4), 4, 14),
    "leaky bucket": (LeakyBucket(1, per=10, capacity=2), 3, 30),
}


@pytest.mark.parametrize(("limit", "quota", "window"), KINDS.values(), ids=KINDS)
def test_an_item_says_what_an_unused_limit_grants_and_after_how_many_seconds_a_refused_request_passes(
    make_site, clock, limit, quota, window
):
    site = make_site()
    site.route("/", site.limiter.limit(limit, name="n"))
    assert site.ask("/", quota) == [200] * quota
    clock.advance(0.25)
    refused = site.decision("/")
    headers = site.open("/").headers
    assert headers["RateLimit-Policy"] == f'"n";q={quota};w={window}'
    assert headers["RateLimit"] == f'"n";r=0;t={math.ceil(refused.retry_after)}'
    assert headers["Retry-After"] == str(math.ceil(refused.retry_after))
    clock.advance(refused.retry_after - 0.000001)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 1) == [200]


def test_retry_after_is_never_earlier_than_the_t_of_any_refusing_item(make_site):
    site = make_site(application_limits="1/hour")
    site.route("/", site.limiter.limit("1/second; 1/minute", name="n"))
    assert site.ask("/", 1) == [200]
    headers = site.open("/").headers
    waits = [int(item.partition("t=")[2]) for item in headers["RateLimit"].split(", ")]
    assert sorted(waits) == [1, 60, 3600]
    assert headers["Retry-After"] == "3600"


def test_a_name_does_not_change_when_another_store_gives_back(make_site):
    site = make_site(default_limits="5/day")
    RateLimit(site.app, default_limits="1/day", store=MemoryStore())
    passed, over = site.open("/free"), site.open("/free")
    assert names(passed) == ["default", "default-2"]
    assert (over.status_code, names(over)) == (429, ["default-2"])


def names(response):
    return re.findall(r'"([^"]*)"', response.headers["RateLimit"])


def refused(response):
    """Return the names of the items that have nothing left."""
    return re.findall(r'"([^"]*)";r=0', response.headers["RateLimit"])


@pytest.mark.parametrize(
    ("application", "decorators"),
    [
        ("1/day", [{"value": "5/day", "name": "application"}]),
        (None, [{"value": "5/day"}, {"value": "1/day"}]),
        (None, [{"value": "5/minute; 1/hour"}]),
        (None, [{"value": "1/minute; 1/hour"}]),
    ],
)
def test_the_body_names_what_the_fields_say_is_used_up(make_site, application, decorators):
    site = make_site(application_limits=application)

    def view():
        return "ok"

    for options in decorators:
        view = rate_limit(**options)(view)
    site.app.add_url_rule("/", "index", view)
    site.open("/")
    response = site.open("/", headers={"Accept": "application/json"})
    assert response.status_code == 429
    assert response.json["violated-policies"] == refused(response) != []


def test_a_function_that_is_called_again_and_again_is_told_of_once(make_site):
    site = make_site()

    @rate_limit("5/minute")
    def row():
        return "row"

    @site.app.get("/")
    def index():
        for _ in range(3):
            row()
        with rate_limit("9/minute", name="block"):
            row()
        with rate_limit("9/minute", name="block"):
            return "ok"

    response = site.open("/")
    assert response.headers["RateLimit"] == '"row";r=1;t=60, "block";r=7;t=60'


@pytest.mark.parametrize("message", [5, lambda: 5])
@pytest.mark.parametrize("accepted", ["text/html", "application/json"])
def test_a_message_that_is_no_text_is_shown_as_one(make_site, message, accepted):
    site = make_site()
    site.app.get("/")(rate_limit("0/minute", error_message=message)(lambda: "ok"))
    response = site.open("/", headers={"Accept": accepted})
    assert response.status_code == 429
    assert "5" in response.text
