"""Functions that several apps have, and limits of a RateLimit that has no app yet."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask, request_started

from overlimit import MemoryStore
from overlimit.flask import RateLimit


def statuses(app, path, times):
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


def test_another_app_without_the_rate_limit_may_have_the_bare_function():
    limited_app, other = Flask("limited"), Flask("other")
    limiter = RateLimit(limited_app, store=MemoryStore())
    RateLimit(other, store=MemoryStore())

    def view():
        return "ok"

    limited_app.add_url_rule("/", "limited", limiter.limit("1/day")(view))
    other.add_url_rule("/", "bare", view)
    assert statuses(other, "/", 3) == [200] * 3
    assert statuses(limited_app, "/", 2) == [200, 429]


def test_a_decorator_above_the_route_holds_though_nothing_passes_through_it():
    app = Flask("above")
    limiter = RateLimit(app, store=MemoryStore())

    @limiter.limit("2/day")
    @app.get("/")
    def view():
        return "ok"

    assert statuses(app, "/", 3) == [200, 200, 429]


@pytest.mark.parametrize("kind", ["above", "blueprint"])
def test_a_rate_limit_that_was_never_registered_is_an_error_and_no_lost_limit(kind):
    app = Flask("forgotten")
    limiter = RateLimit()
    if kind == "above":

        @limiter.limit("1/day")
        @app.get("/")
        def view():
            return "ok"
    else:
        blueprint = Blueprint("pages", "pages")
        blueprint.add_url_rule("/", "index", lambda: "ok")
        limiter.limit("1/day")(blueprint)
        app.register_blueprint(blueprint)
    assert statuses(app, "/", 1) == [500]
    limiter.init_app(app)
    assert statuses(app, "/", 2) == [200, 429]


def test_requests_are_listened_to_only_as_long_as_a_limit_may_be_lost():
    before = len(request_started.receivers)
    limiter = RateLimit()
    limiter.limit("1/day")(lambda: "ok")
    during = len(request_started.receivers)
    limiter.init_app(Flask("late"))
    limiter.limit("1/day")(lambda: "ok")
    assert during == max(before, 1)
    assert len(request_started.receivers) == before


@pytest.mark.parametrize("given", ["x", None, 5, object], ids=str)
def test_what_is_no_app_is_an_error_that_says_so(given):
    with pytest.raises(TypeError, match=r"init_app takes the Flask app, as in init_app\(app\), not"):
        RateLimit().init_app(given)


def test_limits_without_saying_for_what_are_the_default_limits():
    with pytest.raises(TypeError, match="RateLimit has no option 'limits': write default_limits="):
        RateLimit(Flask("site"), limits="100/minute")
