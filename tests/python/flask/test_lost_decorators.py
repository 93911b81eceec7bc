"""Limits above ``@app.route``, below which Flask has registered the function, and those that are not used."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
from flask import Blueprint, Flask, request_started

from overlimit.flask import RateLimit, rate_limit


def test_limits_above_and_below_the_route_are_one_decision(make_site, store_calls, clock):
    site = make_site(default_limits="1/minute", application_limits="100/minute")

    def useless(view):
        return functools.wraps(view)(lambda: f"it is {view()}")

    @rate_limit("3/hour")
    @useless
    @rate_limit("50/day")
    @site.app.get("/")
    @rate_limit("2/minute")
    def index():
        return "ok"

    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(60)
    assert site.ask("/", 2) == [200, 429]
    assert {len(charges) for charges in store_calls} == {4}


@pytest.mark.parametrize("with_rate_limit", [True, False])
@pytest.mark.parametrize("place", ["app", "blueprint", "route of a blueprint"])
def test_it_is_enforced_on_blueprints_and_without_any_rate_limit_too(place, with_rate_limit):
    app, pages = Flask("plain"), Blueprint("pages", __name__)
    if with_rate_limit:
        RateLimit(app)
    limit = rate_limit("1/minute")
    view = (app if place == "app" else pages).get("/", endpoint="index")(lambda: "ok")
    limit(pages if place == "blueprint" else view)
    app.register_blueprint(pages)
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_a_limit_bound_to_a_rate_limit_without_this_app_is_an_error():
    app = Flask("forgotten")
    limiter = RateLimit()
    limited = limiter.limit("1/minute")
    limited(app.get("/above", endpoint="above")(lambda: "ok"))
    app.get("/below", endpoint="below")(limited(lambda: "ok"))
    pages = limited(Blueprint("pages", "pages"))
    pages.add_url_rule("/page", "page", lambda: "ok")
    app.register_blueprint(pages)
    client = app.test_client()
    for path in ("/above", "/below", "/page"):
        assert client.get(path).status_code == 500
    limiter.init_app(app)
    for path in ("/above", "/below", "/page"):
        assert [client.get(path).status_code for _ in range(2)] == [200, 429]


def test_a_view_registered_bare_is_limited_like_its_decorated_form(make_site):
    site = make_site()

    def index():
        return "ok"

    site.app.add_url_rule("/limited", "limited", rate_limit("1/minute")(index))
    site.app.add_url_rule("/bare", "bare", index)
    assert site.ask("/limited", 2) == [200, 429]
    assert site.ask("/bare", 2) == [200, 429]


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("has_own", [False, True])
def test_the_bare_view_of_another_app_is_not_limited_whether_that_app_is_gone_or_not(is_gone, has_own):
    def view():
        return "ok"

    limited, plain = Flask("limited"), Flask("plain")
    limited.add_url_rule("/", view_func=RateLimit(limited).limit("1/minute")(view))
    if has_own:
        RateLimit(plain, default_limits="2/minute")
    plain.add_url_rule("/", view_func=view)
    client, seen = limited.test_client(), weakref.ref(limited)
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    if is_gone:
        del limited, client
        gc.collect()
        assert seen() is None
    client = plain.test_client()
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429 if has_own else 200]


def test_a_decorator_between_two_routes_limits_both(make_site):
    site = make_site()

    @site.app.get("/above", endpoint="above")
    @rate_limit("1/minute")
    @site.app.get("/below", endpoint="below")
    def index():
        return "ok"

    assert site.ask("/below", 2) == [200, 429]
    assert site.ask("/above", 2) == [200, 429]


@pytest.mark.parametrize("put", ["limit", "shared_limit", "exempt", "rate_limit"])
def test_on_an_app_is_an_error_that_says_what_to_write(put):
    app = Flask("app")
    limiter = RateLimit(app)
    on_app = {
        "limit": (limiter.limit("2/minute"), "application_limits=.* default_limits="),
        "shared_limit": (limiter.shared_limit("2/minute", "all"), "application_limits="),
        "rate_limit": (rate_limit("2/minute"), "application_limits="),
        "exempt": (limiter.exempt, "enabled = False"),
    }
    decorator, says = on_app[put]
    with pytest.raises(TypeError, match=f"a function or a blueprint.*{says}"):
        decorator(app)


def test_requests_are_listened_to_only_as_long_as_a_limit_may_be_lost():
    before = len(request_started.receivers)
    limiter = RateLimit()
    limiter.limit("1/day")(lambda: "ok")
    during = len(request_started.receivers)
    limiter.init_app(Flask("late"))
    limiter.limit("1/day")(lambda: "ok")
    assert during == max(before, 1)
    assert len(request_started.receivers) <= before


def test_an_app_without_a_ratelimit_listens_until_calls_are_known_to_pass_its_limits():
    before = len(request_started.receivers)
    app = Flask("right")

    @app.get("/")
    @rate_limit("2/minute")
    def index():
        return helper()

    @rate_limit("100/minute")
    def helper():
        return "ok"

    assert len(request_started.receivers) == max(before, 1)
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    assert len(request_started.receivers) <= before


def test_an_app_without_a_ratelimit_listens_as_long_as_another_could_lose_a_limit():
    blueprint = Blueprint("api", __name__)

    @rate_limit("1/minute")
    @blueprint.get("/")
    def index():
        return "ok"

    for name in ("first", "second"):
        app = Flask(name)
        app.register_blueprint(blueprint)
        client = app.test_client()
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    assert request_started.receivers


@pytest.mark.parametrize("given", ["x", None, 5, object], ids=str)
def test_what_is_no_app_is_an_error_that_says_so(given):
    with pytest.raises(TypeError, match=r"init_app takes the Flask app, as in init_app\(app\), not"):
        RateLimit().init_app(given)


def test_limits_without_saying_for_what_are_the_default_limits():
    with pytest.raises(TypeError, match="RateLimit has no option 'limits': write default_limits="):
        RateLimit(Flask("site"), limits="100/minute")


@pytest.mark.parametrize("make", [RateLimit.limit, lambda limiter, value: rate_limit(value)])
def test_a_limit_that_a_request_makes_and_does_not_use_is_warned_of(make_site, make):
    site = make_site()

    @site.app.get("/")
    def index():
        make(site.limiter, "1/minute")
        with make(site.limiter, "5/minute"):
            return make(site.limiter, "5/hour")(lambda: "ok")()

    with pytest.warns(UserWarning, match=r"write with limiter\.limit\(\.\.\.\):") as told:
        assert site.ask("/", 2) == [200, 200]
    assert {each.filename for each in told} == {__file__}
    assert len(told) == 2
