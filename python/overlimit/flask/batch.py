"""What is checked in one call to a store, by one RateLimit or by several that share it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from overlimit import outages
from overlimit.errors import ScriptError, StoreConfigError, StoreError, StoreTimeout
from overlimit.flask.binding import Binding
from overlimit.http.legacy import HeaderNames
from overlimit.http.plan import People, Plan, Planner, Ruling
from overlimit.http.rules import Choice

__all__ = ["Batch", "Verdict"]


class Verdict(NamedTuple):
    """What one store answered to a request, and for which RateLimits."""

    bindings: tuple[Binding, ...]
    ruling: Ruling
    is_shown: bool
    """Whether header fields tell of it."""
    legacy_names: HeaderNames | None
    """What the X-RateLimit fields that tell of it are called; None: there are none."""

    @property
    def enforced(self) -> bool:
        """Whether a refusal counts."""
        return not self.bindings[0].shadow


class Batch:
    """What may hold for a route, by RateLimit, all on one store."""

    __slots__ = ("_choices", "_fallback", "_fixed", "_only", "_outage", "_planner_of", "bindings")

    def __init__(self, choices: dict[Binding, tuple[Choice, ...]], fallback: tuple[Choice, ...] = ()) -> None:
        """Compile what is the same for each request; ``fallback`` holds instead while the store fails."""
        self.bindings = tuple(choices)
        self._choices = choices
        self._fallback = Planner(fallback) if fallback else None
        self._planner_of = lru_cache(maxsize=None)(self._planner)
        self._only = self._planner(self.bindings) if len(choices) == 1 else None
        self._fixed = self._only.fixed if self._only is not None and not fallback else None
        self._outage = False

    def decide(self, people: People) -> Verdict | None:
        """Charge a request; None when nothing holds for it.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        InvalidLimit, ValueError, TypeError
            A function returned what cannot be.
        """
        if self._fixed is not None:
            alone = self.bindings[0]
            return (
                _verdict(self.bindings, self._fixed.decide(people)) if alone.concerns_this_request() else None
            )
        active = tuple(binding for binding in self.bindings if binding.concerns_this_request())
        if not active:
            return None
        plan = (self._only or self._planner_of(active)).plan()
        if plan is None:
            return None
        if self._fallback is None:
            return _verdict(active, plan.decide(people))
        return self._decide_or_fall_back(active, plan, self._fallback, people)

    def _decide_or_fall_back(
        self, active: tuple[Binding, ...], plan: Plan, fallback: Planner, people: People
    ) -> Verdict | None:
        store = active[0].store
        try:
            ruling = plan.decide(people)
        except StoreError as error:
            self._outage = True
            outages.failed(store, _kind_of(error), "local", str(error))
            instead = fallback.plan()
            return None if instead is None else _verdict(active, instead.decide(people))
        if self._outage:
            self._outage = False
            outages.answered(store)
        return _verdict(active, ruling)

    def _planner(self, bindings: tuple[Binding, ...]) -> Planner:
        return Planner(choice for binding in bindings for choice in self._choices[binding])


def _verdict(active: tuple[Binding, ...], ruling: Ruling) -> Verdict:
    shown = not active[0].shadow and ruling.decision.source != "error"
    names = active[0].legacy_names if len(active) == 1 else _first_names(active)
    return Verdict(active, ruling, shown, names if ruling.plan.enforces else None)


def _first_names(bindings: tuple[Binding, ...]) -> HeaderNames | None:
    return next((each.legacy_names for each in bindings if each.legacy_names is not None), None)


def _kind_of(error: StoreError) -> str:
    kinds = {StoreTimeout: "timeout", StoreConfigError: "config", ScriptError: "script"}
    return next((kind for type_, kind in kinds.items() if isinstance(error, type_)), "unavailable")
