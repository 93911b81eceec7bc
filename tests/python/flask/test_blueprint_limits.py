"""Limits on blueprints: what their routes and those of nested ones get."""

from __future__ import annotations

import pytest
from flask import Blueprint


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


def test_a_limit_that_overrides_cuts_off_all_ancestors_limits(make_site, clock):
    site = make_site(default_limits="1/minute")
    grand, parent, child = (make_blueprint(name, "a") for name in ("grand", "parent", "child"))
    site.limiter.limit("3/hour")(grand)
    site.limiter.limit("2/minute")(parent)
    site.limiter.limit("5/day", override_defaults=False)(child)
    parent.register_blueprint(child)
    grand.register_blueprint(parent)
    site.app.register_blueprint(grand)
    assert site.ask("/grand/a", 4) == [200] * 3 + [429]
    assert site.ask("/grand/parent/child/a", 3) == [200, 200, 429]
    for _ in range(2):
        clock.advance(60)
        assert site.ask("/grand/parent/a", 3) == [200, 200, 429]
    assert site.ask("/grand/parent/child/a", 3) == [200, 200, 429]
    clock.advance(60)
    assert site.ask("/grand/parent/child/a", 2) == [200, 429]


def test_methods_and_per_method_hold_on_a_blueprint(make_site):
    site = make_site(default_limits="2/minute")
    site.app.register_blueprint(site.limiter.limit("1/minute", methods=["POST"])(make_blueprint("x", "a")))
    site.app.register_blueprint(site.limiter.limit("1/minute", per_method=True)(make_blueprint("y", "a")))
    assert site.ask("/x/a", 3) + site.ask("/x/a", 2, method="POST") == [200, 200, 429, 200, 429]
    assert site.ask("/y/a", 2) + site.ask("/y/a", 2, method="POST") == [200, 429] * 2


def test_an_endpoint_with_a_dot_that_is_no_blueprints_has_the_default_limits(make_site):
    site = make_site(default_limits="2/minute")
    site.route("/dotted", endpoint="not.a.blueprint")
    assert site.ask("/dotted", 3) == [200, 200, 429]


def test_blueprints_of_one_name_in_two_apps_are_limited_apart(make_site):
    first, second = make_site(key_prefix="first"), make_site(key_prefix="second")
    for site, quota in ((first, 1), (second, 2)):
        site.app.register_blueprint(site.limiter.limit(f"{quota}/minute")(make_blueprint("pages", "a")))
    assert first.ask("/pages/a", 2) == [200, 429]
    assert second.ask("/pages/a", 3) == [200, 200, 429]
