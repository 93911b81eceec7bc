"""What a rule charges in a request: under which limits, whom, how much, and in which role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from overlimit import Limiter
from overlimit.http.fields import Item
from overlimit.http.identities import Identify, ReadsRequest, as_identifiers, ask
from overlimit.http.request import Request
from overlimit.limits import Limit

__all__ = ["Charge", "Cost", "Role", "UnregisteredLimiter", "items_of", "strictness"]

Cost = int | Callable[..., int]
"""What a request spends, or a function that says so during the request."""

_BY_STRICTNESS = ("allow", "local", "deny", "raise")


class Role(IntEnum):
    """What a charge does to the call it is part of; the numbers are those of the engine."""

    ENFORCE = 0
    """Refuses when its limit does."""
    SHADOW = 1
    """Is evaluated and charged like the enforced ones, and never refuses."""
    ON_REFUSAL = 2
    """A meta limit: charged when the enforced ones refuse; refuses everything once it is used up."""


class UnregisteredLimiter(Limiter):
    """A limiter whose limits depend on the request, so that it's not compared with others of its name."""

    def _register(self, name: str | None) -> None:
        """Do nothing."""


class Charge(NamedTuple):
    """What one rule charges in a request."""

    limiter: Limiter
    identify: Identify
    name: str
    """The name it has in header fields."""
    role: Role = Role.ENFORCE
    cost: Cost = 1
    deduct_when: Callable[..., object] | None = None
    """Given the response: whether the request counts."""
    on_breach: tuple[Callable[..., object], ...] = ()
    """Called with a refusal, one after the other; each may return a response, and the last one counts."""
    error_message: str | Callable[..., str] | None = None
    """What a refusal says, or a function that returns it."""
    in_fields: bool = True
    """Whether the ``RateLimit`` fields tell of it, if it's enforced."""
    skips_anonymous: bool = False
    """Whether it leaves requests with an empty identity alone."""

    def joined(self, other: Charge) -> Charge:
        """Return one charge for two of one policy: their limits, the stricter ones, and the highest cost.

        What counts for either counts, and all hooks are told.
        """
        return self._replace(
            limiter=_joined(self.limiter, other.limiter),
            identify=_all_of(self.identify, other.identify),
            cost=_highest(self.cost, other.cost),
            deduct_when=_either(self.deduct_when, other.deduct_when),
            on_breach=tuple(dict.fromkeys((*self.on_breach, *other.on_breach))),
            error_message=self.error_message or other.error_message,
            in_fields=self.in_fields or other.in_fields,
        )

    @property
    def is_shown(self) -> bool:
        """Whether the ``RateLimit`` fields tell of it."""
        return self.role is Role.ENFORCE and self.in_fields

    def items(self) -> Iterator[Item]:
        """Yield one header item per limit."""
        return items_of(self.name, self.limiter.limits)


def items_of(name: str, limits: Sequence[Limit]) -> Iterator[Item]:
    """Yield one item per limit: a policy of one limit shows exactly its name."""
    for limit in limits:
        shown = name if len(limits) == 1 else f"{name}:{limit.label}"
        yield Item(shown, limit.quota, limit.window)


def strictness(limiter: Limiter) -> int:
    """Return a larger number for a stricter ``on_error``."""
    return _BY_STRICTNESS.index(limiter.on_error)


class _Everybody(ReadsRequest):
    """All whom two functions name, each of which may name nobody."""

    __slots__ = ("functions",)

    def __init__(self, *functions: Identify) -> None:
        self.functions = functions

    def read(self, request: Request) -> list[object]:
        return [each for function in self.functions for each in as_identifiers(ask(function, request))]


def _all_of(one: Identify, other: Identify) -> Identify:
    return one if one == other else _Everybody(one, other)


def _joined(one: Limiter, other: Limiter) -> Limiter:
    """Return a limiter with the limits of both, of those that share a count the stricter."""
    by_count = _by_count(one)
    for count, limit in _by_count(other).items():
        by_count[count] = min(by_count.get(count, limit), limit, key=_room)
    strictest = max(one, other, key=strictness)
    return UnregisteredLimiter(
        list(by_count.values()),
        name=one.name,
        store=one.store,
        clock=one.clock,
        on_error=strictest.on_error,
        local_share=one.local_share,
    )


def _by_count(limiter: Limiter) -> dict[tuple[int, int], Limit]:
    """Return the limits by what their counts are found by: those alike in that are numbered."""
    alike: Counter[int] = Counter()
    found = {}
    for limit in limiter.limits:
        tag = limit._core_limit.tag
        found[tag, alike[tag]] = limit
        alike[tag] += 1
    return found


def _room(limit: Limit) -> tuple[int, float]:
    return limit.quota, -limit.window


def _highest(one: Cost, other: Cost) -> Cost:
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return lambda *arguments: max(_units(one, arguments), _units(other, arguments))


def _units(cost: Cost, arguments: tuple[Any, ...]) -> int:
    return cost if isinstance(cost, int) else cost(*arguments)


def _either(
    one: Callable[..., object] | None, other: Callable[..., object] | None
) -> Callable[..., object] | None:
    if one is None or other is None:
        return None
    return lambda *arguments: any([one(*arguments), other(*arguments)])
