"""What was decided in one request, what of it is given back, and the header fields its response gets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit import Decision
from overlimit.errors import StoreError
from overlimit.http.charges import Charge, Role
from overlimit.http.fields import POLICY, RATE, legacy_fields
from overlimit.http.identities import Identities
from overlimit.http.request import Request
from overlimit.http.store_call import StoreCall, rate_fields

if TYPE_CHECKING:
    from overlimit.http.installation import Installation
    from overlimit.http.route_plan import RoutePlan, StoreRules

__all__ = ["Entry", "Refusal", "RequestLedger"]

_log = logging.getLogger("overlimit")


class Entry(NamedTuple):
    """What one store answered to a request."""

    rules: StoreRules
    call: StoreCall
    decision: Decision

    @property
    def is_shown(self) -> bool:
        """Whether header fields may tell of it."""
        return not self.call.in_shadow and self.decision.source != "error"

    @property
    def refuses(self) -> bool:
        """Whether it refuses the request."""
        return self.call.refuses(self.decision) and not self.call.in_shadow

    @property
    def refuses_in_shadow(self) -> bool:
        """Whether it would refuse the request, were something not in shadow."""
        if self.call.refuses_in_shadow(self.decision):
            return True
        return self.call.refuses(self.decision) and self.decision.source != "error"

    def refund(self) -> None:
        """Give back everything.

        Raises
        ------
        StoreError
            The store failed, and that is to be raised.
        """
        try:
            self.call.refund(self.decision)
        except StoreError as error:
            self.rules.bear(error)

    def give_back(self, response: Any, identities: Identities) -> None:
        """Give back what does not count, seeing the response.

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
            self.call.give_back(self.decision, response, identities)
        except StoreError as error:
            self.rules.bear(error)


# As Entry(...), without a call of Python's for each request.
_entry = partial(tuple.__new__, Entry)


class Refusal(NamedTuple):
    """Why a request is refused, and what was said about how to answer it."""

    call: StoreCall
    decision: Decision
    charges: tuple[Charge, ...]
    """Those that refuse: of meta limits if one is used up, else the enforced ones."""

    @classmethod
    def of(cls, entry: Entry) -> Refusal:
        """Return the refusal that a store's answer is."""
        role = Role.ON_REFUSAL if entry.decision._refused_by_meta else Role.ENFORCE
        charges = entry.call.refusing(entry.decision)
        return cls(entry.call, entry.decision, tuple(charge for charge in charges if charge.role is role))

    @property
    def store_failed(self) -> bool:
        """Whether the store failed, and ``on_error`` is ``"deny"``."""
        return self.decision.source == "error"

    def answers(self, arguments: tuple[Any, ...]) -> list[object]:
        """Tell everybody who wants to know, and return what they say; the last response counts."""
        # Hooks of a RateLimit come first in each charge, and are told once.
        hooks = dict.fromkeys(hook for charge in self.charges for hook in charge.on_breach[:1])
        hooks |= dict.fromkeys(hook for charge in self.charges for hook in charge.on_breach)
        return [hook(self.decision, *arguments) for hook in hooks]

    def violated(self) -> list[str]:
        """Return the names under which the fields show what refused."""
        return self.call.violated(self.decision, self.charges)

    def message(self, arguments: tuple[Any, ...]) -> str | None:
        """Return the ``error_message`` of the limit that binds."""
        decision = self.decision
        binding = [
            row.policy
            for row in decision.details
            if not row.allowed and row.limit == decision.limit and row.identifier == decision.identifier
        ]
        found = (charge.error_message for charge in self.charges if charge.limiter.name in binding)
        message = next(found, None)
        message = message(*arguments) if callable(message) else message
        return None if message is None else str(message)


