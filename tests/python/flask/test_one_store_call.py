"""How often a request asks Redis: counted by the server itself."""

from __future__ import annotations

import pytest
from flask import Blueprint

from overlimit.flask import RateLimit


@pytest.fixture
def commands(redis_server):
    """Return a function: run something and how often it asked for something, by command."""

    def count(action):
        redis_server.ask("CONFIG", "RESETSTAT")
        action()
        lines = redis_server.ask("INFO", "commandstats").decode().splitlines()
        calls = dict(line.removeprefix("cmdstat_").split(":calls=") for line in lines if "calls=" in line)
        sent = {name: int(rest.partition(",")[0]) for name, rest in calls.items()}
        return {name: times for name, times in sent.items() if name in ASKING}

    return count


ASKING = {"evalsha", "eval", "script|load", "script|exists", "evalsha_ro", "fcall", "multi", "exec"}


@pytest.fixture
def site(make_site, store):
    """Return a site where limits of every kind hold."""
    site = make_site(
        application_limits="1000/minute; 9000/hour",
        default_limits=["500/minute", "5000/hour"],
        meta_limits="900/hour",
        headers="both",
    )
    pages = Blueprint("pages", __name__)
    limiter = site.limiter
    limiter.limit("400/minute", override_defaults=False)(pages)

    def keeping(value, **options):
        return limiter.limit(value, override_defaults=False, **options)

    view = keeping("300/minute", meta_limits="800/day")(lambda: "ok")
    view = keeping(lambda: "200/minute", cost=2, scope=lambda endpoint: "s")(view)
    view = keeping("1/second", shadow=True)(view)
    pages.get("/full", endpoint="full")(
        limiter.shared_limit("100/minute", scope="all", override_defaults=False)(view)
    )
    pages.get("/tight", endpoint="tight")(limiter.limit("2/hour")(lambda: "ok"))
    site.app.register_blueprint(pages)
    refunded = {"deduct_when": lambda response: False}
    site.route("/counted", limiter.limit("2/minute", **refunded), limiter.limit("9/minute", **refunded))
    site.route("/exempt", limiter.exempt)
    RateLimit(site.app, default_limits="700/minute", store=store, clock=site.clock, headers="both")
    return site


only_redis = pytest.mark.parametrize("store", ["redis"], indirect=True)


@only_redis
@pytest.mark.parametrize("path", ["/full", "/free"])
def test_a_request_is_one_evalsha_whatever_limits_hold(site, commands, path):
    quotas = site.quotas(path, user="ann")
    assert len(quotas) >= (2 * 8 if path == "/full" else 2 * 5)
    assert commands(lambda: site.ask(path, 10, user="ann")) == {"evalsha": 10}


@only_redis
def test_a_refusal_is_one_evalsha_with_its_meta_limits(site, commands):
    assert site.ask("/tight", 3, user="ann") == [200, 200, 429]
    assert commands(lambda: site.ask("/tight", 5, user="ann")) == {"evalsha": 5}


@only_redis
def test_rate_limits_of_one_store_that_show_different_fields_are_one_evalsha(
    make_site, store, clock, commands
):
    site = make_site(default_limits="50/minute", headers="draft")
    other = RateLimit(site.app, default_limits="2/minute", store=store, clock=clock, headers="both")
    assert site.ask("/free", 1) == [200]
    assert commands(lambda: site.ask("/free", 3)) == {"evalsha": 3}
    other.enabled = False
    assert site.decision("/free").remaining == 47


@only_redis
def test_a_request_under_two_stores_asks_each_once(make_site, store, clock, start_redis, prefix):
    site = make_site(default_limits="50/minute")
    other = start_redis()
    url = f"{other.unix_url()}&prefix={prefix}&timeout=10"
    RateLimit(site.app, default_limits="40/minute", store=url, clock=clock)
    site.ask("/free", 1)
    other.ask("CONFIG", "RESETSTAT")
    assert site.ask("/free", 5) == [200] * 5
    assert b"cmdstat_evalsha:calls=5," in other.ask("INFO", "commandstats")


@only_redis
@pytest.mark.parametrize(
    ("costs", "more"), [([5, 9], 1), ([90, 50], 1), ([5, 50], 2), ([30, 30], 1), ([None, 5], 1)]
)
def test_settling_asks_once_for_what_was_too_little_and_once_for_what_was_too_much(
    make_site, commands, costs, more
):
    site = make_site(application_limits="500/minute")

    def view():
        site.limiter.settle(30)
        return "ok"

    for number, cost in enumerate(costs):
        view = site.limiter.limit(f"{900 + number}/minute", cost=cost)(view)
    site.app.add_url_rule("/", "index", view)
    assert site.ask("/", 1) == [200]
    assert commands(lambda: site.ask("/", 1)) == {"evalsha": 1 + more}
