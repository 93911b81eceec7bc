"""Under which policies requests are charged, for whoever has a log of them instead of the requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from overlimit.http.callables import function_name
from overlimit.http.deciding.store_call import StoreCall
from overlimit.http.identifying.builtin import builtins_in, everybody
from overlimit.http.identifying.identifiers import Identify
from overlimit.http.rules.rule import ResolvedRule, Rule
from overlimit.route_charges import RouteCharge, RouteStep, RouteSteps
from overlimit.stores.kinds import state_key

if TYPE_CHECKING:
    from overlimit.http.deciding.plans import RoutePlan, StorePlan


def steps_of(plan: RoutePlan | None) -> RouteSteps:
    """Return what is decided for the requests of a plan; functions that need a request are not asked."""
    stores = () if plan is None else plan.stores
    return tuple(map(_step_of, stores))


def _step_of(plan: StorePlan) -> RouteStep:
    active = tuple(each for each in plan.rules if each.enabled)
    pairs = [(rule, _resolved(rule)) for each in active for rule in plan.rules[each]]
    known = [resolved for _, resolved in pairs if resolved is not None]
    if not known:
        return RouteStep((), unknown=tuple(_unknown(plan)))
    call = StoreCall(active, known)
    titles = {resolved.limiter.name: _title(rule) for rule, resolved in pairs if resolved is not None}
    charges = tuple(_charge(each, titles) for each in call.rules)
    return RouteStep(charges, call.in_shadow, tuple(_unknown(plan)))


def _title(rule: Rule) -> str:
    counted = rule.counted_as
    return counted.parts[0] if counted.kind == "file" else counted.counted or counted.kind


def _resolved(rule: Rule) -> ResolvedRule | None:
    """Return what holds whatever is requested; None where only a request tells, or there is no limit."""
    try:
        return rule.resolve_now()
    except Exception:  # which functions of the app raise without a request
        return None


def _charge(rule: ResolvedRule, titles: dict[str | None, str]) -> RouteCharge:
    cost = rule.cost if isinstance(rule.cost, int) else None
    limiter = rule.limiter
    return RouteCharge(
        (state_key(limiter.store), limiter.name),
        titles[limiter.name],
        limiter.limits,
        limiter.penalty,
        cost,
        int(rule.role),
        _whose(rule.identify),
        rule.skips_anonymous,
    )


def _whose(identify: Identify) -> tuple[tuple[str, ...], ...] | None:
    """Return the kinds of identifiers that a function returns; None if only the app knows."""
    known = tuple(builtins_in(identify))
    if known and all(each.written == everybody.written for each in known):
        return ()
    kinds = tuple(tuple(start.removesuffix(":") for start in each.beginnings) for each in known)
    return kinds if kinds and not any(":" in kind for each in kinds for kind in each) else None


def _unknown(plan: StorePlan) -> Iterator[str]:
    """Say what of a plan is left out, or taken for granted, as only a request could tell."""
    for rate_limit, rules in plan.rules.items():
        for function in rate_limit.request_filters:
            yield f"whether {function_name(function)} lets requests pass"
        for rule in rules:
            said, where = rule.options.said, _title(rule)
            for term in ("exempt_when", "deduct_when"):
                if said[term] is not None:
                    yield f"the {term} of {where!r}"
            if callable(said["cost"]):
                yield f"the cost of {where!r}, for which that of the events is taken"
            if _whose(rule.identify) is None:
                yield f"whom {where!r} counts, for which all identifiers of the events are taken"
            if _resolved(rule) is None:
                yield f"the limits of {where!r}, which are left out"
