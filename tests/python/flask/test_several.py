"""Several apps under one RateLimit, and several RateLimits on one app, with what they can be given."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit, rate_limit

from .conftest import ask


def make_app(name: str, **config) -> Flask:
    app = Flask(name)
    app.config.update(config)
    app.get("/", endpoint="index")(lambda: "ok")
    return app


def decided(app: Flask, limiter: RateLimit, path: str = "/"):
    with app.test_client() as client:
        client.get(path)
        return limiter.current_decision


@pytest.fixture
def limiter(store, clock):
    """Return a function that makes a RateLimit with the store and the clock of this test."""

    def make(*args, **options):
        return RateLimit(*args, **{"store": store, "clock": clock, "algorithm": "fixed_window", **options})

    return make


@pytest.fixture
def apps():
    """Return two apps, whose prefixes keep them apart in a store that they share."""
    return [make_app(name, RATELIMIT_KEY_PREFIX=name) for name in ("one", "two")]


def test_one_rate_limit_serves_several_apps_by_their_configuration(limiter, apps):
    shared = limiter()
    for app, limits in zip([*apps, plain := make_app("plain")], ("1/minute", "2/minute", None), strict=True):
        app.config["RATELIMIT_DEFAULT"] = limits
        shared.init_app(app)
    assert ask(apps[0], 2) + ask(apps[1], 3) == [200, 429, 200, 200, 429]
    assert ask(plain, 3) == [200] * 3


def test_a_rate_limit_keeps_no_app():
    limiter, app = RateLimit(), make_app("app")
    limiter.init_app(app)
    assert not any(isinstance(value, Flask) for value in vars(limiter).values())
    assert "overlimit" in app.extensions


def test_initialising_an_app_again_takes_the_new_configuration():
    limiter = RateLimit(clock=ManualClock())
    app = make_app("app", RATELIMIT_DEFAULT="1/minute")
    for _ in range(2):
        limiter.init_app(app)
        assert ask(app, 2) == [200, 429]
        app.config["RATELIMIT_DEFAULT"] = "2/minute"


@pytest.mark.every_store
def test_one_decorator_exemption_or_blueprint_serves_each_app_by_its_own_count(limiter, apps):
    shared = limiter(default_limits="2/minute")
    view, free = shared.limit("1/minute")(lambda: "ok"), shared.exempt(lambda: "free")
    pages = shared.limit("1/minute")(Blueprint("pages", __name__))
    pages.get("/page")(lambda: "page")
    for app in apps:
        shared.init_app(app)
        app.add_url_rule("/own", "own", view)
        app.add_url_rule("/exempt", "exempt", free)
        app.register_blueprint(pages)
    for app in apps:
        assert ask(app, 2, "/own") + ask(app, 2, "/page") == [200, 429] * 2
        assert ask(app, 3, "/exempt") == [200] * 3
        assert ask(app, 3) == [200, 200, 429]


def test_only_this_rate_limit_is_switched_off(make_site, store, clock):
    site = make_site(default_limits="1/minute")
    other = RateLimit(site.app, default_limits="3/minute", store=store, clock=clock, algorithm="fixed_window")
    with site.limiter.disabled():
        assert site.ask("/free", 4) == [200] * 3 + [429]
    with other.disabled():
        assert site.ask("/free", 2) == [200, 429]


def test_what_one_rate_limit_refuses_costs_nothing_of_another_on_the_same_store(store_calls, clock):
    app = make_app("app")
    for limits in ("5/minute", "2/minute"):
        RateLimit(app, default_limits=limits, clock=clock, algorithm="fixed_window")
    assert ask(app, 6) == [200] * 2 + [429] * 4
    assert app.test_client().get("/").headers["RateLimit"] == '"default";r=3;t=60, "default-2";r=0;t=60'
    assert len(store_calls) == 7


def test_a_bound_decorator_acts_through_its_own_and_a_free_one_through_the_first(limiter):
    app = make_app("app")
    limiter(app, default_limits="30/minute")
    second = limiter(app, default_limits="40/minute")
    app.get("/free", endpoint="free")(rate_limit("2/minute")(lambda: "ok"))
    app.get("/bound", endpoint="bound")(second.limit("2/minute")(lambda: "ok"))
    assert ask(app, 3, "/free") == [200, 200, 429]
    assert ask(app, 3, "/bound") == [200, 200, 429]
    decision = decided(app, second, "/bound")
    quotas = [detail.limit.quota for detail in decision.details]
    assert (quotas, decision.limit.quota) == ([30, 2], 2)


def test_a_free_decorator_acts_through_the_first_of_each_app(clock):
    view, refused = rate_limit("2/minute")(lambda: "ok"), []
    for number in (1, 2):
        app = make_app(f"app{number}")
        app.add_url_rule("/own", "own", view)
        RateLimit(app, clock=clock, on_breach=lambda decision, number=number: refused.append(number))
        RateLimit(app, clock=ManualClock(), on_breach=lambda decision: refused.append("second"))
        assert ask(app, 3, "/own") == [200, 200, 429]
    assert refused == [1, 2]


def test_each_knows_the_decision_it_took_part_in(limiter):
    app = make_app("app")
    first, second = limiter(app, default_limits="1/minute"), limiter(app, default_limits="2/hour")
    stranger = RateLimit()
    with app.test_client() as client:
        client.get("/")
        assert first.current_decision is second.current_decision
        assert [detail.limit.quota for detail in first.current_decision.details] == [1, 2]
        assert stranger.current_decision is None


def test_a_bound_decorator_follows_the_algorithm_of_its_rate_limit(limiter, clock):
    app = make_app("app")
    limiter(app)
    bucket = limiter(app, algorithm="token_bucket")
    app.get("/bound", endpoint="bound")(bucket.limit("2/minute")(lambda: "ok"))
    app.get("/free", endpoint="free")(rate_limit("2/minute")(lambda: "ok"))
    assert ask(app, 3, "/bound") == ask(app, 3, "/free") == [200, 200, 429]
    clock.advance(30)
    assert ask(app, 2, "/bound") == [200, 429]
    assert ask(app, 2, "/free") == [429, 429]


class GreenletTimeout(BaseException):
    """What ends a greenlet is no Exception, so that no app takes it for one of its own."""


@pytest.mark.every_store
@pytest.mark.parametrize("error", [LookupError, GreenletTimeout])
def test_an_error_on_the_way_to_the_second_store_charges_nothing(limiter, error):
    app, failing = make_app("several"), [error]

    def who() -> str:
        if failing:
            raise failing.pop()
        return "me"

    limiter(app, default_limits="2/minute")
    limiter(app, default_limits="9/minute", store=MemoryStore(), identifiers=who)
    app.testing = True
    with pytest.raises(error):
        ask(app, 1)
    assert ask(app, 3) == [200, 200, 429]


def test_two_rate_limits_show_one_set_of_legacy_fields_and_all_draft_ones(limiter):
    app = make_app("app")
    limiter(app, default_limits="5/minute", headers="both")
    limiter(app, default_limits="2/hour", headers="both")
    headers = app.test_client().get("/").headers
    assert headers.getlist("X-RateLimit-Limit") == ["2"]
    assert headers.getlist("X-RateLimit-Remaining") == ["1"]
    assert len(headers.getlist("X-RateLimit-Reset")) == 1
    assert headers.getlist("RateLimit-Policy") == ['"default";q=5;w=60, "default-2";q=2;w=3600']
    assert headers.getlist("RateLimit") == ['"default";r=4;t=60, "default-2";r=1;t=3600']


@pytest.mark.every_store
def test_a_refund_of_an_earlier_store_reaches_every_identity_and_limit(limiter):
    app = make_app("app")
    limits = {"default_limits": "9/minute; 20/hour", "application_limits": "30/day"}
    first = limiter(app, **limits, identifiers=lambda: ["a", "b"])
    second = limiter(app, default_limits="0/minute", store=MemoryStore())
    assert ask(app, 3) == [429] * 3
    second.enabled = False
    rows = decided(app, first).details
    left = {(each.identifier, each.limit.quota): each.remaining for each in rows}
    assert left == {(who, quota): quota - 1 for who in "ab" for quota in (9, 20, 30)}


@pytest.mark.every_store
def test_the_prefix_separates_shared_blueprint_and_application_limits(limiter):
    for prefix in ("a", "b"):
        app = make_app("app")
        limits = limiter(app, application_limits="3/minute", key_prefix=prefix)
        pages = limits.limit("2/minute")(Blueprint("pages", __name__))
        pages.get("/page")(lambda: "page")
        app.register_blueprint(pages)
        app.get("/shared", endpoint="shared")(limits.shared_limit("1/minute", scope="s")(lambda: "ok"))
        assert ask(app, 2, "/shared") + ask(app, 3, "/page") == [200, 429, 200, 200, 429]
