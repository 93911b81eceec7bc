"""What is exempt from which limits, told apart by their quota, and what nobody counts."""

from __future__ import annotations

import pytest
from flask import Blueprint

from overlimit import flask as extension
from overlimit.flask import RateLimit

A, D, ROUTE, PARENT, CHILD = 1000, 900, 500, 300, 200


@pytest.fixture
def site(make_site):
    return make_site(application_limits=f"{A}/minute", default_limits=f"{D}/minute")


def scope(flags):
    """Return the ExemptionScope of flags as they are written: ``"DEFAULT|META"``."""
    found = extension.ExemptionScope.NONE
    for flag in flags.split("|"):
        found |= extension.ExemptionScope[flag]
    return found


def exempt_with(site, flags):
    """Return ``limiter.exempt`` with flags; None: as it is."""
    return site.limiter.exempt if flags is None else site.limiter.exempt(flags=scope(flags))


@pytest.fixture
def family(site):
    """Return a function that puts a blueprint into another, each with a page, limits and exemptions."""

    def make(limited=(), **flags):
        pages = {name: Blueprint(name, __name__) for name in ("parent", "child")}
        for name, blueprint in pages.items():
            blueprint.get(f"/{name}")(lambda: "ok")
            if name in limited:
                site.limiter.limit(f"{PARENT if name == 'parent' else CHILD}/minute")(blueprint)
            if name in flags:
                site.limiter.exempt(blueprint, flags=scope(flags[name]))
        pages["parent"].register_blueprint(pages["child"])
        site.app.register_blueprint(pages["parent"])
        return site.quotas("/parent"), site.quotas("/child")

    return make


@pytest.mark.parametrize(
    ("flags", "held"),
    [
        (None, []),
        ("APPLICATION|DEFAULT|META", []),
        ("NONE", [D, A]),
        ("META", [D, A]),
        ("APPLICATION", [D]),
        ("DEFAULT", [A]),
        ("APPLICATION|DEFAULT", []),
        ("DEFAULT|META", [A]),
        ("DESCENDENTS", [D, A]),
    ],
)
def test_what_an_exempt_view_is_exempt_from(site, flags, held):
    site.route("/", exempt_with(site, flags))
    assert site.quotas("/") == held
    assert site.quotas("/free") == [D, A]


@pytest.mark.parametrize(
    ("flags", "held"), [(None, []), ("DEFAULT", [A]), ("APPLICATION", [ROUTE]), ("NONE", [ROUTE, A])]
)
@pytest.mark.parametrize("order", [1, -1], ids=["exempt above", "exempt below"])
def test_an_exempt_view_is_free_from_its_own_decorated_limits_too(site, flags, held, order):
    decorators = [exempt_with(site, flags), site.limiter.limit(f"{ROUTE}/minute")]
    site.route("/", *decorators[::order])
    assert site.quotas("/") == held


@pytest.mark.parametrize(
    ("flags", "held"), [(None, []), ("DEFAULT", [A]), ("APPLICATION", [PARENT]), ("NONE", [PARENT, A])]
)
def test_an_exempt_view_is_free_from_its_blueprints_limits(site, flags, held):
    pages = Blueprint("pages", __name__)
    pages.get("/")(exempt_with(site, flags)(lambda: "ok"))
    site.limiter.limit(f"{PARENT}/minute")(pages)
    site.app.register_blueprint(pages)
    assert site.quotas("/") == held


@pytest.mark.parametrize(
    ("flags", "in_parent", "in_child"),
    [
        ("APPLICATION|DEFAULT|META", [], [D, A]),
        ("NONE", [D, A], [D, A]),
        ("DEFAULT", [A], [D, A]),
        ("APPLICATION", [D], [D, A]),
        ("META", [D, A], [D, A]),
        ("APPLICATION|DEFAULT|META|DESCENDENTS", [], []),
        ("DEFAULT|DESCENDENTS", [A], [A]),
        ("APPLICATION|DESCENDENTS", [D], [D]),
        ("DESCENDENTS", [D, A], [D, A]),
    ],
)
def test_an_exempt_blueprint_frees_nested_ones_only_with_descendents(family, flags, in_parent, in_child):
    assert family(parent=flags) == (in_parent, in_child)


