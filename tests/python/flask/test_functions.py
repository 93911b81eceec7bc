"""Decorated functions that are not the view: plain calls, async ones, and calls without a request."""

from __future__ import annotations

import asyncio
import gc

import pytest

from overlimit.flask import RateLimitExceeded, rate_limit


@rate_limit("2/minute")
def dispatch_parcel() -> str:
    return "sent"


def test_a_function_is_limited_whenever_a_request_calls_it(make_site):
    site = make_site()
    site.app.get("/parcel")(lambda: f"parcel {dispatch_parcel()}")
    assert site.ask("/parcel", 3) == [200, 200, 429]


def test_a_function_counts_apart_for_each_endpoint_that_calls_it(make_site):
    site = make_site()
    site.app.get("/a", endpoint="a")(lambda: f"a {dispatch_parcel()}")
    site.app.get("/b", endpoint="b")(lambda: f"b {dispatch_parcel()}")
    assert site.ask("/a", 3) == [200, 200, 429]
    assert site.ask("/b", 3) == [200, 200, 429]


def test_each_call_of_a_function_is_charged(make_site):
    site = make_site()
    site.app.get("/")(lambda: dispatch_parcel() + dispatch_parcel())
    assert site.ask("/", 2) == [200, 429]


def test_a_view_may_go_on_without_a_refused_function(make_site):
    site = make_site()

    @site.app.get("/")
    def index():
        try:
            return dispatch_parcel()
        except RateLimitExceeded as refusal:
            return f"later: {refusal.decision.status}"

    assert [site.open("/").text for _ in range(3)] == ["sent", "sent", "later: over"]
    assert "Retry-After" not in site.open("/").headers


def test_stacked_limits_of_a_function_are_one_store_call(make_site, store_calls):
    site = make_site()
    function = rate_limit("3/hour")(rate_limit("2/minute")(lambda: "ok"))
    site.app.get("/")(lambda: f"it is {function()}")
    assert site.ask("/", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [2, 2, 2]


def test_outside_a_request_nothing_is_limited(make_site):
    site = make_site()
    assert [dispatch_parcel() for _ in range(5)] == ["sent"] * 5
    with site.app.app_context():
        assert [dispatch_parcel() for _ in range(5)] == ["sent"] * 5


def test_a_limited_view_can_be_called_in_a_test_request(make_site):
    site = make_site()
    view = site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    with site.app.test_request_context("/"):
        assert view() == "ok"
    with site.app.test_request_context("/"), pytest.raises(RateLimitExceeded):
        view()


def test_an_async_function_outside_a_request_is_a_plain_call():
    @rate_limit("1/minute")
    async def answer() -> int:
        return 42

    assert [asyncio.run(answer()) for _ in range(3)] == [42] * 3


def test_methods_that_nobody_knows_neither_pile_up_nor_count_apart(make_site):
    site = make_site()
    function = site.limiter.limit("5/minute", per_method=True)(lambda: None)

    @site.app.before_request
    def check():
        function()
        with site.limiter.limit("9/minute", per_method=True):
            pass

    assert site.ask("/nowhere", 2) + site.ask("/nowhere", 2, method="DELETE") == [404] * 4
    statuses = [site.ask("/nowhere", 1, method=f"X{number}")[0] for number in range(9)]
    assert statuses == [404] * 5 + [429] * 4
    assert [len(known) for known in site.app.extensions["overlimit"].plans._functions.values()] == [3]


def test_functions_decorated_during_a_request_do_not_pile_up(make_site):
    site = make_site()
    plain = dispatch_parcel.__wrapped__
    site.app.get("/")(lambda: f"it is {rate_limit('1000/minute')(plain)()}")
    assert site.ask("/", 20) == [200] * 20
    gc.collect()
    assert len(site.app.extensions["overlimit"].plans._functions) <= 1
