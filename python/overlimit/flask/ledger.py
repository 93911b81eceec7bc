"""What was decided in one request, what of it is given back, and the header fields its response gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from flask import Request, Response
from werkzeug.datastructures import Headers

from overlimit import Decision
from overlimit.flask.batch import Batch, Verdict, joint_fields
from overlimit.flask.binding import Binding
from overlimit.flask.refusing import note_if_in_shadow, refuse
from overlimit.flask.route_plan import RoutePlan
from overlimit.http.fields import given_seconds, retry_after_seconds
from overlimit.http.identities import People

__all__ = ["LEDGER", "Ledger"]

LEDGER = "_overlimit_ledger"
"""The attribute of a request that holds its ledger: several requests may share one ``g``."""


class Ledger:
    """The verdicts on one request in the order they were given."""

    __slots__ = ("_people", "_refused", "_undecided", "_verdicts", "plan", "returns")

    def __init__(self, asked: Request, plan: RoutePlan) -> None:
        """Give a request that goes to a route with this plan its ledger, with nothing decided."""
        setattr(asked, LEDGER, self)
        self.plan = plan
        self._undecided = plan.batches
        self.returns = False
        self._refused: Verdict | None = None
        self._people: People = {}
        self._verdicts: list[Verdict] = []

    def decide(self, batches: Sequence[Batch] | None = None) -> None:
        """Charge the request, store by store, up to the first that refuses: then nothing stays charged.

        ``batches`` are by default those of the route, which are decided once, however often it comes by.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            One refused.
        """
        if batches is None:
            batches, self._undecided = self._undecided, ()
        before = len(self._verdicts)
        for batch in batches:
            try:
                verdict = batch.decide(self._people)
            except Exception:
                self._refund_from(before)
                raise
            if verdict is None:
                continue
            self._verdicts.append(verdict)
            plan = verdict.plan
            if plan.returnable:
                self.returns = True
            if verdict.decision and not plan.has_shadows:
                continue
            if verdict.refused and verdict.enforced:
                self._refuse(verdict, before)
            note_if_in_shadow(verdict)

    def _refuse(self, verdict: Verdict, before: int) -> NoReturn:
        self._refused = self._verdicts.pop()
        self._refund_from(before)
        self._verdicts.append(verdict)
        refuse(verdict)

    def _refund_from(self, place: int) -> None:
        for earlier in self._verdicts[place:]:
            # What it says is left is less than will be there.
            earlier.is_shown = False
            earlier.refund()

    def decision(self, binding: Binding) -> Decision | None:
        """Return the latest decision that went through a binding, shadow limits included."""
        for verdict in reversed(self._verdicts):
            if binding in verdict.bench.bindings:
                return verdict.shown_decision
        return None

    def give_back(self, response: Response) -> None:
        """Give back what does not count, seeing the response."""
        for verdict in self._verdicts:
            if verdict.decision:
                verdict.give_back(response, self._people)

    def add_fields(self, response: Response) -> None:
        """Add the header fields."""
        verdicts = self._verdicts
        if len(verdicts) == 1:
            verdict = verdicts[0]
            if verdict.is_shown:
                _set(response.headers, verdict.fields())
        else:
            _set(response.headers, joint_fields([verdict for verdict in verdicts if verdict.is_shown]))
        if self._refused is not None and response.status_code in (429, 503):
            self._add_retry_after(response, self._refused)

    def _add_retry_after(self, response: Response, refused: Verdict) -> None:
        name = refused.bench.bindings[0].header_names.retry_after
        seconds = retry_after_seconds(refused.decision)
        if seconds is None:
            return
        given = given_seconds(response.headers.get(name), refused.decision.time)
        if given is None or given < seconds:
            response.headers[name] = str(seconds)


# What Headers.add would look for, a line break, is in none of our values: looking costs as much as deciding.
def _set(headers: Headers, fields: Sequence[tuple[str, str]]) -> None:
    present = headers._list
    taken = []
    for name, _ in present:
        taken.append(name.lower())
    for name, value in fields:
        if name.lower() in taken:
            headers.set(name, value)
        else:
            present.append((name, value))
