"""Limits that several routes spend together, and scopes that divide one route's limit."""

from __future__ import annotations

import itertools

from flask import Blueprint, Flask, make_response, request
from flask.views import MethodView

from overlimit import MemoryStore
from overlimit.flask import RateLimit


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


def test_scopes_that_a_small_store_has_no_room_for_are_admitted_or_refused(clock):
    app = Flask("crowded")
    limiter = RateLimit(app, store=MemoryStore(max_bytes=65536), clock=clock)

    @app.get("/<scope>")
    @limiter.limit("1/minute", scope=lambda endpoint: request.view_args["scope"])
    def view(scope):
        return scope

    client = app.test_client()
    statuses = [client.get(f"/{number}").status_code for number in range(700)]
    assert set(statuses) == {200, 429}
    assert 100 <= statuses.count(200) < 650
    assert client.get("/0").status_code == 429


def never(response):
    return False


def test_what_counts_for_neither_is_given_back(make_site):
    site = make_site()
    limit = site.limiter.shared_limit
    site.route("/", *(limit("2/minute", "S", deduct_when=never) for _ in range(2)))
    assert site.ask("/", 5) == [200] * 5


def test_the_limit_of_a_blueprint_is_charged_though_its_view_gives_its_own_back(make_site):
    site = make_site()
    pages = Blueprint("pages", "pages")
    site.limiter.shared_limit("4/minute", "S", cost=2)(pages)
    own = site.limiter.shared_limit("4/minute", "S", cost=2, override_defaults=False, deduct_when=never)
    pages.add_url_rule("/", "index", own(lambda: "ok"))
    site.app.register_blueprint(pages)
    assert site.ask("/", 3) == [200, 200, 429]


def test_the_hooks_of_both_are_told(make_site):
    site = make_site()
    told = itertools.count()
    limit = site.limiter.shared_limit
    inner = limit("0/minute", "S", on_breach=lambda decision: make_response(f"inner {next(told)}", 418))
    outer = limit("0/minute", "S", on_breach=lambda decision: make_response(f"outer {next(told)}", 418))
    site.app.add_url_rule("/", "index", outer(inner(lambda: "ok")))
    assert site.open("/").text == "outer 1"


def test_a_class_and_its_method_may_name_their_limits_alike(make_site):
    site = make_site()

    class Items(MethodView):
        decorators = [site.limiter.limit("5/minute", name="n")]  # noqa: RUF012

        def get(self):
            return "ok"

        @site.limiter.limit("2/minute", name="n", deduct_when=never)
        def post(self):
            return "ok"

    site.app.add_url_rule("/", view_func=Items.as_view("items"))
    assert [site.open("/", method="POST").status_code for _ in range(6)] == [200] * 5 + [429]
