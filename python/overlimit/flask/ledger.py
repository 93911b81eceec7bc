"""What was decided in one request, what of it is given back, and the header fields its response gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from flask import Request, Response
from werkzeug.datastructures import Headers

from overlimit import Decision
from overlimit.flask.batch import Batch, Verdict
from overlimit.flask.binding import Binding
from overlimit.flask.refusing import note_if_in_shadow, refuse
from overlimit.flask.route_plan import RoutePlan
from overlimit.http.fields import POLICY, RATE
from overlimit.http.identities import People
from overlimit.http.legacy import legacy_fields
from overlimit.http.plan import rate_fields

__all__ = ["LEDGER", "Ledger"]

LEDGER = "_overlimit_ledger"
"""The attribute of a request that holds its ledger: several requests may share one ``g``."""

_OTHER_NAMES = frozenset({"Content-Length", "Content-Type", "Location", "Set-Cookie", "Vary"})
"""What most responses have, and nothing else: none of these is a field of ours."""

# As Verdict(...), without a call of Python's for each request.
_verdict = partial(tuple.__new__, Verdict)


class Ledger:
    """The verdicts on one request in the order they were given."""

    __slots__ = ("_hooks_failed", "_people", "_taken_back", "_undecided", "_verdicts", "plan", "returns")

    def __init__(self, asked: Request, plan: RoutePlan) -> None:
        """Give a request that goes to a route with this plan its ledger, with nothing decided."""
        setattr(asked, LEDGER, self)
        self.plan = plan
        self.returns = False
        self._hooks_failed = False
        self._undecided = plan.batches
        self._people: People = {}
        self._verdicts: list[Verdict] = []
        self._taken_back: Sequence[Verdict] = ()

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
        verdicts = self._verdicts
        before = len(verdicts)
        for batch in batches:
            settled = batch.settled
            try:
                if settled is None:
                    verdict = batch.decide(self._people)
                else:
                    bench, plan = settled
                    verdict = _verdict((bench, plan, plan.decide(self._people)))
            except BaseException:  # a greenlet's timeout, too
                self._take_back(before)
                raise
            if verdict is None:
                continue
            verdicts.append(verdict)
            _, plan, decision = verdict
            if plan.returnable:
                self.returns = True
            if not decision or plan.has_shadows:
                self._heed(verdict, before)

    def _heed(self, verdict: Verdict, before: int) -> None:
        if verdict.plan.refuses(verdict.decision) and not verdict.bench.shadow:
            self._take_back(before, but=1)
            refuse(verdict)
        note_if_in_shadow(verdict)

    def _take_back(self, before: int, *, but: int = 0) -> None:
        """Refund the verdicts from a place on, but for so many of the last."""
        taken = self._verdicts[before : len(self._verdicts) - but]
        # What they say is left is less than will be there.
        self._taken_back = (*self._taken_back, *taken)
        _each(verdict.refund for verdict in taken)

    def decision(self, binding: Binding) -> Decision | None:
        """Return the latest decision that went through a binding, shadow limits included."""
        for verdict in reversed(self._verdicts):
            if binding in verdict.bench.bindings:
                return verdict.plan.shown(verdict.decision)
        return None

    def give_back(self, response: Response) -> None:
        """Give back what does not count, seeing the response; only once, though that fails."""
        self.returns = False
        _each(partial(verdict.give_back, response, self._people) for verdict in self._verdicts)

    def note_failed_hook(self, response: Response) -> None:
        """Give back what does not count if no other response will come by.

        Flask asks the after_request hooks once more about its answer to a failure of theirs, and sends it
        whatever they do then.
        """
        if self._hooks_failed and self.returns:
            self.give_back(response)
        self._hooks_failed = True

    def add_fields(self, response: Response) -> None:
        """Add the header fields."""
        if len(self._verdicts) == 1 and not self._taken_back:
            # As is_shown and legacy_names say, without the calls: every response comes by here.
            bench, plan, decision = self._verdicts[0]
            if not bench.shadow and decision.source != "error":
                policy = plan.policy_field
                fields = [(POLICY, policy), (RATE, plan.rate_field(decision))] if policy else []
                if bench.legacy_names is not None and plan.enforces:
                    fields += legacy_fields(decision, bench.legacy_names)
                _set(response.headers, fields)
        elif self._verdicts:
            _set(response.headers, self._fields_of_several())

    def _fields_of_several(self) -> list[tuple[str, str]]:
        """Return all policies, of each the latest decision, and of X-RateLimit the strictest."""
        latest = {id(each.plan): each for each in self._verdicts if each.is_shown}.values()
        shown = [each for each in latest if each not in self._taken_back]
        fields = rate_fields((each.plan, each.decision if each in shown else None) for each in latest)
        legacy = [(each.decision, each.legacy_names) for each in shown if each.legacy_names is not None]
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


def _set(headers: Headers, fields: list[tuple[str, str]]) -> None:
    # Headers.add looks for line breaks, of which none is in ours: that would cost as much as deciding.
    present: list[tuple[str, str]] | None = getattr(headers, "_list", None)
    if present is not None and _OTHER_NAMES.issuperset([name for name, _ in present]):
        present += fields
        return
    for name, value in fields:
        headers.set(name, value)
