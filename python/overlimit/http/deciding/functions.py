"""Which functions of the app a decision asks, which may block, and awaiting coroutine functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from overlimit.http.callables import AwaitedFunction, StandsForFunctions, awaited_in, truth_of
from overlimit.http.deciding.steps import Steps, awaiting
from overlimit.http.identifying.builtin import BuiltinIdentifier
from overlimit.http.options.limit_options import is_dynamic
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.counts import Arguments
from overlimit.http.rules.rule import Rule


def functions_of(rate_limits: Iterable[AppRateLimit], rules: Iterable[Rule]) -> Iterator[object]:
    """Yield the functions of the app that a decision asks, before it is made."""
    for rate_limit in rate_limits:
        yield from rate_limit.request_filters
    for rule in rules:
        yield from (*_asked_first(rule), rule.identify, rule.options.said["cost"])


def all_functions_of(rate_limits: Iterable[AppRateLimit], rules: Iterable[Rule]) -> Iterator[object]:
    """Yield the functions of the app that a decision asks, also those that it asks once it is made."""
    rules = tuple(rules)
    yield from functions_of(rate_limits, rules)
    for rule in rules:
        options = rule.options
        hooks = rule.rate_limit.on_breach_of(rule.role), options.said["on_breach"]
        yield from (*hooks, options.said["error_message"], options.said["deduct_when"])


def _asked_first(rule: Rule) -> tuple[object, ...]:
    """Return what says whether and how a rule holds for a request."""
    options = rule.options
    identify = rule.identify if rule.skips_anonymous else None
    return options.said["exempt_when"], rule.value, options.said["scope"], identify


def may_block(functions: Iterable[Any]) -> bool:
    """Return whether functions of the app are among these that are no coroutine functions, so may block."""
    for each in functions:
        if isinstance(each, AwaitedFunction):
            blocks = not each.waits
        elif isinstance(each, StandsForFunctions):
            blocks = not isinstance(each, BuiltinIdentifier) and may_block(each.made_of)
        else:
            blocks = is_dynamic(each)
        if blocks:
            return True
    return False


def awaits(rule: Rule) -> bool:
    """Return whether `awaiting_rule` has something to await."""
    return any(awaited_in(_asked_first(rule)))


def awaiting_rule(rule: Rule, arguments: Arguments) -> Steps[None]:
    """Await what says whether and how a rule holds for a request, in the order in which that is asked.

    An ``exempt_when`` that is not awaited is not asked here, since it might answer otherwise when it is asked
    once more.
    """
    options = rule.options
    if isinstance(options.said["exempt_when"], AwaitedFunction):
        yield from awaiting((options.said["exempt_when"],), *arguments)
        if truth_of(options.said["exempt_when"], options.said["exempt_when"](*arguments)):
            return
    yield from awaiting((rule.value,), *arguments)
    yield from awaiting((options.said["scope"],), rule.counted_as.endpoint, *arguments)
    if rule.skips_anonymous:
        yield from awaiting((rule.identify,), *arguments)
