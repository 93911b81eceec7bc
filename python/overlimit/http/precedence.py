"""Which rules hold for a route: those of its decorators, of the groups it lies in, of the app.

docs/reference/flask.md has the rules as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from overlimit.http.exemptions import ALL_LIMITS, HANDED_DOWN, ExemptionScope
from overlimit.http.installation import Installation
from overlimit.http.installations import Installations
from overlimit.http.marks import Layer, Mark, Marks, labelled, marks_of_group
from overlimit.http.route_plan import StoreRules, join_rules
from overlimit.http.rules import Place, Rule

__all__ = [
    "Group",
    "Route",
    "check_marks",
    "rules_of_route",
    "stores_of_block",
    "stores_of_function",
    "stores_of_route",
]


class Group(NamedTuple):
    """A group of routes around a route, as a blueprint, by the name it is registered under."""

    name: str
    group: object


class Route(NamedTuple):
    """An endpoint, for one HTTP method, the decorators' limits on it and its groups, innermost first.

    ``labelled`` are those on the view, ``on_method`` those on the method of a class view that answers.

    ``view_decides``: a call of the view passes through a decorator, which then decides the request.
    ``limited`` is False for static files without a decorator.
    """

    endpoint: str
    method: str
    handlers: tuple[Callable[..., Any], ...] = ()
    """The view, and the method of a class view that answers."""
    labelled: tuple[tuple[str, Mark], ...] = ()
    on_method: Marks = ()
    groups: tuple[Group, ...] = ()
    view_decides: bool = False
    limited: bool = False

    @property
    def marks(self) -> Iterator[Mark]:
        """All decorators on it, those of its groups apart."""
        yield from (mark for _, mark in self.labelled)
        yield from self.on_method


def stores_of_route(installations: Installations, route: Route) -> tuple[StoreRules, ...]:
    """Compile the rules of a route.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    InvalidLimit
        Limits do not fit the algorithm of the RateLimit they go through.
    """
    check_marks(installations, route)
    rules = {each: tuple(rules_of_route(installations, each, route)) for each in installations}
    return join_rules(rules, _place(route, "fallback", route.endpoint))


def check_marks(installations: Installations, route: Route) -> None:
    """See to it that all limits of a route, inherited ones too, have a RateLimit to go through.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    installations.check(route.marks)
    for each in route.groups:
        installations.check(marks_of_group(each.group))


def rules_of_route(installations: Installations, installation: Installation, route: Route) -> Iterator[Rule]:
    """Yield what may hold for a route through one RateLimit; the order is that of the header fields."""
    if not route.limited:
        return
    exempt = _exempt(installation, route)
    overridden = False
    if ExemptionScope.DEFAULT not in installation.exemptions.of_handlers(route.handlers):
        own = [mark for mark in route.marks if _holds(installations, installation, route, mark)]
        yield from _own(installation, route, own)
        overridden = any(mark.options.override_defaults for mark in own)
        inherited = () if overridden else tuple(_inherited(installations, installation, route))
        for group, label, mark in inherited:
            place = _place(route, "blueprint", route.endpoint, group, label)
            yield from installation.decorated(mark.options, place)
            overridden = overridden or mark.options.override_defaults
    if not overridden and ExemptionScope.DEFAULT not in exempt:
        yield from installation.default(_place(route, "default", route.endpoint, shown="default"))
    if ExemptionScope.APPLICATION not in exempt:
        yield from installation.application(_place(route, "application", shown="application"))
    if ExemptionScope.META not in exempt:
        yield from installation.meta(_place(route, "meta", shown="meta"))


def _own(installation: Installation, route: Route, marks: Collection[Mark]) -> Iterator[Rule]:
    """Yield the limits of these decorators on the view, then of those on the method that answers."""
    for label, mark in route.labelled:
        if mark in marks:
            yield from installation.decorated(mark.options, _place(route, "route", route.endpoint, label))
    for mark in route.on_method:
        if mark in marks:
            place = _place(route, "route-function", route.endpoint)
            yield from installation.on_one_of_several(mark.options, place, answers_apart=True)


def stores_of_function(installations: Installations, layer: Layer, route: Route) -> tuple[StoreRules, ...]:
    """Compile the limits of a decorated function that a request calls beside its view, and meta limits.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    place = _place(route, "route-function", route.endpoint, shown=layer.shown)
    rules = _rules_of_several(installations, layer.marks, place, answers_apart=True)
    return join_rules(_with_meta(rules, route), place._replace(kind="fallback"))


def stores_of_block(installations: Installations, mark: Mark, route: Route) -> tuple[StoreRules, ...]:
    """Compile the limits of a ``with`` block, and meta limits.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    place = _place(route, "with", route.endpoint)
    rules = _rules_of_several(installations, (mark,), place, answers_apart=False)
    return join_rules(_with_meta(rules, route), place._replace(kind="fallback"))


RulesByInstallation = dict[Installation, tuple[Rule, ...]]


def _rules_of_several(
    installations: Installations, marks: Iterable[Mark], place: Place, *, answers_apart: bool
) -> RulesByInstallation:
    found: RulesByInstallation = {}
    for mark in marks:
        if mark.options.holds_for(place.method):
            installation = installations.acting_for(mark)
            rules = installation.on_one_of_several(mark.options, place, answers_apart=answers_apart)
            found[installation] = (*found.get(installation, ()), *rules)
    return found


def _with_meta(found: RulesByInstallation, route: Route) -> RulesByInstallation:
    for installation in found:
        if ExemptionScope.META not in _exempt(installation, route):
            found[installation] += tuple(installation.meta(_place(route, "meta", shown="meta")))
    return found


def _exempt(installation: Installation, route: Route) -> ExemptionScope:
    """Return what a route is exempt from, the exemptions of its groups included."""
    exemptions = installation.exemptions
    found = exemptions.of_handlers(route.handlers)
    for depth, each in enumerate(route.groups):
        flags = exemptions.of_group(each.group)
        if depth == 0 or ExemptionScope.DESCENDENTS in flags:
            found |= flags & ALL_LIMITS
    return found


def _holds(installations: Installations, installation: Installation, route: Route, mark: Mark) -> bool:
    return mark.options.holds_for(route.method) and installations.acting_for(mark) is installation


def _inherited(
    installations: Installations, installation: Installation, route: Route
) -> Iterator[tuple[str, str, Mark]]:
    """Yield the limits of the groups around a route, outwards up to the first that overrides."""
    for depth, each in enumerate(route.groups):
        exempt = installation.exemptions.of_group(each.group)
        if depth and HANDED_DOWN in exempt:
            continue
        marks: Marks = marks_of_group(each.group)
        here = [
            (label, mark)
            for label, mark in labelled(marks)
            if _holds(installations, installation, route, mark)
        ]
        yield from ((each.name, label, mark) for label, mark in here)
        if any(mark.options.override_defaults for _, mark in here):
            return
        if ExemptionScope.ANCESTORS in exempt:
            return


def _place(route: Route, kind: str, *parts: str, shown: str | None = None) -> Place:
    return Place(kind, parts, shown or route.endpoint, route.endpoint, route.method)
