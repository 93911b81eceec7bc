"""What was decided in one request, and the header fields its response gets for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flask import Request, Response, after_this_request

from overlimit import Decision
from overlimit.flask.binding import Binding
from overlimit.flask.exceeded import RateLimitExceeded
from overlimit.http.fields import POLICY, RATE, RETRY_AFTER, given_seconds, retry_after_seconds
from overlimit.http.plan import People, Plan, Ruling, header_fields

__all__ = ["Batch", "Ledger", "ledger_of"]

# On the request, since several requests may share one g when an app context was pushed around them.
_ATTRIBUTE = "_overlimit_ledger"


class Batch(NamedTuple):
    """What is checked in one call to a store, by one RateLimit or by several that share it."""

    bindings: tuple[Binding, ...]
    plan: Plan


class Ledger:
    """The decisions of one request in the order they were made."""

    __slots__ = ("_people", "_route_decided", "_rulings")

    def __init__(self) -> None:
        """Start with nothing decided."""
        self._route_decided = False
        self._people: People = {}
        self._rulings: list[tuple[tuple[Binding, ...], Ruling]] = []

    def decide_route(self, batches: Sequence[Batch]) -> None:
        """Decide the request as a whole, however often it comes by.

        Raises
        ------
        RateLimitExceeded
            It is refused.
        """
        if not self._route_decided:
            self._route_decided = True
            self.decide(batches)

    def decide(self, batches: Sequence[Batch]) -> None:
        """Charge the request, store by store, up to the first that refuses.

        Raises
        ------
        RateLimitExceeded
            One refused; it has charged nothing.
        """
        for bindings, plan in batches:
            if not bindings[0].enabled:
                continue
            if not self._rulings:
                after_this_request(self._add_headers)
            ruling = plan.decide(self._people)
            self._rulings.append((bindings, ruling))
            if not ruling.decision:
                raise RateLimitExceeded(ruling.decision)

    def decision(self, binding: Binding) -> Decision | None:
        """Return the latest decision that went through a binding."""
        return next((ruling.decision for by, ruling in reversed(self._rulings) if binding in by), None)

    def _add_headers(self, response: Response) -> Response:
        shown = [ruling for by, ruling in self._rulings if by[0].headers is not None]
        if shown:
            response.headers[POLICY], response.headers[RATE] = header_fields(shown)
        if response.status_code == 429:
            self._add_retry_after(response)
        return response

    def _add_retry_after(self, response: Response) -> None:
        refused = [ruling.decision for _, ruling in self._rulings if not ruling.decision]
        seconds = retry_after_seconds(refused[-1]) if refused else None
        if seconds is None:
            return
        given = given_seconds(response.headers.get(RETRY_AFTER), refused[-1].time)
        if given is None or given < seconds:
            response.headers[RETRY_AFTER] = str(seconds)


def ledger_of(asked: Request) -> Ledger:
    """Return the ledger of a request, made at first use."""
    ledger: Ledger | None = getattr(asked, _ATTRIBUTE, None)
    if ledger is None:
        ledger = Ledger()
        setattr(asked, _ATTRIBUTE, ledger)
    return ledger
