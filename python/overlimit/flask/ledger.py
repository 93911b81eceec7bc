"""What was decided in one request, what of it is given back, and the header fields its response gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from flask import Request, Response
from werkzeug.datastructures import Headers

from overlimit import Decision
from overlimit.flask.batch import Batch, Verdict
from overlimit.flask.binding import Binding
from overlimit.flask.refusing import note_if_in_shadow, refuse
from overlimit.flask.route_plan import RoutePlan
from overlimit.http.fields import POLICY, RATE, given_seconds, retry_after_seconds
from overlimit.http.identities import People
from overlimit.http.legacy import HeaderNames, legacy_fields
from overlimit.http.ruling import header_fields

__all__ = ["Ledger", "ledger_of"]

# On the request, since several requests may share one g when an app context was pushed around them.
LEDGER = "_overlimit_ledger"


class Ledger:
    """The verdicts on one request in the order they were given."""

    __slots__ = ("_people", "_refused", "_route_decided", "_verdicts", "plan", "returns")

    def __init__(self, plan: RoutePlan) -> None:
        """Start with nothing decided of a request that goes to a route with this plan."""
        self.plan = plan
        self._route_decided = False
        self.returns = False
        self._refused: Verdict | None = None
        self._people = People()
        self._verdicts: list[Verdict] = []

    @classmethod
    def opened(cls, asked: Request, plan: RoutePlan) -> Ledger:
        """Give a request its ledger."""
        ledger = cls(plan)
        vars(asked)[LEDGER] = ledger
        return ledger

    def decide_route(self) -> None:
        """Decide the request as a whole, however often it comes by.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            It is refused.
        """
        if not self._route_decided:
            self._route_decided = True
            self.decide(self.plan.batches)

    def decide(self, batches: Sequence[Batch]) -> None:
        """Charge the request, store by store, up to the first that refuses: then nothing stays charged.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            One refused.
        """
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
        shown = [verdict for verdict in self._verdicts if verdict.is_shown]
        if shown:
            _set(response.headers, _rate_fields(shown))
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


def ledger_of(asked: Request) -> Ledger | None:
    """Return the ledger of a request, if it has one: anything may be limited in it then."""
    return vars(asked).get(LEDGER)


def _rate_fields(shown: Sequence[Verdict]) -> list[tuple[str, str]]:
    policy, rate = header_fields(shown)
    fields = [(POLICY, policy), (RATE, rate)] if policy else []
    legacy = [verdict for verdict in shown if verdict.legacy_names is not None]
    if legacy:
        strictest = min(legacy, key=_room)
        fields += legacy_fields(strictest.decision, strictest.legacy_names or HeaderNames())
    return fields


def _room(verdict: Verdict) -> tuple[bool, int]:
    return verdict.decision.allowed, verdict.decision.remaining


# Most responses have none of the fields: adding them costs half of replacing what may be there.
def _set(headers: Headers, fields: Sequence[tuple[str, str]]) -> None:
    present = set()
    for name, _ in headers:
        present.add(name.lower())
    for name, value in fields:
        if name.lower() in present:
            headers.set(name, value)
        else:
            headers.add(name, value)
