"""A limit written above ``@app.route``: Flask has registered the function below it, which isn't limited."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
from flask import Blueprint, Flask

from overlimit.flask import RateLimit, rate_limit


def test_a_limit_above_the_route_is_enforced(make_site, store_calls):
    site = make_site(default_limits="1/minute", application_limits="100/minute")

    @rate_limit("2/minute")
    @site.app.get("/")
    def index():
        return "ok"

    assert site.ask("/", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [2, 2, 2]


def test_a_bound_limit_above_the_route_is_enforced(make_site):
    site = make_site()

    @site.limiter.limit("2/minute")
    @site.app.get("/")
    def index():
        return "ok"

    assert site.ask("/", 3) == [200, 200, 429]


def test_limits_above_and_below_the_route_are_one_decision(make_site, store_calls, clock):
    site = make_site()

    @rate_limit("3/hour")
    @rate_limit("50/day")
    @site.app.get("/")
    @rate_limit("2/minute")
    def index():
        return "ok"

    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(60)
    assert site.ask("/", 2) == [200, 429]
    assert {len(charges) for charges in store_calls} == {3}


def test_a_limit_above_the_route_of_a_blueprint_is_enforced(make_site):
    site = make_site()
    pages = Blueprint("pages", __name__)

    @rate_limit("1/minute")
    @pages.get("/")
    def index():
        return "ok"

    site.app.register_blueprint(pages)
    assert site.ask("/", 2) == [200, 429]


def test_a_limit_above_another_decorator_above_the_route_is_enforced(make_site):
    site = make_site()

    def useless(view):
        return functools.wraps(view)(lambda: f"it is {view()}")

    @rate_limit("1/minute")
    @useless
    @site.app.get("/")
    def index():
        return "ok"

    assert site.ask("/", 2) == [200, 429]


def test_without_any_rate_limit_it_is_enforced_too():
    app = Flask("plain")

    @rate_limit("1/minute")
    @app.get("/")
    def index():
        return "ok"

    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_a_limit_bound_to_a_rate_limit_without_this_app_is_an_error():
    app = Flask("forgotten")
    limiter = RateLimit()

    @limiter.limit("1/minute")
    @app.get("/above")
    def above():
        return "ok"

    @app.get("/below")
    @limiter.limit("1/minute")
    def below():
        return "ok"

    client = app.test_client()
    assert client.get("/above").status_code == 500
    assert client.get("/below").status_code == 500
    limiter.init_app(app)
    assert [client.get("/above").status_code for _ in range(2)] == [200, 429]
    assert [client.get("/below").status_code for _ in range(2)] == [200, 429]


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


def test_a_limit_on_a_blueprint_is_enforced_without_a_rate_limit():
    app, pages = Flask("bare"), Blueprint("pages", __name__)
    rate_limit("1/minute")(pages)
    pages.get("/")(lambda: "ok")
    app.register_blueprint(pages)
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_a_decorator_that_was_not_called_is_an_error_that_says_so():
    app = Flask("site")
    with pytest.raises(AttributeError, match=r"rate_limit\('10/second'\)"):

        @app.get("/")
        @rate_limit
        def index():
            return "ok"


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