def test_a_blueprint_exempt_with_its_descendants_hands_down_no_limits_of_its_own(family):
    assert family(["parent"], parent="DEFAULT|DESCENDENTS") == ([PARENT, A], [A])


@pytest.mark.parametrize(
    ("flags", "held"),
    [
        ("NONE", [PARENT, A]),
        ("ANCESTORS", [D, A]),
        ("DEFAULT", [PARENT, A]),
        ("ANCESTORS|DEFAULT", [A]),
        ("ANCESTORS|APPLICATION", [D]),
        ("ANCESTORS|APPLICATION|DEFAULT|META", []),
        ("APPLICATION", [PARENT]),
    ],
)
def test_what_a_nested_blueprint_is_exempt_from_of_its_ancestors(family, flags, held):
    assert family(["parent"], child=flags) == ([PARENT, A], held)


@pytest.mark.parametrize(
    ("flags", "held"),
    [
        ("APPLICATION|DEFAULT|META", [CHILD]),
        ("DEFAULT", [CHILD, A]),
        ("APPLICATION", [CHILD]),
        ("ANCESTORS", [CHILD, A]),
    ],
)
def test_an_exempt_blueprint_keeps_its_own_limits(family, flags, held):
    assert family(["child"], child=flags) == ([D, A], held)


def test_exemptions_and_limits_of_a_tree_of_blueprints(make_site):
    site = make_site(application_limits="5/day", default_limits="1/minute")
    held = {"n1": [], "n1_1": [2], "n1_1_1": [], "n1_1_2": [3], "n2": [2, 5], "n2_1": [3], "n2_1_1": [1, 5]}
    tree = {name: Blueprint(name, __name__) for name in held}
    for name, blueprint in tree.items():
        blueprint.get(f"/{name}")(lambda: "ok")
    exempt, limit = site.limiter.exempt, site.limiter.limit
    exempt(tree["n1"], flags=scope("DEFAULT|APPLICATION|DESCENDENTS"))
    limit("2/minute")(tree["n1_1"])
    exempt(tree["n1_1_1"], flags=scope("ANCESTORS"))
    limit("3/minute")(tree["n1_1_2"])
    limit("2/minute")(tree["n2"])
    exempt(tree["n2_1"], flags=scope("DEFAULT|APPLICATION"))
    limit("3/minute")(tree["n2_1"])
    exempt(tree["n2_1_1"], flags=scope("ANCESTORS"))
    for name in reversed(tree):
        tree.get(name.rpartition("_")[0], site.app).register_blueprint(tree[name])
    assert {name: site.quotas(f"/{name}") for name in tree} == held


@pytest.mark.parametrize("flags", ["ANCESTORS", "DESCENDENTS|ANCESTORS", "DEFAULT|DESCENDENTS|ANCESTORS"])
def test_a_blueprint_exempt_from_its_ancestors_keeps_their_limits_from_nested_ones(make_site, flags):
    site = make_site()
    outer, middle, inner = (Blueprint(name, __name__) for name in ("outer", "middle", "inner"))
    site.limiter.limit("2/minute")(outer)
    site.limiter.exempt(middle, flags=scope(flags))
    inner.get("/")(lambda: "ok")
    middle.register_blueprint(inner)
    outer.register_blueprint(middle)
    site.app.register_blueprint(outer)
    assert site.quotas("/") == []


def test_a_bare_decorator_a_called_one_and_one_above_the_route_hold(site):
    site.route("/bare", site.limiter.exempt)
    site.route("/called", site.limiter.exempt())
    site.limiter.exempt(site.app.get("/above", endpoint="above")(lambda: "ok"))
    assert site.quotas("/bare") == site.quotas("/called") == site.quotas("/above") == []


def test_an_exemption_concerns_one_rate_limit_only(site, store, clock):
    other = RateLimit(site.app, default_limits="2/minute", store=store, clock=clock, algorithm="fixed_window")
    site.route("/", site.limiter.exempt)
    site.route("/other", other.exempt)
    assert site.ask("/", 3) == [200, 200, 429]
    assert site.quotas("/other") == [D, A]


@pytest.mark.parametrize("what", ["pages", 5, 1.5], ids=repr)
def test_only_views_and_blueprints_can_be_exempt(make_site, what):
    with pytest.raises(TypeError, match="function or a blueprint"):
        make_site().limiter.exempt(what)
