"""All rules that may hold for an endpoint and a method, compiled to one call to each store: mostly one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from overlimit import MemoryStore, outages
from overlimit.errors import ScriptError, StoreConfigError, StoreError, StoreTimeout
from overlimit.http.charges import Charge
from overlimit.http.identities import NOBODY, Identities
from overlimit.http.installation import Installation
from overlimit.http.ledger import Entry, RequestLedger
from overlimit.http.request import Request
from overlimit.http.rules import MOST_KEPT, ChargeOrFinder, Place, Rule
from overlimit.http.store_call import StoreCall

__all__ = ["RoutePlan", "StoreRules", "join_rules"]


class StoreRules:
    """The rules of a route that one store decides in one call, of one RateLimit or of several that share it.

    ``fixed_call`` is that call, if it's the same for each request.
    """

    __slots__ = ("_call_of", "_charges", "_fallback", "_in_outage", "_installations", "fixed_call")

    def __init__(self, rules: Mapping[Installation, Iterable[Rule]], fallback: Iterable[Rule] = ()) -> None:
        """Compile what is the same for each request; ``fallback`` holds instead while the store fails.

        Raises
        ------
        InvalidLimit
            Limits do not fit the algorithm of the RateLimit they go through.
        """
        self._installations = tuple(rules)
        self._charges = {each: tuple(rule.compiled() for rule in own) for each, own in rules.items()}
        self._fallback = tuple(rule.compiled() for rule in fallback)
        self._in_outage = False
        self._call_of = lru_cache(MOST_KEPT)(StoreCall)
        self.fixed_call = None if self._fallback else self._find_fixed_call()

    def _find_fixed_call(self) -> StoreCall | None:
        found = [charge for charges in self._charges.values() for charge in charges]
        charges = tuple(each for each in found if isinstance(each, Charge) and not each.skips_anonymous)
        always = all(each.always_holds for each in self._installations)
        return StoreCall(self._installations, charges) if always and len(charges) == len(found) else None

    @property
    def in_memory(self) -> bool:
        """Whether it counts in the memory of this process."""
        return any(each.enabled and isinstance(each.store, MemoryStore) for each in self._installations)

    def decide(self, identities: Identities) -> Entry | None:
        """Charge a request by what holds for it; None when nothing does.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        InvalidLimit, ValueError, TypeError
            A function returned what it must not return.
        """
        arguments = identities.request.arguments
        active = tuple(each for each in self._installations if each.holds_for(arguments))
        call = self._call(active, (charge for each in active for charge in self._charges[each]), identities)
        if call is None:
            return None
        try:
            decision = call.decide(identities)
        except StoreError as error:
            self.bear(error)
            call = self._call(active, self._fallback, identities)
            return None if call is None else Entry(self, call, call.decide(identities))
        self._note_answer()
        return Entry(self, call, decision)

    def bear(self, error: StoreError) -> None:
        """Log a failure of the store that a fallback makes good; raise any other."""
        if not self._fallback:
            raise error
        self._in_outage = True
        outages.failed(self._installations[0].store, _kind_of(error), "local", str(error))

    def _note_answer(self) -> None:
        if self._in_outage:
            self._in_outage = False
            outages.answered(self._installations[0].store)

    def _call(
        self, active: tuple[Installation, ...], found: Iterable[ChargeOrFinder], identities: Identities
    ) -> StoreCall | None:
        """Return the call for the rules that hold for a request; None when none does."""
        arguments = identities.request.arguments
        made = (each if isinstance(each, Charge) else each(arguments) for each in found)
        charges = tuple(each for each in made if each is not None and _concerns(each, identities))
        return self._call_of(active, charges) if charges else None


class RoutePlan:
    """What decides the requests to an endpoint with a method: its rules by store, in the order of calls."""

    __slots__ = ("in_memory", "stores")

    def __init__(self, stores: Sequence[StoreRules] = ()) -> None:
        """Take the compiled rules; ``in_memory`` says whether some count in the memory of this process."""
        self.stores = tuple(stores)
        self.in_memory = any(each.in_memory for each in self.stores)

    def decide(self, request: Request) -> RequestLedger:
        """Charge a request; `RequestLedger.refusal` says whether it is refused.

        Raises
        ------
        StoreError
            The store failed, and ``on_error`` says to raise that.
        InvalidLimit, ValueError, TypeError
            A function of the app returned what it must not return.
        """
        ledger = RequestLedger(request, self)
        ledger.decide()
        return ledger


def join_rules(rules: Mapping[Installation, Sequence[Rule]], fallback: Place) -> tuple[StoreRules, ...]:
    """Join what one store can decide in one call, so that a refusal charges nothing of it; shadows last.

    ``fallback`` is where limits are put that replace all others while the store fails.
    """
    groups: dict[tuple[object, ...], dict[Installation, Sequence[Rule]]] = {}
    for installation in sorted(rules, key=lambda each: each.shadow):
        if rules[installation]:
            groups.setdefault(installation.decided_with, {})[installation] = rules[installation]
    return tuple(StoreRules(group, next(iter(group)).fallback(fallback)) for group in groups.values())


def _concerns(charge: Charge, identities: Identities) -> bool:
    return not charge.skips_anonymous or identities[charge.identify] is not NOBODY


def _kind_of(error: StoreError) -> str:
    kinds = {StoreTimeout: "timeout", StoreConfigError: "config", ScriptError: "script"}
    return next((kind for type_, kind in kinds.items() if isinstance(error, type_)), "unavailable")
