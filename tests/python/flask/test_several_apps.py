"""Several apps under one RateLimit, and several RateLimits on one app, with what they can be given."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit, rate_limit


def make_app(name: str, **config) -> Flask:
    app = Flask(name)
    app.config.update(config)
    app.add_url_rule("/", "index", lambda: "ok", methods=["GET", "POST"])
    return app


def ask(app: Flask, times: int, path: str = "/") -> list[int]:
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


@pytest.fixture
def limiter(store, clock):
    """Return a function that makes a RateLimit with the store and the clock of this test."""

    def make(*args, **options):
        return RateLimit(*args, **{"store": store, "clock": clock, "algorithm": "fixed_window", **options})

    return make


def test_one_decorator_serves_each_app_by_its_own_count(limiter):
    shared = limiter(default_limits="2/minute")
    apps = [make_app("one", RATELIMIT_KEY_PREFIX="one"), make_app("two", RATELIMIT_KEY_PREFIX="two")]
    view = shared.limit("1/minute")(lambda: "ok")
    for app in apps:
        shared.init_app(app)
        app.add_url_rule("/own", "own", view)
    for app in apps:
        assert ask(app, 2, "/own") == [200, 429]
        assert ask(app, 3) == [200, 200, 429]


def test_in_memory_each_app_counts_by_itself(clock):
    shared = RateLimit(default_limits="1/minute", application_limits="9/minute", clock=clock)
    for app in (make_app("one"), make_app("two")):
        shared.init_app(app)
        assert ask(app, 2) == [200, 429]


def test_exemptions_and_filters_hold_in_every_app(limiter):
    shared = limiter(default_limits="1/minute")
    apps = [make_app("one", RATELIMIT_KEY_PREFIX="one"), make_app("two", RATELIMIT_KEY_PREFIX="two")]
    free = shared.exempt(lambda: "free")
    for app in apps:
        shared.init_app(app)
        app.add_url_rule("/exempt", "exempt", free)
    for app in apps:
        assert ask(app, 3, "/exempt") == [200] * 3
        assert ask(app, 2) == [200, 429]


def test_enabled_is_read_at_each_request_of_every_app(limiter):
    shared = limiter(default_limits="1/minute")
    apps = [make_app("one", RATELIMIT_KEY_PREFIX="one"), make_app("two", RATELIMIT_KEY_PREFIX="two")]
    for app in apps:
        shared.init_app(app)
    with shared.disabled():
        assert [ask(app, 2) for app in apps] == [[200, 200]] * 2
    assert [ask(app, 2) for app in apps] == [[200, 429]] * 2


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


def test_two_stores_are_asked_one_after_the_other_and_a_late_refusal_is_given_back(clock):
    app = make_app("app")
    first = RateLimit(
        app, default_limits="9/minute", store=MemoryStore(), clock=clock, algorithm="fixed_window"
    )
    RateLimit(app, default_limits="1/second", store=MemoryStore(), clock=clock, algorithm="fixed_window")
    assert ask(app, 5) == [200] + [429] * 4
    clock.advance(1)
    with app.test_client() as client:
        assert client.get("/").status_code == 200
        assert first.current_decision.remaining == 7


def test_a_refund_of_an_earlier_store_reaches_every_identity_and_limit(clock):
    app = make_app("app")
    first = RateLimit(
        app,
        default_limits="9/minute; 20/hour",
        application_limits="30/day",
        identifiers=lambda: ["a", "b"],
        store=MemoryStore(),
        clock=clock,
    )
    second = RateLimit(app, default_limits="0/minute", store=MemoryStore(), clock=clock)
    assert ask(app, 3) == [429] * 3
    second.enabled = False
    with app.test_client() as client:
        client.get("/")
        left = {
            (each.identifier, each.limit.quota): each.remaining for each in first.current_decision.details
        }
    assert left == {(who, quota): quota - 1 for who in "ab" for quota in (9, 20, 30)}


def test_a_blueprint_shared_by_two_apps_is_limited_in_both(limiter):
    shared = limiter()
    pages = Blueprint("pages", __name__)
    pages.get("/page")(lambda: "page")
    shared.limit("1/minute")(pages)
    for name in ("one", "two"):
        app = make_app(name, RATELIMIT_KEY_PREFIX=name)
        shared.init_app(app)
        app.register_blueprint(pages)
        assert ask(app, 2, "/page") == [200, 429]


def test_init_app_takes_no_part_of_another_apps_configuration(limiter):
    shared = limiter()
    strict, plain = make_app("strict", RATELIMIT_DEFAULT="1/minute"), make_app("plain")
    shared.init_app(strict)
    shared.init_app(plain)
    assert ask(strict, 2) == [200, 429]
    assert ask(plain, 3) == [200] * 3


def test_a_free_decorator_acts_through_the_first_of_each_app(clock):
    view = rate_limit("2/minute")(lambda: "ok")
    refused = []
    for number in (1, 2):
        app = make_app(f"app{number}")
        app.add_url_rule("/own", "own", view)
        RateLimit(app, clock=clock, on_breach=lambda decision, number=number: refused.append(number))
        RateLimit(app, clock=ManualClock(), on_breach=lambda decision: refused.append("second"))
        assert ask(app, 3, "/own") == [200, 200, 429]
    assert refused == [1, 2]


def test_the_options_of_a_rate_limit_are_keyword_only():
    with pytest.raises(TypeError):
        RateLimit(None, "5/minute")


def test_a_key_function_given_first_is_told_where_it_belongs():
    with pytest.raises(TypeError, match="app"):
        RateLimit(lambda: "me")


def test_the_prefix_separates_shared_blueprint_meta_and_application_limits(store, clock):
    statuses = []
    for prefix in ("a", "b"):
        app = make_app("app")
        limiter = RateLimit(
            app,
            application_limits="3/minute",
            key_prefix=prefix,
            store=store,
            clock=clock,
            algorithm="fixed_window",
        )
        pages = Blueprint("pages", __name__)
        pages.get("/page")(lambda: "page")
        limiter.limit("2/minute")(pages)
        app.register_blueprint(pages)
        app.get("/shared", endpoint="shared")(limiter.shared_limit("1/minute", scope="s")(lambda: "ok"))
        statuses.append(ask(app, 2, "/shared") + ask(app, 3, "/page"))
    assert statuses == [[200, 429, 200, 200, 429]] * 2
