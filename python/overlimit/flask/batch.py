"""What is checked in one call to a store, by one RateLimit or by several that share it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from flask import Response

from overlimit import Decision, MemoryStore, outages
from overlimit.errors import ScriptError, StoreConfigError, StoreError, StoreTimeout
from overlimit.flask.binding import Binding
from overlimit.http.identities import People
from overlimit.http.legacy import HeaderNames
from overlimit.http.plan import Plan, Planner
from overlimit.http.rules import Choice

__all__ = ["Batch", "Bench", "Verdict"]


class Bench:
    """The RateLimits that decide a request together, and what they go by."""

    __slots__ = ("_has_fallback", "_in_outage", "bindings", "legacy_names", "planner", "shadow")

    def __init__(self, bindings: tuple[Binding, ...], choices: Iterable[Choice], has_fallback: bool) -> None:
        """Take bindings on one store, at least one; either all of them or none are in shadow."""
        self.bindings = bindings
        self._has_fallback = has_fallback
        self._in_outage = False
        self.planner = Planner(choices)
        self.shadow = bindings[0].shadow
        names = (each.legacy_names for each in bindings if each.legacy_names is not None)
        self.legacy_names = next(names, None)

    def bear(self, error: StoreError) -> None:
        """Log a failure of the store that a fallback makes good; raise any other."""
        if not self._has_fallback:
            raise error
        self._in_outage = True
        outages.failed(self.bindings[0].store, _kind_of(error), "local", str(error))

    def note_answer(self) -> None:
        """Log that the store answers again, if it failed before and a fallback made that good."""
        if self._in_outage:
            self._in_outage = False
            outages.answered(self.bindings[0].store)


class Verdict(NamedTuple):
    """What one store answered to a request, by which plan, and for which RateLimits."""

    bench: Bench
    plan: Plan
    decision: Decision

    @property
    def is_shown(self) -> bool:
        """Whether header fields may tell of it."""
        return not self.bench.shadow and self.decision.source != "error"

    def refund(self) -> None:
        """Give back everything.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        """
        try:
            self.plan.refund(self.decision)
        except StoreError as error:
            self.bench.bear(error)

    def give_back(self, response: Response, people: People) -> None:
        """Give back what does not count, seeing the response; ``people`` were charged.

        What ``deduct_when`` raises is raised.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        """
        # What nobody decided was not charged, nor what was refused.
        if not self.decision or self.decision.source == "error":
            return
        try:
            self.plan.give_back(self.decision, response, people)
        except StoreError as error:
            self.bench.bear(error)

    @property
    def legacy_names(self) -> HeaderNames | None:
        """What the X-RateLimit fields that tell of it are called; None: there are none."""
        return self.bench.legacy_names if self.plan.enforces else None

    @property
    def retry_after_name(self) -> str:
        """What Retry-After is called."""
        return self.bench.bindings[0].header_names.retry_after


class Batch:
    """What may hold for a route, by RateLimit, all on one store.

    ``settled`` is who decides by which plan, if that is the same for each request.
    """

    __slots__ = ("_bench_of", "_choices", "_fallback", "bindings", "settled")

    def __init__(self, choices: dict[Binding, tuple[Choice, ...]], fallback: tuple[Choice, ...] = ()) -> None:
        """Compile what is the same for each request; ``fallback`` holds instead while the store fails."""
        self.bindings = tuple(choices)
        self._choices = choices
        self._fallback = Planner(fallback) if fallback else None
        self._bench_of = lru_cache(maxsize=None)(self._bench)
        self.settled = None if fallback else self._settled()

    def decide(self, people: People) -> Verdict | None:
        """Charge a request; None when nothing holds for it.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        InvalidLimit, ValueError, TypeError
            A function returned what cannot be.
        """
        active = tuple(binding for binding in self.bindings if binding.concerns_this_request())
        bench = self._bench_of(active) if active else None
        plan = None if bench is None else bench.planner.plan(people)
        if bench is None or plan is None:
            return None
        if self._fallback is None:
            return Verdict(bench, plan, plan.decide(people))
        return self._decide_or_fall_back(bench, plan, self._fallback, people)

    @property
    def in_memory(self) -> bool:
        """Whether it counts in the memory of this process."""
        return any(binding.enabled and isinstance(binding.store, MemoryStore) for binding in self.bindings)

    def _settled(self) -> tuple[Bench, Plan] | None:
        if not all(binding.enabled and not binding.request_filters for binding in self.bindings):
            return None
        bench = self._bench_of(self.bindings)
        return None if bench.planner.fixed is None else (bench, bench.planner.fixed)

    def _decide_or_fall_back(
        self, bench: Bench, plan: Plan, fallback: Planner, people: People
    ) -> Verdict | None:
        try:
            decision = plan.decide(people)
        except StoreError as error:
            bench.bear(error)
            instead = fallback.plan(people)
            return None if instead is None else Verdict(bench, instead, instead.decide(people))
        bench.note_answer()
        return Verdict(bench, plan, decision)

    def _bench(self, bindings: tuple[Binding, ...]) -> Bench:
        choices = (choice for binding in bindings for choice in self._choices[binding])
        return Bench(bindings, choices, has_fallback=self._fallback is not None)


def _kind_of(error: StoreError) -> str:
    kinds = {StoreTimeout: "timeout", StoreConfigError: "config", ScriptError: "script"}
    return next((kind for type_, kind in kinds.items() if isinstance(error, type_)), "unavailable")