class RequestLedger:
    """What the stores answered to one request, in the order they were asked."""

    __slots__ = ("_entries", "_identities", "_taken_back", "_undecided", "plan", "refusal", "returns")

    def __init__(self, request: Request, plan: RoutePlan) -> None:
        """Begin with nothing decided of a request that goes to a route with this plan."""
        self.plan = plan
        self._undecided = plan.stores
        self._identities = identities = Identities()
        identities.request = request
        self._entries: list[Entry] = []
        self._taken_back: Sequence[Entry] = ()
        self.refusal: Refusal | None = None
        self.returns = False
        """Whether `give_back` is to be called with the response."""

    def decide(self, stores: Iterable[StoreRules] | None = None) -> Refusal | None:
        """Charge the request, store by store, up to the first that refuses: then nothing stays charged.

        ``stores`` are by default those of its route, which are asked once, however often it comes by.

        Raises
        ------
        StoreError
            A store failed, and that is to be raised.
        InvalidLimit, ValueError, TypeError
            A function of the app returned what it must not return.
        """
        if stores is None:
            stores, self._undecided = self._undecided, ()
        entries = self._entries
        before = len(entries)
        for rules in stores:
            call = rules.fixed_call
            try:
                if call is None:
                    entry = rules.decide(self._identities)
                else:
                    entry = _entry((rules, call, call.decide(self._identities)))
            except BaseException:  # a greenlet's timeout, too
                self._take_back(before)
                raise
            if entry is None:
                continue
            entries.append(entry)
            _, call, decision = entry
            if call.returnable:
                self.returns = True
            if (not decision or call.has_shadows) and self._heed(entry, before):
                return self.refusal
        return None

    def _heed(self, entry: Entry, before: int) -> bool:
        """Note a refusal, or what would have been one; tell whether it is one."""
        if entry.refuses:
            self._take_back(before, but=1)
            self.refusal = Refusal.of(entry)
            return True
        if entry.refuses_in_shadow:
            self.note_refusal_in_shadow(entry.call.shown(entry.decision))
        return False

    def note_refusal_in_shadow(self, decision: Decision) -> None:
        """Log a refusal that changes nothing."""
        _log.info("would have been refused, were it not in shadow: %r", decision)

    def _take_back(self, before: int, *, but: int = 0) -> None:
        """Refund the entries from a place on, but for so many of the last."""
        taken = self._entries[before : len(self._entries) - but]
        # What they say is left is less than will be there.
        self._taken_back = (*self._taken_back, *taken)
        _each(entry.refund for entry in taken)

    def decision(self, installation: Installation) -> Decision | None:
        """Return the latest decision for a RateLimit, shadow limits included."""
        for entry in reversed(self._entries):
            if installation in entry.call.installations:
                return entry.call.shown(entry.decision)
        return None

    def give_back(self, response: Any) -> None:
        """Give back what does not count, seeing the response; only once, though that fails."""
        self.returns = False
        _each(partial(entry.give_back, response, self._identities) for entry in self._entries)

    def fields(self) -> list[tuple[str, str]]:
        """Return the header fields that tell of the decisions."""
        if len(self._entries) != 1 or self._taken_back:
            return self._fields_of_several() if self._entries else []
        # As is_shown says, without the call: every response comes by here.
        _, call, decision = self._entries[0]
        if call.in_shadow or decision.source == "error":
            return []
        policy = call.policy_field
        fields = [(POLICY, policy), (RATE, call.rate_field(decision))] if policy else []
        if call.legacy_names is not None:
            fields += legacy_fields(decision, call.legacy_names)
        return fields

    def _fields_of_several(self) -> list[tuple[str, str]]:
        """Return all policies, of each the latest decision, and of X-RateLimit the strictest."""
        latest = {id(each.call): each for each in self._entries if each.is_shown}.values()
        shown = [each for each in latest if each not in self._taken_back]
        fields = rate_fields((each.call, each.decision if each in shown else None) for each in latest)
        legacy = [
            (each.decision, each.call.legacy_names) for each in shown if each.call.legacy_names is not None
        ]
        if legacy:
            fields += legacy_fields(*min(legacy, key=lambda each: (each[0].allowed, each[0].remaining)))
        return fields


def _each(steps: Iterable[Callable[[], None]]) -> None:
    """Take every step, though one fails; then raise what the first of these raised."""
    raised: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            raised = raised or error
    if raised is not None:
        raise raised
