"""Which rules hold for a route: those of its decorators, of its groups and of the app.

docs/reference/web.md has this as tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from overlimit._messages.texts import nearest
from overlimit.budgets import FirstOf
from overlimit.http.identifying.builtin import everybody
from overlimit.http.options.limit_options import LimitOptions, Part, is_dynamic, text_of
from overlimit.http.rules.app_rate_limits import AppRateLimit, AppRateLimits
from overlimit.http.rules.applied_limits import (
    ALL_LIMITS,
    HANDED_DOWN,
    AppliedLimit,
    AppliedLimits,
    ExemptionScope,
    applied_limits_of_group,
    labelled,
)
from overlimit.http.rules.count_names import CountName, field_name_of
from overlimit.http.rules.counts import Role
from overlimit.http.rules.file_limits import FileLimits, RoutePaths
from overlimit.http.rules.rule import Entry, Rule, digest
from overlimit.limiter import Limiter

STANDARD_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"))
"""The methods of HTTP itself."""

RulesByRateLimit = dict[AppRateLimit, tuple[Rule, ...]]


class RouteGroup(NamedTuple):
    """A group of routes: what the framework calls such a group, its name, and the group itself."""

    kind: str
    name: str
    group: object


class Route(NamedTuple):
    """An endpoint for one HTTP method, with the limits that decorators have put on it and on its groups."""

    endpoint: str
    method: str
    handlers: tuple[Callable[..., Any], ...] = ()
    """The function that answers; for a class also its method."""
    labelled: tuple[tuple[str, AppliedLimit], ...] = ()
    """The applied limits of the function, with their labels."""
    on_method: AppliedLimits = ()
    """The applied limits of the method of a class."""
    groups: tuple[RouteGroup, ...] = ()
    """The groups that it is in, the innermost first."""
    handler_decides: bool = False
    """Whether a call of the function passes through a decorator, which then decides the request."""
    limited: bool = False
    """Whether it can be limited; static files without a decorator are not."""
    paths: tuple[str, ...] = ()
    """The paths that lead to it, as the framework writes them."""
    field_name: str = ""
    """The name of its limits in header fields, if it is not the endpoint."""
    whole: str = ""
    """By what default limits count it, if the endpoint is only a part of that."""

    @property
    def applied_limits(self) -> Iterator[AppliedLimit]:
        """All applied limits of the function and of the method, but not those of its groups."""
        yield from (applied for _, applied in self.labelled)
        yield from self.on_method


RulesOfRoute = tuple[Route, tuple[Rule, ...]]
"""A route, and all rules that may hold for it."""


def check_registered(rate_limits: AppRateLimits, route: Route) -> None:
    """Raise RuntimeError unless each limit of a route, inherited ones too, has its RateLimit on the app."""
    inherited = (applied for each in route.groups for applied in applied_limits_of_group(each.group))
    for applied in (*route.applied_limits, *inherited):
        rate_limits.acting_for(applied)


def check_methods(route: Route, more: Iterable[AppliedLimit], taken: Collection[str], app_name: str) -> None:
    """Raise ValueError if limits of a route, or ``more``, name methods that neither HTTP nor the app has.

    ``taken`` are the methods that the routes of the app take.
    """
    inherited = (each for group in route.groups for each in applied_limits_of_group(group.group))
    found = (*route.applied_limits, *inherited, *more)
    named = {name for applied in found for name in applied.options.methods or ()}
    for name in sorted(named - STANDARD_METHODS - set(taken)):
        like = nearest(name, (*taken, *STANDARD_METHODS))
        hint = f"did you mean {like!r}?" if like else "name some that its routes take, as 'GET'"
        raise ValueError(
            f"a limit for {route.endpoint!r} has methods=[{name!r}], which no route of {app_name!r} "
            f"takes: {hint}"
        )


def rules_of_route(rate_limits: AppRateLimits, rate_limit: AppRateLimit, route: Route) -> Iterator[Rule]:
    """Yield the rules of one RateLimit that may hold for a route, in the order of the header fields."""
    if not route.limited:
        return
    exempt = _exempt(rate_limit, route)
    overridden = False
    is_exempt = ExemptionScope.DEFAULT in rate_limit.exemptions.of_handlers(route.handlers)
    if not is_exempt and rate_limit.file is not None:
        for rule in _of_file(rate_limit, rate_limit.file, route):
            overridden = overridden or rule.options.replaces_defaults
            yield rule
    if not (is_exempt or overridden):
        own = [each for each in route.applied_limits if _holds(rate_limits, rate_limit, route, each)]
        yield from rules_of_decorators(rate_limit, route, own)
        overridden = any(each.options.replaces_defaults for each in own)
        inherited = () if overridden else tuple(_inherited(rate_limits, rate_limit, route))
        for group, label, applied in inherited:
            count = count_of(route, group.kind, group.name, label)
            yield from _decorated(rate_limit, applied.options, count)
            overridden = overridden or applied.options.replaces_defaults
    if not overridden and ExemptionScope.DEFAULT not in exempt:
        whole = route._replace(endpoint=route.whole or route.endpoint)
        default = count_of(whole, "default", field_name="default")
        yield from rules_of_options(rate_limit, rate_limit.group("default_limits"), default)
    if ExemptionScope.APPLICATION not in exempt:
        application = count_of_all(route, "application")
        yield from rules_of_options(rate_limit, rate_limit.group("application_limits"), application)
        yield from global_rules(rate_limit, count_of_all(route, "global"))
    if ExemptionScope.META not in exempt:
        yield from meta_rules(rate_limit, route)


def _of_file(rate_limit: AppRateLimit, file: FileLimits, route: Route) -> Iterator[Rule]:
    """Yield the rules that a file has for a route, in counts of the pattern, wherever that leads to."""
    named = file.of_route(RoutePaths(route.method, route.paths))
    if named is not None:
        pattern, options = named
        if any(True for _ in route.applied_limits):
            file.tell_of(f"{pattern!r}, in place of the decorators of {route.endpoint!r}")
        count = CountName("file", (pattern,), field_name_of(pattern), route.endpoint, route.method)
        yield from rules_of_options(rate_limit, options, count)


def rules_of_decorators(
    rate_limit: AppRateLimit, route: Route, applied_limits: Collection[AppliedLimit]
) -> Iterator[Rule]:
    """Yield the rules of these applied limits: first of the function, then of the method that answers."""
    for label, applied in route.labelled:
        if applied in applied_limits:
            count = count_of(route, "route", label)
            yield from _decorated(rate_limit, applied.options, count)
    for applied in route.on_method:
        if applied in applied_limits:
            count = count_of(route, "route-function")
            yield from _one_of_several(rate_limit, applied.options, count)


def rules_besides(
    rate_limits: AppRateLimits, applied_limits: AppliedLimits, route: Route, count: CountName
) -> RulesByRateLimit:
    """Return the rules of a function or block that a request meets besides its handler, and meta limits."""
    found: RulesByRateLimit = {}
    for applied in applied_limits:
        if applied.options.holds_for(count.method):
            rate_limit = rate_limits.acting_for(applied)
            rules = _one_of_several(rate_limit, applied.options, count)
            found[rate_limit] = (*found.get(rate_limit, ()), *rules)
    for rate_limit in found:
        if ExemptionScope.META not in _exempt(rate_limit, route):
            found[rate_limit] += tuple(meta_rules(rate_limit, route))
    return found


def rules_of_options(
    rate_limit: AppRateLimit, options: LimitOptions, count: CountName, role: Role = Role.ENFORCE
) -> Iterator[Rule]:
    """Yield the rules that options make, and where they count."""
    count = count.by_method() if options.said["per_method"] else count
    for number, part in enumerate(options.parts):
        own = count.of_policy(number)
        for rule in _rules_of_part(rate_limit, options, own, role, part):
            yield rule._replace(by_numbers=is_dynamic(rule.value) and rule.counted_endpoint is None)


def _rules_of_part(
    rate_limit: AppRateLimit, options: LimitOptions, count: CountName, role: Role, part: Part
) -> Iterator[Rule]:
    """Yield a rule, or one for each budget of a `first_of`."""
    if not isinstance(part, FirstOf):
        yield Rule(rate_limit, options, count, role, part)
        return
    for place, budget in enumerate(part.budgets):
        own = count.variant("budget", str(place))
        rule = Rule(rate_limit, options, own, role, budget, entry=Entry(count, place))
        limits = rule.limits or ()
        is_alone = len(limits) == 1 and not isinstance(budget, Limiter)
        yield rule._replace(label=limits[0].label) if is_alone else rule


def global_rules(rate_limit: AppRateLimit, count: CountName) -> Iterator[Rule]:
    """Yield the rules that count all clients together."""
    options = dataclasses.replace(rate_limit.settings.group("global_limits"), identifiers=everybody)
    return rules_of_options(rate_limit, options, count)


def fallback_rules(rate_limit: AppRateLimit, count: CountName) -> Iterator[Rule]:
    """Yield the rules that replace all others while the store of the RateLimit fails."""
    for rule in rules_of_options(rate_limit, rate_limit.settings.group("in_memory_fallback"), count):
        yield rule._replace(replaces_others=True)


def count_of(route: Route, kind: str, *parts: str, field_name: str | None = None) -> CountName:
    """Return where limits of this kind count that count a route's endpoint alone."""
    endpoint = route.endpoint
    field_name = field_name or route.field_name or endpoint
    return CountName(kind, parts, field_name, endpoint, route.method, endpoint)


