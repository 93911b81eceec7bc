"""Which limits hold for a request: one row per case, limits told apart by their quota."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from flask import Blueprint

from overlimit.flask import RateLimit

APPLICATION, DEFAULT = 1000, 900
ROUTE, SECOND = 500, 501
PARENT, CHILD, YOUNGEST = 300, 200, 100


class AppliedLimit(NamedTuple):
    """A limit put on a route or a blueprint."""

    quota: int
    options: dict[str, Any]


def mark(quota: int, **options: Any) -> AppliedLimit:
    return AppliedLimit(quota, options)


def keeping(quota: int, **options: Any) -> AppliedLimit:
    """Return a mark that leaves what is further out in force."""
    return mark(quota, override_defaults=False, **options)


@pytest.fixture
def held(make_site):
    """Return a function: the quotas that hold on a route with marks, in nested blueprints with marks."""

    def ask(route, parent=None, child=None, grandchild=None, method="GET"):
        site = make_site(default_limits=f"{DEFAULT}/minute", application_limits=f"{APPLICATION}/minute")

        def limits(marks):
            return [site.limiter.limit(f"{each.quota}/minute", **each.options) for each in marks]

        def view():
            return "ok"

        for limit in limits(route):
            view = limit(view)
        levels = {"parent": parent, "child": child, "grandchild": grandchild}
        scaffold, chain = site.app, []
        for name, marks in levels.items():
            if marks is not None:
                scaffold = Blueprint(name, __name__)
                chain.append(scaffold)
                for limit in limits(marks):
                    limit(scaffold)
        scaffold.add_url_rule("/", "view", view, methods=["GET", "POST"])
        for outer, inner in reversed(list(zip([site.app, *chain], chain, strict=False))):
            outer.register_blueprint(inner)
        return site.quotas("/", method=method)

    return ask


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], [DEFAULT, APPLICATION]),
        ([mark(ROUTE)], [ROUTE, APPLICATION]),
        ([keeping(ROUTE)], [ROUTE, DEFAULT, APPLICATION]),
        ([mark(ROUTE), mark(SECOND)], [ROUTE, SECOND, APPLICATION]),
        ([mark(ROUTE), keeping(SECOND)], [ROUTE, SECOND, APPLICATION]),
        ([keeping(ROUTE), mark(SECOND)], [ROUTE, SECOND, APPLICATION]),
        ([keeping(ROUTE), keeping(SECOND)], [ROUTE, SECOND, DEFAULT, APPLICATION]),
        ([mark(ROUTE, methods=["GET"])], [ROUTE, APPLICATION]),
        ([mark(ROUTE, methods=["POST"])], [DEFAULT, APPLICATION]),
        ([mark(ROUTE, methods=["POST"]), keeping(SECOND)], [SECOND, DEFAULT, APPLICATION]),
        ([mark(ROUTE, methods=["POST"]), mark(SECOND, methods=["PUT"])], [DEFAULT, APPLICATION]),
        ([mark(ROUTE, exempt_when=lambda: True)], [APPLICATION]),
        ([keeping(ROUTE, exempt_when=lambda: True)], [DEFAULT, APPLICATION]),
        ([mark(ROUTE, exempt_when=lambda: True), mark(SECOND)], [SECOND, APPLICATION]),
        ([mark(ROUTE, exempt_when=lambda: False)], [ROUTE, APPLICATION]),
    ],
)
def test_what_holds_on_a_route_of_the_app(held, marks, expected):
    assert held(marks) == sorted(expected)


@pytest.mark.parametrize(
    ("route", "parent", "expected"),
    [
        ([], [], [DEFAULT]),
        ([], [mark(PARENT)], [PARENT]),
        ([], [keeping(PARENT)], [PARENT, DEFAULT]),
        ([], [mark(PARENT), mark(CHILD)], [PARENT, CHILD]),
        ([mark(ROUTE)], [mark(PARENT)], [ROUTE]),
        ([mark(ROUTE)], [keeping(PARENT)], [ROUTE]),
        ([keeping(ROUTE)], [mark(PARENT)], [ROUTE, PARENT]),
        ([keeping(ROUTE)], [keeping(PARENT)], [ROUTE, PARENT, DEFAULT]),
        ([mark(ROUTE, methods=["POST"])], [mark(PARENT)], [PARENT]),
        ([], [mark(PARENT, methods=["POST"])], [DEFAULT]),
        ([], [mark(PARENT, exempt_when=lambda: True)], []),
        ([mark(ROUTE, exempt_when=lambda: True)], [mark(PARENT)], []),
    ],
)
def test_what_holds_on_a_route_of_a_blueprint(held, route, parent, expected):
    assert held(route, parent) == sorted([*expected, APPLICATION])


@pytest.mark.parametrize(
    ("route", "parent", "child", "grandchild", "expected"),
    [
        ([], [mark(PARENT)], [], [], [PARENT]),
        ([], [keeping(PARENT)], [], [], [PARENT, DEFAULT]),
        ([], [mark(PARENT)], [mark(CHILD)], [], [CHILD]),
        ([], [mark(PARENT)], [keeping(CHILD)], [], [CHILD, PARENT]),
        ([], [keeping(PARENT)], [keeping(CHILD)], [keeping(YOUNGEST)], [PARENT, CHILD, YOUNGEST, DEFAULT]),
        ([], [mark(PARENT)], [mark(CHILD)], [keeping(YOUNGEST)], [YOUNGEST, CHILD]),
        ([], [mark(PARENT)], [keeping(CHILD)], [mark(YOUNGEST)], [YOUNGEST]),
        ([], [mark(PARENT)], [], [keeping(YOUNGEST)], [PARENT, YOUNGEST]),
        ([], [], [], [mark(YOUNGEST)], [YOUNGEST]),
        ([keeping(ROUTE)], [mark(PARENT)], [keeping(CHILD)], [], [ROUTE, CHILD, PARENT]),
        ([keeping(ROUTE)], [mark(PARENT)], [mark(CHILD)], [], [ROUTE, CHILD]),
        ([mark(ROUTE)], [mark(PARENT)], [keeping(CHILD)], [], [ROUTE]),
        ([], [mark(PARENT)], [mark(CHILD, methods=["POST"])], [], [PARENT]),
    ],
)
def test_what_holds_on_a_route_of_nested_blueprints(held, route, parent, child, grandchild, expected):
    assert held(route, parent, child, grandchild) == sorted([*expected, APPLICATION])


def test_each_method_of_a_route_has_what_holds_for_it(held):
    marks = [mark(ROUTE, methods=["POST"])]
    assert held(marks, [mark(PARENT)], method="POST") == [ROUTE, APPLICATION]
    assert held(marks, [mark(PARENT)], method="GET") == [PARENT, APPLICATION]


def test_a_mark_of_another_rate_limit_leaves_the_defaults_of_this_one(make_site, store, clock):
    site = make_site(default_limits=f"{DEFAULT}/minute")
    other = RateLimit(site.app, default_limits=f"{DEFAULT + 1}/minute", store=store, clock=clock)
    site.route("/", other.limit(f"{ROUTE}/minute"))
    assert site.quotas("/") == [ROUTE, DEFAULT]


def make_blueprint(name: str, *paths: str) -> Blueprint:
    blueprint = Blueprint(name, __name__, url_prefix=f"/{name}")
    for path in paths:
        blueprint.add_url_rule(f"/{path}", path, lambda: "ok", methods=["GET", "POST"])
    return blueprint


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_limit_on_a_blueprint_counts_each_of_its_endpoints_apart(make_site, when):
    site = make_site(default_limits="1/minute")
    pages = make_blueprint("pages", "a", "b")
    if when == "before":
        site.limiter.limit("2/minute")(pages)
    site.app.register_blueprint(pages)
    if when == "after":
        site.limiter.limit("2/minute")(pages)
    assert site.ask("/pages/a", 3) + site.ask("/pages/b", 3) == [200, 200, 429] * 2
    assert site.ask("/free", 2) == [200, 429]


def test_routes_added_after_the_limit_have_it_too(make_site):
    site = make_site()
    pages = site.limiter.limit("1/minute")(make_blueprint("pages"))
    pages.get("/late")(lambda: "late")
    site.app.register_blueprint(pages)
    assert site.ask("/pages/late", 2) == [200, 429]


def test_a_blueprint_registered_twice_counts_per_endpoint(make_site):
    site = make_site()
    pages = site.limiter.limit("2/minute")(make_blueprint("pages", "a"))
    site.app.register_blueprint(pages)
    site.app.register_blueprint(pages, name="again", url_prefix="/again")
    assert site.ask("/pages/a", 3) + site.ask("/again/a", 3) == [200, 200, 429] * 2


def test_an_inherited_limit_counts_per_endpoint_of_the_descendants(make_site):
    site = make_site(default_limits="1/minute")
    outer, inner = make_blueprint("outer", "a"), make_blueprint("inner", "a")
    site.limiter.limit("2/minute")(outer)
    outer.register_blueprint(inner)
    site.app.register_blueprint(outer)
    assert site.ask("/outer/a", 3) + site.ask("/outer/inner/a", 3) == [200, 200, 429] * 2


def test_a_nested_blueprint_registered_at_the_top_too_inherits_nothing_there(make_site):
    site = make_site(default_limits="1/minute")
    outer, inner = make_blueprint("outer"), make_blueprint("inner", "a")
    site.limiter.limit("3/minute")(outer)
    outer.register_blueprint(inner)
    site.app.register_blueprint(outer)
    site.app.register_blueprint(inner)
    assert site.quotas("/outer/inner/a") == [3]
    assert site.quotas("/inner/a") == [1]


def test_an_endpoint_with_a_dot_that_is_no_blueprints_has_the_default_limits(make_site):
    site = make_site(default_limits="2/minute")
    site.route("/dotted", endpoint="not.a.blueprint")
    assert site.ask("/dotted", 3) == [200, 200, 429]
