"""The rules of a route, compiled to one call to each store (mostly one), and kept until something changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from overlimit._logging.stores import answered, failed
from overlimit.errors import ScriptError, StoreConfigError, StoreError, StoreTimeout
from overlimit.http.callables import SuppliedFunction, awaited_in, found_in
from overlimit.http.deciding.functions import (
    all_functions_of,
    awaiting_rule,
    awaits,
    functions_of,
    may_block,
)
from overlimit.http.deciding.steps import Steps, awaiting
from overlimit.http.deciding.store_call import StoreCall, first_call
from overlimit.http.identifying.builtin import builtins_in
from overlimit.http.identifying.identifiers import NOBODY, IdentifierCache, may_return
from overlimit.http.options.limit_options import LimitOptions
from overlimit.http.rules.app_rate_limits import AppRateLimit, AppRateLimits
from overlimit.http.rules.applied_limits import AppliedLimit, AppliedLimits, Handle, LimitedFunction
from overlimit.http.rules.count_names import CountName
from overlimit.http.rules.counts import Arguments
from overlimit.http.rules.precedence import (
    Route,
    check_registered,
    count_of,
    fallback_rules,
    rules_besides,
    rules_of_route,
)
from overlimit.http.rules.rule import MOST_KEPT, ResolvedRule, Resolver, Rule
from overlimit.http.servers import warn_if_apart
from overlimit.stores import Store

Place = tuple[str, str]
"""An endpoint and an HTTP method."""


class StorePlan:
    """The rules that one store decides in one call: ``fixed_call``, if it is the same for each request."""

    __slots__ = (
        "_awaited",
        "_awaited_instead",
        "_call_of",
        "_fallback",
        "_in_outage",
        "_rate_limits",
        "_rules",
        "awaits",
        "fixed_call",
        "has_costs",
        "has_own_limits",
        "may_block",
        "may_count_user",
        "needs_body",
        "needs_loop",
        "rules",
        "supplied",
    )

    def __init__(self, rules: Mapping[AppRateLimit, Sequence[Rule]], fallback: Sequence[Rule] = ()) -> None:
        """Resolve what is the same for each request; ``fallback`` holds instead while the store fails."""
        self._rate_limits = tuple(rules)
        self.rules = rules
        """The rules of each RateLimit, as they are before a request."""
        self._rules = {each: tuple(rule.resolve_early() for rule in own) for each, own in rules.items()}
        self._fallback = tuple(rule.resolve_early() for rule in fallback)
        self._in_outage = False
        every_rule = tuple(rule for own in (*rules.values(), fallback) for rule in own)
        self.has_costs = any(rule.options.said["cost"] is not None for rule in every_rule)
        """Whether one of the limits has a cost, which can be settled."""
        self.has_own_limits = any(rule.counted_as.is_own for rule in every_rule)
        """Whether one of the limits is there for these requests alone, so that their code should know it."""
        identifies = {rule.identify for rule in every_rule}
        self.needs_body = any(each.reads_body for own in identifies for each in builtins_in(own))
        """Whether identifiers are read from the body; what functions of the app read is not known."""
        self._awaited = {each: tuple(filter(awaits, own)) for each, own in rules.items()}
        self._awaited_instead = tuple(filter(awaits, fallback))
        self.awaits = any(self._awaited.values()) or any(
            any(awaited_in(each.request_filters)) for each in self._rate_limits
        )
        """Whether `awaiting` is to be asked before `call_for`."""
        functions = tuple(functions_of(self._rate_limits, every_rule))
        self.needs_loop = any(each.waits for each in awaited_in(functions))
        """Whether a coroutine function has to be awaited before a request is decided."""
        self.supplied = tuple(found_in(SuppliedFunction, all_functions_of(self._rate_limits, every_rule)))
        """The functions that have to be supplied before a request is decided."""
        self.may_block = may_block(functions)
        """Whether functions of the app decide that may block an event loop."""
        self.may_count_user = any(may_return(rule.identify, "user:") for rule in every_rule)
        """Whether it may be asked who is logged in, to count that."""
        self._call_of = lru_cache(MOST_KEPT)(first_call)
        self.fixed_call = None if self._fallback else self._find_fixed_call()

    def _find_fixed_call(self) -> StoreCall | None:
        found = [rule for rules in self._rules.values() for rule in rules]
        fixed = tuple(
            each
            for each in found
            if isinstance(each, ResolvedRule) and not each.skips_anonymous and each.entry is None
        )
        always = all(each.enabled and not each.request_filters for each in self._rate_limits)
        return StoreCall(self._rate_limits, fixed) if always and len(fixed) == len(found) else None

    @property
    def memories(self) -> list[Store]:
        """Where it counts in memory, so that each process that serves the app has counts of its own."""
        stores = (each.store for each in self._rate_limits if each.enabled)
        return [store for store in stores if not store.is_shared]

    def awaiting(self, arguments: Arguments) -> Steps[None]:
        """Await the coroutine functions by which `call_for` finds the call for a request."""
        for rate_limit in self._rate_limits:
            yield from awaiting(rate_limit.request_filters, *arguments)
            if rate_limit.holds_for(arguments):
                for rule in self._awaited[rate_limit]:
                    yield from awaiting_rule(rule, arguments)

    def awaiting_instead(self, arguments: Arguments) -> Steps[None]:
        """Await the coroutine functions by which `call_instead` finds the call for a request."""
        for rule in self._awaited_instead:
            yield from awaiting_rule(rule, arguments)

    def call_for(self, identifiers: IdentifierCache) -> StoreCall | None:
        """Return the call for a request; None if no rule holds for it."""
        arguments = identifiers.request.arguments
        active = tuple(each for each in self._rate_limits if each.holds_for(arguments))
        return self._call(active, (rule for each in active for rule in self._rules[each]), identifiers)

    def call_instead(
        self, call: StoreCall, error: StoreError, identifiers: IdentifierCache
    ) -> StoreCall | None:
        """Return the call of the fallback for one that failed; raise the error if there is no fallback."""
        self.log_or_raise(error)
        return self._call(call.rate_limits, self._fallback, identifiers)

    def log_or_raise(self, error: StoreError) -> None:
        """Log a failure of the store if there is a fallback for it, or else raise it."""
        if not self._fallback:
            raise error
        self._in_outage = True
        failed(self._rate_limits[0].store, _kind_of(error), "local", str(error))

    def note_answer(self) -> None:
        """Note that the store works, which may end an outage."""
        if self._in_outage:
            self._in_outage = False
            answered(self._rate_limits[0].store)

    def _call(
        self,
        active: tuple[AppRateLimit, ...],
        rules: Iterable[ResolvedRule | Resolver],
        identifiers: IdentifierCache,
    ) -> StoreCall | None:
        arguments = identifiers.request.arguments
        resolved = (each if isinstance(each, ResolvedRule) else each(arguments) for each in rules)
        holding = tuple(each for each in resolved if each is not None and _concerns(each, identifiers))
        return self._call_of(active, holding) if holding else None


class RoutePlan:
    """How requests to an endpoint with a method are decided: a plan for each store, in order."""

    def __init__(
        self,
        stores: Sequence[StorePlan] = (),
        route: Route | None = None,
        place: str = "",
        *,
        before_validation: bool = False,
        rules: Sequence[Rule] = (),
    ) -> None:
        """Take the plans of a route, if any; ``place`` is what the log calls it, by default its endpoint."""
        self.rules = tuple(rules)
        """The rules that may hold, where they are not asked for by the route."""
        self.before_validation = before_validation
        """Whether a request is decided before the app validates it."""
        self.place = place if route is None else route.endpoint
        self.stores = tuple(stores)
        self.memories = tuple(dict.fromkeys(memory for each in self.stores for memory in each.memories))
        """The stores in memory, until `warn_if_apart` was asked about them."""
        self.needs_body = any(each.needs_body for each in self.stores)
        self.needs_loop = any(each.needs_loop for each in self.stores)
        self.may_block = any(each.may_block for each in self.stores)
        self.may_count_user = any(each.may_count_user for each in self.stores)
        self.supplied = tuple(dict.fromkeys(function for each in self.stores for function in each.supplied))
        self.only_call = self.stores[0].fixed_call if len(self.stores) == 1 else None
        """The call, if there is one store that always gets the same: then nothing has to be rolled back."""
        self.handler = route.handlers[0] if route is not None and route.handlers else None
        self.applied_limits = frozenset(() if route is None else route.applied_limits)
        self.handler_decides = route is not None and route.handler_decides

    def warn_if_apart(self, *about: Any, **named: Any) -> None:
        """Warn as the function does, asked once, if other processes have counts of their own."""
        memories, self.memories = self.memories, ()
        warn_if_apart(memories, *about, **named)


NO_PLAN = RoutePlan()
"""That of a request which nothing limits."""


class PlanCache:
    """The plans of one app; safe for threads.

    A plan is compiled for the first request that needs it. It is kept until a RateLimit is registered,
    switched or given an exemption or a filter, or the endpoint gets another handler.
    """

    def __init__(
        self,
        rate_limits: AppRateLimits,
        find_route: Callable[[str, str], Route],
        check_route: Callable[[Route, Iterable[AppliedLimit]], None] = lambda route, more: None,
    ) -> None:
        self._rate_limits = rate_limits
        self._find_route, self._check_route = find_route, check_route
        self._routes: dict[Place, RoutePlan] = {}
        self._functions: WeakKeyDictionary[LimitedFunction, dict[Place, RoutePlan]] = WeakKeyDictionary()
        self._blocks = lru_cache(MOST_KEPT)(self._compile_block)
        self._changes = 0
        rate_limits.on_change = self.clear

    def clear(self) -> None:
        """Compile everything anew when it is needed next."""
        with self._rate_limits.lock():
            self._changes += 1
            self._routes.clear()
            self._functions.clear()
            self._blocks.cache_clear()

    def of_route(self, endpoint: str, method: str, handler: Callable[..., Any]) -> RoutePlan:
        """Return the plan of a route with this handler; raise as `check_registered` does, or InvalidLimit."""
        self._rate_limits.follow_switches()
        if self._rate_limits.files:
            self._rate_limits.look()
        plan = self._routes.get((endpoint, method))
        if plan is not None and plan.handler is handler:
            return plan
        with self._rate_limits.lock():
            plan = self._routes.get((endpoint, method))  # which another thread may have compiled by now
            if plan is None or plan.handler is not handler:
                plan = self._routes[endpoint, method] = self._compile_route(endpoint, method)
            return plan

    def of_function(self, function: LimitedFunction, endpoint: str, method: str) -> RoutePlan:
        """Return the plan of a decorated function that a request calls besides its handler."""
        self._rate_limits.follow_switches()
        place = endpoint, method
        plan = self._functions.get(function, {}).get(place)
        if plan is not None:
            return plan
        with self._rate_limits.lock():
            plans = self._functions.setdefault(function, {})
            if place not in plans:
                plans[place] = self._compile(
                    function.applied_limits, "route-function", place, function.field_name
                )
            return plans[place]

    def of_block(self, applied: AppliedLimit, endpoint: str, method: str) -> RoutePlan:
        """Return the plan of a ``with`` block, which is the same for equal options of one RateLimit."""
        self._rate_limits.follow_switches()
        return self._blocks(applied.options, applied.handle, endpoint, method, self._changes)

    def _compile_route(self, endpoint: str, method: str) -> RoutePlan:
        rate_limits, route = self._rate_limits, self._find_route(endpoint, method)
        self._check_route(route, ())
        check_registered(rate_limits, route)
        rules = {each: tuple(rules_of_route(rate_limits, each, route)) for each in rate_limits}
        asked_first = any(each.options.said["before_validation"] for each in route.applied_limits)
        return RoutePlan(
            plan_stores(rules, count_of(route, "fallback")),
            route,
            before_validation=asked_first or any(each.before_validation for each in rate_limits),
        )

    # A thread may keep a plan in the cache after another has cleared that: nobody looks for it there, because
    # changes are counted.
    def _compile_block(
        self, options: LimitOptions, handle: Handle | None, endpoint: str, method: str, _changes: int
    ) -> RoutePlan:
        with self._rate_limits.lock():
            return self._compile((AppliedLimit(options, handle),), "with", (endpoint, method))

    def _compile(
        self, applied_limits: AppliedLimits, kind: str, place: Place, field_name: str | None = None
    ) -> RoutePlan:
        route = self._find_route(*place)
        self._check_route(route, applied_limits)
        count = count_of(route, kind, field_name=field_name)
        rules = rules_besides(self._rate_limits, applied_limits, route, count)
        return RoutePlan(plan_stores(rules, count._replace(kind="fallback")))


def plan_stores(rules: Mapping[AppRateLimit, Sequence[Rule]], fallback: CountName) -> tuple[StorePlan, ...]:
    """Plan one call for all that one store can decide, so that a refusal charges none of it; shadows last.

    ``fallback`` is where the limits count that replace all others while the store fails.
    """
    groups: dict[tuple[object, ...], dict[AppRateLimit, Sequence[Rule]]] = {}
    for rate_limit in sorted(rules, key=lambda each: each.shadow):
        if rules[rate_limit]:
            groups.setdefault(rate_limit.call_group, {})[rate_limit] = rules[rate_limit]
    return tuple(
        StorePlan(group, tuple(fallback_rules(next(iter(group)), fallback))) for group in groups.values()
    )


def _concerns(rule: ResolvedRule, identifiers: IdentifierCache) -> bool:
    return not rule.skips_anonymous or identifiers[rule.identify] is not NOBODY


def _kind_of(error: StoreError) -> str:
    kinds = {StoreTimeout: "timeout", StoreConfigError: "config", ScriptError: "script"}
    return next((kind for type_, kind in kinds.items() if isinstance(error, type_)), "unavailable")
