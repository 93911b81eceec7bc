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
from overlimit.http.legacy import HeaderNames, legacy_fields
from overlimit.http.plan import People, header_fields

__all__ = ["LEDGER", "Ledger", "ledger_if_any", "new_ledger"]

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
        self._people: People = {}
        self._verdicts: list[Verdict] = []

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
            ruling = verdict.ruling
            self.returns = self.returns or bool(ruling.plan.returnable)
            if ruling.decision and not ruling.plan.has_shadows:
                continue
            if ruling.refused and verdict.enforced:
                self._refuse(verdict, before)
            note_if_in_shadow(verdict)

    def _refuse(self, verdict: Verdict, before: int) -> NoReturn:
        self._refused = self._verdicts.pop()
        self._refund_from(before)
        self._verdicts.append(verdict)
        refuse(verdict)

    def _refund_from(self, place: int) -> None:
        for earlier in self._verdicts[place:]:
            earlier.ruling.refund()
        # What they say is left is less than is there now.
        self._verdicts[place:] = [earlier._replace(is_shown=False) for earlier in self._verdicts[place:]]

    def decision(self, binding: Binding) -> Decision | None:
        """Return the latest decision that went through a binding, shadow limits included."""
        for verdict in reversed(self._verdicts):
            if binding in verdict.bindings:
                return verdict.ruling.shown_decision
        return None

    def give_back(self, response: Response) -> None:
        """Give back what does not count, seeing the response."""
        for verdict in self._verdicts:
            if verdict.ruling.decision:
                verdict.ruling.give_back(response)

    def add_fields(self, response: Response) -> None:
        """Add the header fields."""
        verdicts = self._verdicts
        if len(verdicts) != 1:
            verdicts = [verdict for verdict in verdicts if verdict.is_shown]
        if verdicts and verdicts[0].is_shown:
            _set(response.headers, _rate_fields(verdicts))
        if self._refused is not None and response.status_code in (429, 503):
            self._add_retry_after(response, self._refused)

    def _add_retry_after(self, response: Response, refused: Verdict) -> None:
        name = refused.bindings[0].header_names.retry_after
        seconds = retry_after_seconds(refused.ruling.decision)
        if seconds is None:
            return
        given = given_seconds(response.headers.get(name), refused.ruling.decision.time)
        if given is None or given < seconds:
            response.headers[name] = str(seconds)


def new_ledger(asked: Request, plan: RoutePlan) -> Ledger:
    """Give a request its ledger."""
    ledger = Ledger(plan)
    setattr(asked, LEDGER, ledger)
    return ledger


def ledger_if_any(asked: Request) -> Ledger | None:
    """Return the ledger of a request in which anything was decided."""
    return getattr(asked, LEDGER, None)


def _rate_fields(shown: Sequence[Verdict]) -> list[tuple[str, str]]:
    if len(shown) == 1 and shown[0].legacy_names is None:
        return _draft_fields(shown)
    legacy = [verdict for verdict in shown if verdict.legacy_names is not None]
    fields = _draft_fields([verdict for verdict in shown if verdict.ruling.plan.items])
    if legacy:
        strictest = min(legacy, key=_room)
        fields += legacy_fields(strictest.ruling.decision, strictest.legacy_names or HeaderNames())
    return fields


def _draft_fields(shown: Sequence[Verdict]) -> list[tuple[str, str]]:
    if not shown or not shown[0].ruling.plan.items:
        return []
    if len(shown) == 1:
        policy, rate = header_fields((shown[0].ruling,))
    else:
        policy, rate = header_fields([verdict.ruling for verdict in shown])
    return [(POLICY, policy), (RATE, rate)]


def _room(verdict: Verdict) -> tuple[bool, int]:
    decision = verdict.ruling.decision
    return decision.allowed, decision.remaining


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
