"""What is checked in one call to a store, by one RateLimit or by several that share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from overlimit import Decision, outages
from overlimit.errors import ScriptError, StoreConfigError, StoreError, StoreTimeout
from overlimit.flask.binding import Binding
from overlimit.http.identities import People
from overlimit.http.legacy import HeaderNames, legacy_fields
from overlimit.http.plan import Plan, Planner
from overlimit.http.rules import Choice
from overlimit.http.ruling import Ruling, rate_fields

__all__ = ["Batch", "Bench", "Verdict", "joint_fields"]


class Bench:
    """The RateLimits that decide a request together, and what they go by."""

    __slots__ = ("bindings", "fixed", "legacy_names", "plan", "shadow")

    def __init__(self, bindings: tuple[Binding, ...], choices: Iterable[Choice]) -> None:
        """Take bindings on one store, at least one; either all of them or none are in shadow."""
        planner = Planner(choices)
        self.bindings = bindings
        self.fixed = planner.fixed
        self.plan = planner.plan
        self.shadow = bindings[0].shadow
        names = (each.legacy_names for each in bindings if each.legacy_names is not None)
        self.legacy_names = next(names, None)


class Verdict(Ruling):
    """What one store answered to a request, and for which RateLimits; ``is_shown``: header fields tell of it."""

    __slots__ = ("bench", "is_shown", "legacy_names")

    def __init__(self, plan: Plan, decision: Decision, bench: Bench) -> None:
        """Keep all three; ``legacy_names`` are None where no X-RateLimit fields tell of it."""
        self.plan = plan
        self.decision = decision
        self.bench = bench
        self.is_shown = not bench.shadow and decision.source != "error"
        self.legacy_names = bench.legacy_names if plan.enforces else None

    @property
    def enforced(self) -> bool:
        """Whether a refusal counts."""
        return not self.bench.shadow

    def fields(self) -> list[tuple[str, str]]:
        """Return the header fields that tell of this one alone."""
        fields = self.plan.fields(self.decision)
        if self.legacy_names is not None:
            fields += legacy_fields(self.decision, self.legacy_names)
        return fields


class Batch:
    """What may hold for a route, by RateLimit, all on one store."""

    __slots__ = ("_alone", "_bench_of", "_choices", "_fallback", "_outage", "bindings")

    def __init__(self, choices: dict[Binding, tuple[Choice, ...]], fallback: tuple[Choice, ...] = ()) -> None:
        """Compile what is the same for each request; ``fallback`` holds instead while the store fails."""
        self.bindings = tuple(choices)
        self._choices = choices
        self._fallback = Planner(fallback) if fallback else None
        self._bench_of = lru_cache(maxsize=None)(self._bench)
        self._alone = self._bench(self.bindings) if len(choices) == 1 else None
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
        binding = self.bindings[0]
        if self._alone is None or binding.request_filters:
            bench = self._sitting()
        else:
            bench = self._alone if binding.enabled else None
        if bench is None:
            return None
        plan = bench.fixed or bench.plan()
        if plan is None:
            return None
        if self._fallback is None:
            return Verdict(plan, plan.decide(people), bench)
        return self._decide_or_fall_back(bench, plan, self._fallback, people)

    def _sitting(self) -> Bench | None:
        """Return those whom the current request concerns."""
        active = tuple(binding for binding in self.bindings if binding.concerns_this_request())
        return self._bench_of(active) if active else None

    def _decide_or_fall_back(
        self, bench: Bench, plan: Plan, fallback: Planner, people: People
    ) -> Verdict | None:
        store = bench.bindings[0].store
        try:
            decision = plan.decide(people)
        except StoreError as error:
            self._outage = True
            outages.failed(store, _kind_of(error), "local", str(error))
            instead = fallback.plan()
            return None if instead is None else Verdict(instead, instead.decide(people), bench)
        if self._outage:
            self._outage = False
            outages.answered(store)
        return Verdict(plan, decision, bench)

    def _bench(self, bindings: tuple[Binding, ...]) -> Bench:
        return Bench(bindings, (choice for binding in bindings for choice in self._choices[binding]))


def joint_fields(shown: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Return the header fields that tell of several: all policies, and of X-RateLimit the strictest."""
    fields = rate_fields(shown)
    legacy = [verdict for verdict in shown if verdict.legacy_names is not None]
    if legacy:
        strictest = min(legacy, key=lambda verdict: (verdict.decision.allowed, verdict.decision.remaining))
        fields += legacy_fields(strictest.decision, strictest.legacy_names or HeaderNames())
    return fields


def _kind_of(error: StoreError) -> str:
    kinds = {StoreTimeout: "timeout", StoreConfigError: "config", ScriptError: "script"}
    return next((kind for type_, kind in kinds.items() if isinstance(error, type_)), "unavailable")