def count_of_all(route: Route, kind: str) -> CountName:
    """Return where limits of this kind count that count all endpoints together."""
    return CountName(kind, (), kind, route.endpoint, route.method)


def meta_rules(rate_limit: AppRateLimit, route: Route) -> Iterator[Rule]:
    """Yield the rules that count refusals of the whole app."""
    count = count_of_all(route, "meta")
    return rules_of_options(rate_limit, rate_limit.settings.group("meta_limits"), count, Role.ON_REFUSAL)


def _decorated(rate_limit: AppRateLimit, options: LimitOptions, count: CountName) -> Iterator[Rule]:
    """Yield the rules of a decorator, and of its meta limits, which count for the whole app."""
    yield from rules_of_options(rate_limit, options, count)
    yield from _meta_of_decorator(rate_limit, options, count)


def _one_of_several(rate_limit: AppRateLimit, options: LimitOptions, count: CountName) -> Iterator[Rule]:
    """Yield the rules of a decorator on one of several functions or blocks of an endpoint.

    Equal limits count together there: those with the same ``identifiers`` and the same ``name``. Limits that
    a function returns count together with those that the same function returns elsewhere; except in blocks,
    limits of different numbers have separate counts.
    """
    if options.is_shared:
        yield from rules_of_options(rate_limit, options, count)
    else:
        own = count.by_method() if options.said["per_method"] else count
        yield from _rules_of_equal_limits(rate_limit, options, own)
    yield from _meta_of_decorator(rate_limit, options, count)


