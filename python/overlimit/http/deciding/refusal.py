"""Why a request is refused, and what the rules that refused say about the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit import Decision
from overlimit.http.answering.refusals import (
    Problem,
    RefusalResponse,
    limit_exceeded,
    refusal_response,
    store_failed,
)
from overlimit.http.rules.rule import ResolvedRule, Role

if TYPE_CHECKING:
    from overlimit.http.deciding.ledger import StoreAnswer
    from overlimit.http.deciding.store_call import StoreCall

__all__ = ["Refusal"]


class Refusal(NamedTuple):
    """Why a request is refused, and what the rules say about the answer."""

    call: StoreCall
    decision: Decision
    rules: tuple[ResolvedRule, ...]
    """The rules that refused: the meta limits if one of them is used up, else the enforced rules."""

    @classmethod
    def of(cls, answer: StoreAnswer) -> Refusal:
        """Return the refusal of a request that a store has refused."""
        role = Role.ON_REFUSAL if answer.decision._refused_by_meta else Role.ENFORCE
        rules = answer.call.refusing(answer.decision)
        return cls(answer.call, answer.decision, tuple(rule for rule in rules if rule.role is role))

    @property
    def store_failed(self) -> bool:
        """Whether the store failed, and ``on_error`` is ``"deny"``."""
        return self.decision.source == "error"

    @property
    def retry_after_name(self) -> str:
        """The name of its Retry-After field, as the RateLimit that refused has it."""
        return self.rules[0].retry_after_name if self.rules else self.call.retry_after_name

    def call_hooks(self, arguments: tuple[Any, ...]) -> list[object]:
        """Call all ``on_breach`` hooks and return their results; the last response among them answers."""
        # Hooks of a RateLimit come first in each rule, and each is called once.
        hooks = dict.fromkeys(hook for rule in self.rules for hook in rule.on_breach[:1])
        hooks |= dict.fromkeys(hook for rule in self.rules for hook in rule.on_breach)
        return [hook(self.decision, *arguments) for hook in hooks]

    def violated(self) -> list[str]:
        """Return the names that the header fields give to the limits which refused."""
        return self.call.violated(self.decision, self.rules)

    def message(self, arguments: tuple[Any, ...]) -> str | None:
        """Return the ``error_message`` of the limit that binds."""
        binding = self.call.binding(self.decision)
        found = (rule.error_message for rule in self.rules if rule in binding)
        message = next(found, None)
        message = message(*arguments) if callable(message) else message
        return None if message is None else str(message)

    def response(self, accept: str | None, arguments: tuple[Any, ...]) -> RefusalResponse:
        """Return the whole answer to a request with this ``Accept`` field, unless a hook gave another."""
        problem = store_failed() if self.store_failed else self._limit_exceeded(arguments)
        return refusal_response(problem, self.decision, accept, self.retry_after_name)

    def _limit_exceeded(self, arguments: tuple[Any, ...]) -> Problem:
        return limit_exceeded(self.decision, self.message(arguments), self.violated())
