"""Limits that several routes spend together, and scopes that divide one route's limit."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask, request

from overlimit import MemoryStore
from overlimit.flask import RateLimit

pytestmark = pytest.mark.every_store


def test_a_shared_limit_counts_its_routes_together(make_site):
    site = make_site()
    reports = site.limiter.shared_limit("3/minute", scope="reports")
    site.route("/a", reports)
    site.route("/b", reports)
    assert site.ask("/a", 2) + site.ask("/b", 2) + site.ask("/a", 1) == [200] * 3 + [429] * 2
    assert site.ask("/a", 4, ip="192.0.2.2") == [200] * 3 + [429]


def test_the_scope_may_be_given_by_its_place(make_site):
    site = make_site()
    site.route("/a", site.limiter.shared_limit("1/minute", "reports"))
    assert site.ask("/a", 2) == [200, 429]


def test_shared_limits_of_one_scope_made_apart_count_together(make_site):
    site = make_site()
    site.route("/a", site.limiter.shared_limit("2/minute", scope="reports"))
    site.route("/b", site.limiter.shared_limit("2/minute", scope="reports"))
    assert site.ask("/a", 1) + site.ask("/b", 2) + site.ask("/a", 1) == [200, 200, 429, 429]


def test_scopes_are_counted_apart(make_site):
    site = make_site()
    site.route("/a", site.limiter.shared_limit("1/minute", scope="a"))
    site.route("/b", site.limiter.shared_limit("1/minute", scope="b"))
    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429, 200, 429]


def test_a_callable_scope_is_given_the_endpoint_once_per_request(make_site):
    site = make_site()
    asked = []

    def area(endpoint):
        asked.append(endpoint)
        return endpoint.partition("-")[0]

    shared = site.limiter.shared_limit("2/minute", scope=area)
    for path in ("/books-list", "/books-show", "/people-list"):
        site.route(path, shared)
    assert site.ask("/books-list", 1) + site.ask("/books-show", 2) == [200, 200, 429]
    assert site.ask("/people-list", 3) == [200, 200, 429]
    assert asked == ["books-list"] + ["books-show"] * 2 + ["people-list"] * 3


def test_what_a_shared_limit_refuses_costs_the_route_nothing(make_site, clock):
    site = make_site()
    shared = site.limiter.shared_limit("1/minute", scope="reports")
    site.route("/a", shared, site.limiter.limit("2/hour"))
    site.route("/b", shared)
    assert site.ask("/b", 1) + site.ask("/a", 5) == [200] + [429] * 5
    clock.advance(60)
    assert site.ask("/a", 2) == [200, 429]
    clock.advance(60)
    assert site.ask("/a", 1) == [200]
    clock.advance(60)
    assert site.ask("/a", 1) == [429]


def test_what_a_route_refuses_costs_the_shared_limit_nothing(make_site):
    site = make_site()
    shared = site.limiter.shared_limit("4/minute", scope="reports")
    site.route("/a", shared, site.limiter.limit("1/minute"))
    site.route("/b", shared)
    assert site.ask("/a", 9) == [200] + [429] * 8
    assert site.ask("/b", 4) == [200] * 3 + [429]


def test_a_shared_limit_replaces_the_default_ones(make_site):
    site = make_site(default_limits="1/minute", application_limits="9/minute")
    site.route("/a", site.limiter.shared_limit("2/minute", scope="reports"))
    site.route("/b", site.limiter.shared_limit("3/minute", scope="other", override_defaults=False))
    assert site.quotas("/a") == [2, 9]
    assert site.quotas("/b") == [1, 3, 9]


def test_a_shared_limit_spans_routes_and_blueprints(make_site):
    site = make_site()
    pages = Blueprint("pages", __name__)
    for name in ("one", "two"):
        pages.add_url_rule(f"/{name}", name, lambda: "ok")
    shared = site.limiter.shared_limit("3/minute", scope="reports")
    shared(pages)
    site.app.register_blueprint(pages, url_prefix="/pages")
    site.route("/a", shared)
    assert site.ask("/pages/one", 1) + site.ask("/pages/two", 1) + site.ask("/a", 2) == [200] * 3 + [429]
    assert site.ask("/pages/one", 1) + site.ask("/pages/two", 1) == [429] * 2


def test_a_skipped_shared_limit_is_still_spent_elsewhere(make_site):
    site = make_site()

    def is_exempt():
        return "X-Exempt" in request.headers

    site.route("/a", site.limiter.shared_limit("1/minute", scope="s"))
    site.route("/b", site.limiter.shared_limit("1/minute", scope="s", exempt_when=is_exempt))
    assert site.ask("/b", 3, headers={"X-Exempt": "yes"}) == [200] * 3
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 1) == [429]
    assert site.ask("/b", 1, headers={"X-Exempt": "yes"}) == [200]


def test_shared_limits_of_one_scope_for_different_identities_both_hold(make_site):
    site = make_site()

    def by(header):
        return site.limiter.shared_limit("1/minute", scope="s", identifiers=lambda: request.headers[header])

    site.route("/", by("X-Tenant"), by("X-Key"))
    first = {"X-Tenant": "t1", "X-Key": "k1"}
    assert site.ask("/", 2, headers=first) == [200, 429]
    assert site.ask("/", 1, headers=first | {"X-Tenant": "t2"}) == [429]
    assert site.ask("/", 1, headers=first | {"X-Key": "k2"}) == [429]
    assert site.ask("/", 1, headers={"X-Tenant": "t2", "X-Key": "k2"}) == [200]


def test_a_scope_divides_the_limit_of_one_route(make_site):
    site = make_site()

    def tenant(endpoint):
        assert endpoint == "tenant"
        return request.view_args["name"]

    site.route("/t/<name>", site.limiter.limit("1/minute", scope=tenant), endpoint="tenant")
    assert site.ask("/t/a", 2) + site.ask("/t/b", 2) + site.ask("/t/a", 1) == [200, 429, 200, 429, 429]


@pytest.mark.parametrize("scope", ["same", lambda endpoint: "same"], ids=["text", "callable"])
def test_routes_with_equal_scopes_still_count_apart(make_site, scope):
    site = make_site()
    site.route("/a", site.limiter.limit("1/minute", scope=scope))
    site.route("/b", site.limiter.limit("1/minute", scope=scope))
    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429, 200, 429]


def test_a_scope_that_is_not_the_endpoint_of_any_route_meets_none(make_site):
    site = make_site()
    site.route("/a", site.limiter.limit("1/minute"))
    site.route("/b", site.limiter.shared_limit("1/minute", scope="a"))
    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429, 200, 429]


def test_scopes_that_a_small_store_has_no_room_for_are_admitted_or_refused(clock):
    app = Flask("crowded")
    limiter = RateLimit(app, store=MemoryStore(max_bytes=65536), clock=clock)

    @app.get("/<scope>")
    @limiter.limit("1/minute", scope=lambda endpoint: request.view_args["scope"])
    def view(scope):
        return scope

    client = app.test_client()
    statuses = [client.get(f"/{number}").status_code for number in range(2000)]
    assert set(statuses) == {200, 429}
    assert 100 <= statuses.count(200) < 2000
    assert client.get("/0").status_code == 429