def _rules_of_equal_limits(
    rate_limit: AppRateLimit, options: LimitOptions, count: CountName
) -> Iterator[Rule]:
    for part in options.parts:
        if isinstance(part, FirstOf):
            own = _of_equal_limits(count, options, "first_of", repr(part))
            yield from _rules_of_part(rate_limit, options, own, Role.ENFORCE, part)
            continue
        if is_dynamic(part):
            own = _of_equal_limits(count, options, "function", options.fingerprint(part))
            yield Rule(rate_limit, options, own, Role.ENFORCE, part, by_numbers=count.kind != "with")
            continue
        limits = rate_limit.read_limits(part, options.said["algorithm"])
        for limit in limits:
            own = _of_equal_limits(count, options, limit.counted_by_numbers().tag)
            label = limit.label if len(limits) > 1 else ""
            yield Rule(rate_limit, options, own, Role.ENFORCE, limit, label)


def _of_equal_limits(count: CountName, options: LimitOptions, *what: object) -> CountName:
    """Return where limits that agree in ``what`` and in these options count together."""
    alike = (options.fingerprint(options.identifiers), options.said["shadow"], options.said["name"], *what)
    return count._replace(parts=(*count.parts, digest(alike)))


def _meta_of_decorator(rate_limit: AppRateLimit, options: LimitOptions, count: CountName) -> Iterator[Rule]:
    said = options.said
    if options.meta_limits and not said["shadow"]:
        meta = LimitOptions(options.meta_limits, options.identifiers).saying(
            algorithm=said["algorithm"], anonymous=said["anonymous"], exempt_when=said["exempt_when"]
        )
        text = text_of(options.meta_limits)
        own = CountName("meta", (text,), "meta", count.endpoint, count.method, variants=("of",))
        yield from rules_of_options(rate_limit, meta, own, Role.ON_REFUSAL)


def _exempt(rate_limit: AppRateLimit, route: Route) -> ExemptionScope:
    """Return what a route is exempt from, the exemptions of its groups included."""
    exemptions = rate_limit.exemptions
    found = exemptions.of_handlers(route.handlers)
    for depth, each in enumerate(route.groups):
        flags = exemptions.of_group(each.group)
        if depth == 0 or ExemptionScope.DESCENDENTS in flags:
            found |= flags & ALL_LIMITS
    return found


def _holds(rate_limits: AppRateLimits, rate_limit: AppRateLimit, route: Route, applied: AppliedLimit) -> bool:
    return applied.options.holds_for(route.method) and rate_limits.acting_for(applied) is rate_limit


def _inherited(
    rate_limits: AppRateLimits, rate_limit: AppRateLimit, route: Route
) -> Iterator[tuple[RouteGroup, str, AppliedLimit]]:
    """Yield the limits of a route's groups, from the innermost to the first that overrides the rest."""
    for depth, each in enumerate(route.groups):
        exempt = rate_limit.exemptions.of_group(each.group)
        hands_down = not depth or HANDED_DOWN not in exempt
        here = [
            (label, applied)
            for label, applied in labelled(applied_limits_of_group(each.group))
            if hands_down and _holds(rate_limits, rate_limit, route, applied)
        ]
        yield from ((each, label, applied) for label, applied in here)
        if any(applied.options.replaces_defaults for _, applied in here):
            return
        if ExemptionScope.ANCESTORS in exempt:
            return
