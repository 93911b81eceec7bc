"""What one request costs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.every_store


def ask(site, *costs):
    return [site.open("/", headers={"X-Cost": str(cost)}).status_code for cost in costs]


def test_each_limit_of_a_request_has_its_own_cost(make_site):
    site = make_site(
        application_limits="100/minute",
        application_limits_cost=7,
        default_limits="100/minute",
    )
    site.route("/", site.limiter.limit("50/minute", cost=5), site.limiter.limit("40/minute", cost=3))
    left = {each.limit.quota: each.remaining for each in site.decision("/").details}
    assert left == {50: 45, 40: 37, 100: 93}


def test_the_cost_is_asked_for_once_per_limit_and_request(make_site):
    site = make_site()
    asked = []
    site.route("/", site.limiter.limit("5/minute; 50/hour", cost=lambda: asked.append(1) or 1))
    assert site.ask("/", 6, user="ann") == [200] * 5 + [429]
    assert len(asked) == 6
