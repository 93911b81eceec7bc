"""What a RateLimit says of requests that are decided by leases, and which are not."""

from __future__ import annotations

import pytest
from flask import Flask

from overlimit import Limiter
from overlimit.flask import RateLimit
from programs import output_of
from servers.patience import PATIENCE

REQUESTS = 100
LIMITS = "1000/hour"


@pytest.fixture
def url(redis_server, prefix):
    return f"{redis_server.unix_url()}&timeout={PATIENCE}&prefix={prefix}&lease=10&max_stale=1"


def test_a_rate_limit_sums_what_its_limiters_count(url):
    app = Flask("leasing")
    limiter = RateLimit(app, application_limits="2000/hour", store=url)
    for path in ("/one", "/two"):
        app.add_url_rule(path, path, limiter.limit(LIMITS)(lambda: "hello"))
    assert set(limiter.stats()["errors"].values()) == {0}
    client = app.test_client()
    statuses = [client.get(path).status_code for _ in range(REQUESTS) for path in ("/one", "/two")]
    assert statuses == [200] * 2 * REQUESTS
    stats = limiter.stats()
    policies = stats["policies"]
    calls = {name: policy["calls"] for name, policy in policies.items()}
    assert sorted(calls.values()) == [REQUESTS, REQUESTS, 2 * REQUESTS]
    for name in ("calls", "leased", "asked", "held", "returned", "lapsed"):
        assert stats[name] == sum(policy[name] for policy in policies.values())
    assert stats["leased"] > stats["asked"] > 0
    assert sum(stats["latency"].values()) == sum(
        sum(policy["latency"].values()) for policy in policies.values()
    )
    assert stats["held"] == sum(held_units(name, url) for name in policies) > 0


def held_units(policy: str, url: str) -> int:
    return Limiter("1/hour", name=policy, store=url).stats()["held"]


def test_requests_whose_refusals_are_charged_are_not_leased(redis_server, url):
    """`flask limits list` says so."""
    app = Flask("leasing")
    RateLimit(app, default_limits=LIMITS, meta_limits="9/day", store=url)
    app.get("/")(lambda: "hello")
    client, before = app.test_client(), redis_server.scripts_run()
    assert [client.get("/").status_code for _ in range(REQUESTS)] == [200] * REQUESTS
    assert redis_server.scripts_run() - before >= REQUESTS


def test_processes_one_after_the_other_lose_nothing(url):
    program = """
        import sys
        from overlimit import Limiter
        limiter = Limiter("1000/hour", name="api", store=sys.argv[1])
        decisions = [limiter.hit("a") for _ in range(100)]
        assert sum(each.source == "lease" for each in decisions) > 75
        print(decisions[-1].remaining)
        """
    assert [output_of(program, url) for _ in range(3)] == ["900\n", "800\n", "700\n"]
