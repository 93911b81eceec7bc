"""How often a request asks Redis: counted by the server itself."""

from __future__ import annotations

import re

import pytest

from overlimit.flask import RateLimit


@pytest.fixture
def commands(redis_server):
    """Return a function: run something and how often it asked for something, by command."""

    def count(action):
        redis_server.ask("CONFIG", "RESETSTAT")
        action()
        sent = re.findall(r"cmdstat_(\S+):calls=(\d+)", redis_server.ask("INFO", "commandstats").decode())
        return {name: int(times) for name, times in sent if name in ASKING}

    return count


ASKING = {"evalsha", "eval", "script|load", "script|exists", "evalsha_ro", "fcall", "multi", "exec"}


only_redis = pytest.mark.parametrize("store", ["redis"], indirect=True)


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
