"""Refusals that are raised: what the exceptions of each adapter have, which its framework answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from overlimit import errors
from overlimit._core import Decision
from overlimit.http.answering.fields import RETRY_AFTER
from overlimit.http.answering.own_decisions import OwnDecision
from overlimit.http.answering.refusals import (
    Problem,
    RefusalResponse,
    limit_exceeded,
    refusal_response,
    store_failed,
)
from overlimit.http.deciding.ledger import RequestLedger

E = TypeVar("E", bound="Refusal")


class Refusal:
    """A refusal that answers in the media type that the request accepts: problem details, JSON or HTML."""

    decision: Decision
    retry_after_name: Any = RETRY_AFTER
    """The name of the field that says when to come back."""
    _problem: Problem

    def answer(self, accept: str | None) -> RefusalResponse:
        """Return the answer to a request with this ``Accept`` field, for any framework to send."""
        return refusal_response(self._problem, self.decision, accept, self.retry_after_name)


class Exceeded(Refusal):
    """A refusal by a limit."""

    def _describe(
        self,
        decision: Decision,
        said: str | None,
        violated: Iterable[str] | None,
        ledger: RequestLedger | None,
    ) -> None:
        """Note why a request is refused; ``violated`` are by default the limits of the decision."""
        own = OwnDecision(decision)
        if violated is None:
            violated = own.violated() if ledger is None else ledger.violated_by(decision)
        self.decision, self._violated = decision, tuple(violated)
        self._problem = limit_exceeded(
            decision, said, self._violated, explains=ledger is None or ledger.explains
        )


class Failed(Refusal):
    """A refusal because the store failed, under ``on_error="deny"``."""

    def _describe(self, decision: Decision) -> None:
        self.decision, self._problem = decision, store_failed()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision,)


def as_refusal(error: Any, exceeded: Callable[[Decision], E], failed: Callable[[Decision], E]) -> E:
    """Return the exception of an adapter for a refusal, which a limiter of the app's own may have raised."""
    if isinstance(error, Refusal):
        return error  # type: ignore[return-value]
    decision = error.decision
    refused = failed(decision) if decision.source == "error" else exceeded(decision)
    refused.__cause__ = error  # type: ignore[attr-defined]
    return refused


def own_kinds(error: errors.RateLimitExceeded) -> tuple[type, ...]:
    """Return the classes of a refusal that are the app's own, for which it may have handlers."""
    kinds = type(error).__mro__
    return kinds[: kinds.index(errors.RateLimitExceeded)]
