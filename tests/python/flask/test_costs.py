"""What one request costs."""

from __future__ import annotations

import pytest
from flask import request

from overlimit import TokenBucket

pytestmark = pytest.mark.every_store


def asked_cost() -> int:
    return int(request.headers.get("X-Cost", "1"))


@pytest.fixture
def priced(make_site):
    """Return a site whose ``/`` costs what the request says, of ten a minute."""
    site = make_site(application_limits="100/minute")
    site.route("/", site.limiter.limit("10/minute", cost=asked_cost, name="n"))
    return site


def ask(site, *costs):
    return [site.open("/", headers={"X-Cost": str(cost)}).status_code for cost in costs]


@pytest.mark.parametrize(
    ("costs", "statuses"),
    [
        ([5, 3, 2, 1], [200, 200, 200, 429]),
        ([7, 7, 4, 3, 1], [200, 429, 429, 200, 429]),
        ([*[0] * 20, 10, 1, 0], [*[200] * 21, 429, 200]),
    ],
    ids=["what each request says", "nothing where it is refused", "zero"],
)
def test_a_request_costs(priced, costs, statuses):
    assert ask(priced, *costs) == statuses


def test_a_cost_beyond_the_limit_is_never_admitted(priced):
    response = priced.open("/", headers={"X-Cost": "11"})
    assert response.status_code == 429
    assert "Retry-After" not in response.headers
    assert response.headers["RateLimit"].startswith('"n";r=10')
    assert priced.decision("/", headers={"X-Cost": "11"}).status == "never"
    assert ask(priced, 10, 1) == [200, 429]


@pytest.mark.parametrize(("cost", "seconds"), [(1, 1), (5, 5), (10, 10)])
def test_retry_after_is_exact_for_the_cost_asked(make_site, at, cost, seconds):
    site = make_site()
    site.route("/", site.limiter.limit(TokenBucket(1, per=1, burst=10), cost=asked_cost))
    assert ask(site, 10) == [200]
    assert site.open("/", headers={"X-Cost": str(cost)}).headers["Retry-After"] == str(seconds)
    at(seconds - 0.000001)
    assert ask(site, cost) == [429]
    at(seconds)
    assert ask(site, cost) == [200]


@pytest.mark.parametrize("cost", [-1, 1.5, "2", None, True], ids=repr)
def test_a_callable_with_a_bad_cost_fails_the_request_and_charges_nothing(make_site, cost):
    site = make_site(application_limits="3/minute")
    costs = [cost]
    limit = site.limiter.limit("2/minute", cost=lambda: costs[0])
    site.route("/", limit, site.limiter.limit("50/minute"))
    assert site.ask("/", 3) == [500] * 3
    costs[0] = 1
    assert site.ask("/", 3) == [200, 200, 429]
    assert site.ask("/free", 2) == [200, 429]


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
