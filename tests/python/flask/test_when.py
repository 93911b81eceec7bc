"""When a request is decided, and which requests are not."""

from __future__ import annotations

import functools
from contextlib import suppress

import pytest
from flask import abort, g, request

from overlimit.flask import rate_limit


def login_required(view):
    @functools.wraps(view)
    def guarded(**arguments):
        if "X-Login" not in request.headers:
            abort(401)
        return view(**arguments)

    return guarded


def test_a_user_loaded_by_a_hook_registered_later_is_known(make_site):
    site = make_site(default_limits="2/minute")
    site.app.get("/")(rate_limit("2/minute")(lambda: "ok"))

    @site.app.before_request
    def load_another_user():
        g.user = "late"

    for path in ("/", "/free"):
        assert site.ask(path, 2, ip="192.0.2.1") == [200, 200]
        assert site.ask(path, 1, ip="192.0.2.2") == [429]


@pytest.mark.parametrize("above", [[login_required], [rate_limit("3/hour"), login_required]])
def test_whom_a_decorator_above_or_between_turns_away_spends_nothing(make_site, store_calls, above):
    site = make_site()
    site.route("/", *above, rate_limit("2/minute"))
    assert site.ask("/", 5) == [401] * 5
    assert store_calls == []
    assert site.ask("/", 3, headers={"X-Login": "yes"}) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [len(above)] * 3


def test_a_view_that_is_called_twice_is_decided_once(make_site, store_calls):
    site = make_site()
    view = rate_limit("5/minute")(lambda: "ok")
    twice = functools.wraps(view)(lambda: view() + view())
    site.app.add_url_rule("/", "twice", twice)
    assert site.open("/").text == "okok"
    assert len(store_calls) == 1


def test_a_request_that_a_hook_answers_is_not_limited(make_site, store_calls):
    site = make_site(default_limits="1/minute", application_limits="1/minute")
    site.app.before_request(lambda: "closed")
    assert site.ask("/free", 3) == [200] * 3
    assert store_calls == []


def test_made_up_methods_leave_nothing_behind(make_site):
    site = make_site(default_limits="1/minute")
    for number in range(50):
        site.ask("/free", 1, method=f"M{number}")
        site.ask("/nowhere", 1, method=f"M{number}")
    assert len(site.app.extensions["overlimit"].plans._routes) == 0


@pytest.mark.parametrize("named", [None, ["GET", "OPTIONS"]], ids=["all", "named"])
@pytest.mark.parametrize("methods", [["GET"], ["GET", "OPTIONS"]], ids=["automatic", "own view"])
def test_options_are_not_limited(make_site, store_calls, methods, named):
    site = make_site(default_limits="1/minute", application_limits="1/minute")

    @site.app.route("/", methods=methods)
    @rate_limit("1/minute", methods=named)
    def index():
        with rate_limit("2/minute"):
            return "ok"

    assert site.ask("/", 3, method="OPTIONS") == [200] * 3
    assert site.ask("/free", 3, method="OPTIONS") == [200] * 3
    assert store_calls == []
    assert site.ask("/", 2) == [200, 429]


def test_a_view_replaced_later_is_still_limited(make_site):
    site = make_site(default_limits="2/minute")
    assert site.ask("/free", 1) == [200]
    site.app.view_functions["free"] = rate_limit("1/hour")(lambda: "new")
    assert site.ask("/free", 2) == [200, 429]
    site.app.view_functions["free"] = lambda: "bare"
    assert site.ask("/free", 2) == [200, 429]


def test_requests_within_one_app_context_are_each_decided(make_site):
    site = make_site(default_limits="2/minute")
    site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    with site.app.app_context():
        assert site.ask("/free", 3) == [200, 200, 429]
        assert site.ask("/", 2) == [200, 429]


def tried_thrice(view):
    @functools.wraps(view)
    def trying(*args, **kwargs):
        for _ in range(2):
            with suppress(Exception):
                return view(*args, **kwargs)
        return view(*args, **kwargs)

    return trying


def test_a_view_that_is_tried_again_is_charged_once_and_stays_refused(make_site):
    site, called = make_site(application_limits="9/minute"), []

    @site.app.get("/a")
    @tried_thrice
    @site.limiter.limit("1/minute")
    def flaky():
        called.append(1)
        return "ok" if len(called) == 3 else 1 // 0

    assert site.ask("/a", 3) == [200, 429, 429]
    assert len(called) == 3
    assert site.decision("/free").remaining == 7


def test_a_view_that_is_tried_again_while_its_store_fails_is_not_admitted(make_site):
    site = make_site(store="redis://127.0.0.1:1/0", on_error="raise", clock=None)
    site.route("/a", tried_thrice, site.limiter.limit("1/minute"))
    assert site.ask("/a", 2) == [500, 500]
