"""What a store answered to a request, and how the request is answered if that refuses it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from overlimit._core import Decision
from overlimit._logging.stores import is_first
from overlimit._messages.texts import short_repr
from overlimit.errors import StoreError
from overlimit.http.answering.refusals import RefusalResponse, limit_exceeded, refusal_response, store_failed
from overlimit.http.callables import result_of
from overlimit.http.deciding.steps import Steps, awaiting
from overlimit.http.identifying.identifiers import IdentifierCache
from overlimit.http.rules.counts import Arguments, Role
from overlimit.http.rules.rule import ResolvedRule

if TYPE_CHECKING:
    from overlimit.http.deciding.plans import StorePlan
    from overlimit.http.deciding.store_call import StoreCall


_log = logging.getLogger("overlimit")

_MOST_WARNED_OF = 1024  # a request may choose the name of a limit


class StoreAnswer:
    """What one store answered to a request; two are equal if they are of the same decision."""

    def __init__(
        self, plan: StorePlan, call: StoreCall, decision: Decision, identifiers: IdentifierCache
    ) -> None:
        self.plan, self.call, self.decision = plan, call, decision
        self._identifiers = identifiers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreAnswer) and self.decision is other.decision

    def __hash__(self) -> int:
        return id(self.decision)

    @property
    def _arguments(self) -> Arguments:
        """What functions of the app are called with."""
        return self._identifiers.request.arguments

    @property
    def store_failed(self) -> bool:
        """Whether ``on_error`` answered for the store; if it is ``"deny"``, that refuses."""
        return self.decision.source == "error"

    @property
    def is_in_fields(self) -> bool:
        """Whether header fields may show it."""
        return not self.call.in_shadow and self.decision.source != "error"

    @property
    def _is_over(self) -> bool:
        """Whether limits refuse that are not in shadow themselves."""
        return not self.decision and (self.call.enforces or self.decision._refused_by_meta)

    @property
    def refuses(self) -> bool:
        """Whether it refuses the request."""
        return self._is_over and not self.call.in_shadow

    @property
    def refuses_in_shadow(self) -> bool:
        """Whether it would refuse the request if nothing were in shadow."""
        if self._only_shadows_refuse:
            return any(rule.role is Role.SHADOW and rule.is_reported for rule in self._over)
        return self._is_over and not self.store_failed

    @property
    def _only_shadows_refuse(self) -> bool:
        if not self.call.has_shadows or self._is_over:
            return False
        return any(rule.role is Role.SHADOW for rule in self._over)

    @property
    def decision_with_shadows(self) -> Decision:
        """The decision, or the refusal of limits in shadow if no other limit refused."""
        return self.decision._with_shadows_enforced() if self._only_shadows_refuse else self.decision

    @cached_property
    def _over(self) -> tuple[ResolvedRule, ...]:
        """The rules that refused, those in shadow included."""
        return self._rules_named(row.policy for row in self.decision.details if not row.allowed)

    @cached_property
    def refusing(self) -> tuple[ResolvedRule, ...]:
        """The rules by which it refuses: the meta limits if one of them is used up, else those enforced."""
        role = Role.ON_REFUSAL if self.decision._refused_by_meta else Role.ENFORCE
        return tuple(rule for rule in self._over if rule.role is role)

    @property
    def binding(self) -> tuple[ResolvedRule, ...]:
        """The rules of the limit that binds: one, unless several have the same limit."""
        refusal = self.decision_with_shadows
        return self._rules_named(
            row.policy
            for row in refusal.details
            if not row.allowed and row.limit == refusal.limit and row.identifier == refusal.identifier
        )

    def _rules_named(self, policies: Iterable[str | None]) -> tuple[ResolvedRule, ...]:
        names = set(policies)
        return tuple(rule for rule in self.call.rules if rule.limiter.name in names)

    @property
    def retry_after_name(self) -> str:
        """The name of its Retry-After field, as the RateLimit that refused has it."""
        of = self.refusing or self.call.rate_limits
        return of[0].header_names.retry_after

    def answer_of_hooks(self, is_answer: Callable[[Any], bool], wanted: str) -> Any | None:
        """Call all ``on_breach`` hooks, and return the last answer, if any; TypeError for texts and such.

        None is called if the store failed.
        """
        if self.store_failed:
            return None
        # Hooks of a RateLimit come first in each rule, and each is called once.
        hooks = dict.fromkeys(hook for rule in self.refusing for hook in rule.on_breach[:1])
        hooks |= dict.fromkeys(hook for rule in self.refusing for hook in rule.on_breach)
        results = [result_of(hook, hook(self.decision, *self._arguments)) for hook in hooks]
        for result in results:
            if isinstance(result, (str, bytes, tuple, list, dict)):
                raise TypeError(
                    f"on_breach must return {wanted}, or None for the usual answer, not {short_repr(result)}"
                )
        return next((result for result in reversed(results) if is_answer(result)), None)

    @property
    def explains(self) -> bool:
        """Whether all RateLimits that it is of have refusals explained."""
        return all(each.explains for each in self.call.rate_limits)

    def waits_for(self, field_name: str) -> list[float]:
        """Return the seconds to wait for limits of this name and meta limits by which it refuses."""
        if not self.refuses:
            return []
        own = {
            rule.limiter.name
            for rule in self.refusing
            if rule.field_name == field_name or rule.role is Role.ON_REFUSAL
        }
        return [row.retry_after for row in self.decision.details if not row.allowed and row.policy in own]

    def violated(self) -> list[str]:
        """Return the names that header fields give to the limits by which it refuses."""
        refused = {(row.policy, row.limit) for row in self.decision.details if not row.allowed}
        return [
            name
            for rule in self.refusing or self._over  # those in shadow, of which a view is told
            for limit, name in zip(rule.limiter.limits, self.call.names_of(rule), strict=True)
            if (rule.limiter.name, limit) in refused
        ]

    def message(self) -> str | None:
        """Return the ``error_message`` of the limit that binds."""
        binding = self.binding
        said = next((rule.error_message for rule in self.refusing if rule in binding), None)
        message = result_of(said, said(*self._arguments)) if callable(said) else said
        return None if message is None else str(message)

    def response(self, accept: str | None) -> RefusalResponse:
        """Return the whole answer to a refused request with this ``Accept`` field, unless a hook gave one."""
        if self.store_failed:
            problem = store_failed()
        else:
            problem = limit_exceeded(self.decision, self.message(), self.violated(), explains=self.explains)
        return refusal_response(problem, self.decision, accept, self.retry_after_name)

    def asking_hooks(self, is_answer: Callable[[Any], bool], wanted: str) -> Steps[Any | None]:
        """Call hooks as `answer_of_hooks` does, those that are coroutine functions too."""
        if self.store_failed:
            return None
        hooks = (hook for rule in self.refusing for hook in rule.on_breach)
        yield from awaiting(hooks, self.decision, *self._arguments)
        return self.answer_of_hooks(is_answer, wanted)

    def asking_message(self) -> Steps[str | None]:
        """Return the message as `message` does, also of a coroutine function."""
        yield from awaiting((rule.error_message for rule in self.refusing), *self._arguments)
        return self.message()

    def asking_response(self, accept: str | None) -> Steps[RefusalResponse]:
        """Return the answer as `response` does, also with the message of a coroutine function."""
        yield from self.asking_message()
        return self.response(accept)

    def log_as_shadow(self, place: str) -> None:
        """Log whom the limit in shadow that binds would have refused: as a warning only once per process."""
        decision = self.decision_with_shadows
        name = next((rule.field_name for rule in self.binding), "")
        label = decision.limit.label if decision.limit else ""
        warned_of = self.call.rate_limits[0].shadows_warned_of
        warns = len(warned_of) < _MOST_WARNED_OF and is_first(warned_of, (name, label))
        _log.log(
            logging.WARNING if warns else logging.INFO,
            "the limit %s (%s), in shadow, would have refused %r at %r%s",
            label,
            name,
            decision.identifier,
            place,
            " (a warning only once per process and limit)" if warns else "",
        )

    def refunding(self) -> Steps[None]:
        """Refund everything; raises StoreError if the store failed and ``on_error`` says so."""
        try:
            yield from self.call.refund(self.decision)
        except StoreError as error:
            self.plan.log_or_raise(error)

    def settling(self, used: int) -> Steps[None]:
        """Make it cost what was used; raises StoreError if the store failed and ``on_error`` says so."""
        # A refused request was not charged, and neither was one that no store decided.
        if not self.decision or self.store_failed or not self.call.settled:
            return
        try:
            yield from self.call.settling(self.decision, used)
        except StoreError as error:
            self.plan.log_or_raise(error)

    def refunding_uncounted(self, response: Any) -> Steps[None]:
        """Refund what does not count by the response; raise StoreError, or what ``deduct_when`` raises."""
        # A refused request was not charged, and neither was one that no store decided.
        if not self.decision or self.store_failed:
            return
        yield from self.call.awaiting_uncounted(response, self._identifiers)
        charges, raised = self.call.uncounted(response, self._identifiers)
        if charges:
            try:
                yield from self.call.refund_part(self.decision, charges)
            except StoreError as error:
                self.plan.log_or_raise(error)
        if raised is not None:
            raise raised
