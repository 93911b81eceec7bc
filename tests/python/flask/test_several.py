"""Several apps under one RateLimit, several RateLimits on one app."""

from __future__ import annotations

import pytest
from flask import Flask

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit, rate_limit

pytestmark = pytest.mark.every_store


def make_app(name: str, **config) -> Flask:
    app = Flask(name)
    app.config.update(config)
    app.get("/", endpoint="index")(lambda: "ok")
    return app


def ask(app: Flask, times: int, path: str = "/") -> list[int]:
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


def test_one_rate_limit_serves_several_apps_by_their_configuration():
    limiter = RateLimit(clock=ManualClock())
    first, second = (
        make_app("first", RATELIMIT_DEFAULT="1/minute"),
        make_app("second", RATELIMIT_DEFAULT="2/minute"),
    )
    limiter.init_app(first)
    limiter.init_app(second)
    assert ask(first, 2) == [200, 429]
    assert ask(second, 3) == [200, 200, 429]


def test_a_rate_limit_keeps_no_app():
    limiter = RateLimit()
    app = make_app("app")
    limiter.init_app(app)
    assert not any(isinstance(value, Flask) for value in vars(limiter).values())
    assert "overlimit" in app.extensions


def test_initialising_an_app_again_takes_the_new_configuration():
    limiter = RateLimit(clock=ManualClock())
    app = make_app("app", RATELIMIT_DEFAULT="1/minute")
    limiter.init_app(app)
    assert ask(app, 2) == [200, 429]
    app.config["RATELIMIT_DEFAULT"] = "2/minute"
    limiter.init_app(app)
    assert ask(app, 2) == [200, 429]


def test_every_rate_limit_of_an_app_counts_by_itself(store, clock):
    app = make_app("app")
    RateLimit(app, default_limits="3/minute", store=store, clock=clock, algorithm="fixed_window")
    RateLimit(app, default_limits="2/hour", store=store, clock=clock, algorithm="fixed_window")
    assert ask(app, 3) == [200, 200, 429]
    clock.advance(60)
    assert ask(app, 1) == [429]
    clock.advance(3540)
    assert ask(app, 3) == [200, 200, 429]


def test_what_one_rate_limit_refuses_costs_nothing_of_another_on_the_same_store(store_calls, clock):
    app = make_app("app")
    RateLimit(app, default_limits="5/minute", clock=clock, algorithm="fixed_window")
    RateLimit(app, default_limits="2/minute", clock=clock, algorithm="fixed_window")
    assert ask(app, 6) == [200] * 2 + [429] * 4
    assert app.test_client().get("/").headers["RateLimit"] == '"default";r=3;t=60, "default-2";r=0;t=60'
    assert len(store_calls) == 7


def test_the_headers_list_all_of_them_under_unique_names(clock):
    app = make_app("app")
    for limits in ("3/minute", "2/hour"):
        RateLimit(app, default_limits=limits, clock=clock, algorithm="fixed_window")
    headers = app.test_client().get("/").headers
    assert headers.getlist("RateLimit-Policy") == ['"default";q=3;w=60, "default-2";q=2;w=3600']
    assert headers.getlist("RateLimit") == ['"default";r=2;t=60, "default-2";r=1;t=3600']


def test_a_bound_decorator_acts_through_its_own_and_a_free_one_through_the_first(clock):
    app = make_app("app")
    RateLimit(app, default_limits="30/minute", clock=clock)
    second = RateLimit(app, default_limits="40/minute", clock=clock)
    app.get("/free", endpoint="free")(rate_limit("2/minute")(lambda: "ok"))
    app.get("/bound", endpoint="bound")(second.limit("2/minute")(lambda: "ok"))
    assert ask(app, 3, "/free") == [200, 200, 429]
    assert ask(app, 3, "/bound") == [200, 200, 429]
    with app.test_client() as client:
        client.get("/bound")
        quotas = [detail.limit.quota for detail in second.current_decision.details]
        assert (quotas, second.current_decision.limit.quota) == ([30, 2], 2)


def test_each_knows_the_decision_it_took_part_in(clock):
    app = make_app("app")
    first = RateLimit(app, default_limits="1/minute", clock=clock)
    second = RateLimit(app, default_limits="2/hour", clock=clock)
    stranger = RateLimit()
    with app.test_client() as client:
        client.get("/")
        assert first.current_decision is second.current_decision
        assert [detail.limit.quota for detail in first.current_decision.details] == [1, 2]
        assert stranger.current_decision is None


def test_a_bound_decorator_follows_the_algorithm_of_its_rate_limit(clock):
    app = make_app("app")
    RateLimit(app, clock=clock, algorithm="fixed_window")
    bucket = RateLimit(app, clock=clock, algorithm="token_bucket")
    app.get("/bound", endpoint="bound")(bucket.limit("2/minute")(lambda: "ok"))
    app.get("/free", endpoint="free")(rate_limit("2/minute")(lambda: "ok"))
    assert ask(app, 3, "/bound") == ask(app, 3, "/free") == [200, 200, 429]
    clock.advance(30)
    assert ask(app, 2, "/bound") == [200, 429]
    assert ask(app, 2, "/free") == [429, 429]


class GreenletTimeout(BaseException):
    """What ends a greenlet is no Exception, so that no app takes it for one of its own."""


@pytest.mark.parametrize("error", [LookupError, GreenletTimeout])
def test_an_error_on_the_way_to_the_second_store_charges_nothing(store, clock, error):
    app = make_app("several")
    failing = [error]

    def who() -> str:
        if failing:
            raise failing.pop()
        return "me"

    RateLimit(app, default_limits="2/minute", store=store, clock=clock)
    RateLimit(app, default_limits="9/minute", store=MemoryStore(), clock=clock, identifiers=who)
    app.testing = True
    with pytest.raises(error):
        ask(app, 1)
    assert ask(app, 3) == [200, 200, 429]
