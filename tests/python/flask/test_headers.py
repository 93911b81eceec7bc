"""The header fields of passed and refused responses."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from flask import Response, make_response
from werkzeug.datastructures import Headers

from overlimit import InvalidLimit, Limiter, MemoryStore, SlidingWindow, _core
from overlimit.flask import RateLimit, RateLimitExceeded, rate_limit

FIELDS = ("RateLimit-Policy", "RateLimit", "Retry-After")


def fields(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name in FIELDS}


def test_a_single_limit_is_shown_under_its_own_name(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("2/minute", name="login")(lambda: "ok"))
    policy = {"RateLimit-Policy": '"login";q=2;w=60'}
    assert fields(site.open("/")) == policy | {"RateLimit": '"login";r=1;t=60'}
    clock.advance(0.5)
    assert fields(site.open("/")) == policy | {"RateLimit": '"login";r=0;t=60'}
    clock.advance(0.5)
    assert fields(site.open("/")) == policy | {"RateLimit": '"login";r=0;t=59', "Retry-After": "59"}
    clock.advance(58.999999)
    assert fields(site.open("/")) == policy | {"RateLimit": '"login";r=0;t=1', "Retry-After": "1"}


def test_each_limit_evaluated_has_one_item(make_site):
    site = make_site(application_limits="9/hour", default_limits="4/minute")
    site.app.get("/")(rate_limit("5/minute")(rate_limit("3/second; 7/hour")(lambda: "ok")))
    index = site.open("/").headers
    assert [item.partition(";")[2] for item in index["RateLimit-Policy"].split(", ")] == [
        "q=3;w=1",
        "q=7;w=3600",
        "q=5;w=60",
        "q=9;w=3600",
    ]
    assert [item.partition(";")[2] for item in index["RateLimit"].split(", ")] == [
        "r=2;t=1",
        "r=6;t=3600",
        "r=4;t=60",
        "r=8;t=3600",
    ]
    free = site.open("/free").headers
    assert free["RateLimit-Policy"] == '"default";q=4;w=60, "application";q=9;w=3600'
    assert free["RateLimit"] == '"default";r=3;t=60, "application";r=7;t=3600'


def test_names_within_a_header_are_unique_and_the_same_in_both(make_site):
    site = make_site(application_limits="9/hour")

    @site.app.get("/")
    @rate_limit("5/minute")
    @rate_limit("3/minute")
    @rate_limit("4/minute", name="application")
    def index():
        return "ok"

    headers = site.open("/").headers
    names = [item.partition(";")[0] for item in headers["RateLimit-Policy"].split(", ")]
    assert len(names) == len(set(names)) == 4
    assert names == [item.partition(";")[0] for item in headers["RateLimit"].split(", ")]


def test_remaining_is_that_of_the_identifier_with_least(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("5/minute", name="n")(lambda: "ok"))
    site.ask("/", 3, user="ann", ip="192.0.2.1")
    assert site.open("/", user="ann", ip="192.0.2.2").headers["RateLimit"] == '"n";r=1;t=60'
    assert site.open("/", user="ben", ip="192.0.2.2").headers["RateLimit"] == '"n";r=3;t=60'
    assert site.open("/", user="ann", ip="192.0.2.3").headers["RateLimit"] == '"n";r=0;t=60'
    refused = site.open("/", user="ann", ip="192.0.2.4")
    assert (refused.status_code, refused.headers["RateLimit"]) == (429, '"n";r=0;t=60')


def test_what_waiting_cannot_help_has_neither_t_nor_retry_after(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("0/minute", name="closed")(lambda: "ok"))
    response = site.open("/")
    assert response.status_code == 429
    assert fields(response) == {"RateLimit-Policy": '"closed";q=0;w=60', "RateLimit": '"closed";r=0'}


@pytest.mark.parametrize("name", ['say "hi"', "müde", "a\r\nX-Evil: 1", "x" * 200, "back\\slash", "\ud800"])
def test_any_name_makes_a_valid_header(make_site, name):
    site = make_site()
    site.app.get("/")(rate_limit("2/minute", name=name)(lambda: "ok"))
    response = site.open("/")
    assert response.headers["RateLimit-Policy"].isascii()
    assert response.headers["RateLimit-Policy"].count('"') == 2
    assert "X-Evil" not in response.headers
    assert site.ask("/", 2) == [200, 429]


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


def test_headers_none_sends_retry_after_only(make_site):
    site = make_site(headers=None)
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    assert fields(site.open("/")) == {}
    assert fields(site.open("/")) == {"Retry-After": "60"}


def test_other_header_modes_are_an_error():
    with pytest.raises(ValueError, match="headers"):
        RateLimit(headers="fancy")


def test_a_failing_view_still_carries_the_headers(make_site):
    site = make_site()

    @site.app.get("/")
    @rate_limit("2/minute", name="n")
    def broken():
        raise LookupError

    response = site.open("/")
    assert (response.status_code, response.headers["RateLimit"]) == (500, '"n";r=1;t=60')


def test_an_error_handler_reads_the_decision_and_its_answer_gets_the_headers(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("1/minute", name="n")(lambda: "ok"))

    @site.app.errorhandler(429)
    def refused(error: RateLimitExceeded):
        assert site.limiter.current_decision is error.decision
        return {"wait": error.decision.retry_after, "why": error.description}, 429

    site.open("/")
    response = site.open("/")
    assert response.status_code == 429
    assert response.json == {
        "wait": 60.0,
        "why": "Too many requests: the next one is admitted in 60 seconds.",
    }
    assert fields(response) == {
        "RateLimit-Policy": '"n";q=1;w=60',
        "RateLimit": '"n";r=0;t=60',
        "Retry-After": "60",
    }


@pytest.mark.parametrize(("given", "sent"), [("30", "60"), ("90", "90"), ("rubbish", "60")])
def test_a_later_retry_after_of_the_error_handler_is_kept(make_site, given, sent):
    site = make_site()
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    site.app.register_error_handler(429, lambda error: ("wait", 429, {"Retry-After": given}))
    site.open("/")
    assert site.open("/").headers.getlist("Retry-After") == [sent]


@pytest.mark.parametrize(("minutes", "kept"), [(0.5, False), (10, True)])
def test_a_retry_after_that_is_a_date_is_understood(make_site, minutes, kept):
    site = make_site()
    now = datetime.fromtimestamp(site.clock.now(), timezone.utc)
    date = format_datetime(now + timedelta(minutes=minutes), usegmt=True)
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    site.app.register_error_handler(429, lambda error: ("wait", 429, {"Retry-After": date}))
    site.open("/")
    assert site.open("/").headers.getlist("Retry-After") == [date if kept else "60"]


def test_an_error_handler_that_answers_otherwise_gets_no_retry_after(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    site.app.register_error_handler(429, lambda error: ("cached", 200))
    site.open("/")
    response = site.open("/")
    assert response.status_code == 200
    assert "Retry-After" not in response.headers


def test_the_current_decision_is_there_in_the_view_and_after_it(make_site):
    site = make_site()
    seen = []

    @site.app.get("/")
    @rate_limit("1/minute")
    def index():
        seen.append(site.limiter.current_decision)
        return make_response("ok")

    @site.app.after_request
    def look(response):
        seen.append(site.limiter.current_decision)
        assert "RateLimit" in response.headers
        return response

    assert site.ask("/", 2) == [200, 429]
    passed, same, refused = seen
    assert passed is same
    assert (passed.allowed, passed.remaining, passed.retry_after) == (True, 0, 0.0)
    assert (refused.allowed, refused.remaining, refused.retry_after) == (False, 0, 60.0)
    assert refused.identifier == "ip:192.0.2.1"


def test_there_is_no_current_decision_where_nothing_was_decided(make_site):
    site = make_site()
    assert site.limiter.current_decision is None
    with site.app.test_request_context("/free"):
        assert site.limiter.current_decision is None
    with site.app.app_context():
        assert site.limiter.current_decision is None


def test_the_exception_is_a_429_of_werkzeug_by_itself(make_site):
    site = make_site()
    view = site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    with site.app.test_request_context("/"):
        view()
    with site.app.test_request_context("/"), pytest.raises(RateLimitExceeded) as caught:
        view()
    response = caught.value.get_response()
    assert (response.status_code, response.headers["Retry-After"]) == (429, "60")
    assert not caught.value.decision


def test_a_huge_quota_fits_a_structured_field(make_site):
    site = make_site()
    try:
        limit = SlidingWindow(2**51, per=60)
    except InvalidLimit:
        limit = SlidingWindow(10**15, per=1)
    site.app.get("/")(rate_limit(limit, name="big")(lambda: "ok"))
    headers = site.open("/").headers
    assert "q=999999999999999;" in headers["RateLimit-Policy"]
    assert math.log10(int(headers["RateLimit"].partition("r=")[2].partition(";")[0])) <= 15


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
