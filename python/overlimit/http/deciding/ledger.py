"""What was decided in one request, what of it is refunded, and the header fields of its response."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from overlimit._core import Decision, PendingCall
from overlimit.errors import StoreError
from overlimit.http.answering.fields import (
    POLICY,
    HeaderNames,
    RawFields,
    beside,
    legacy_fields,
    names_in,
    raw,
)
from overlimit.http.answering.own_decisions import OwnDecision
from overlimit.http.answering.refusals import RefusalResponse, raised_refusal, refusal_response
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.steps import Steps, all_of, awaited, run, run_async
from overlimit.http.deciding.store_call import StoreCall, rate_fields
from overlimit.http.identifying.identifiers import IdentifierCache
from overlimit.http.request import Request

if TYPE_CHECKING:
    from overlimit.http.deciding.plans import RoutePlan, StorePlan
    from overlimit.http.rules.app_rate_limits import AppRateLimit

T = TypeVar("T")


class RequestLedger:
    """What the stores answered to one request, which may be decided several times."""

    __slots__ = (
        "_noted",
        "_raised",
        "_used",
        "before",
        "identifiers",
        "may_refund",
        "plan",
        "refusal",
        "rolled_back",
        "shows_more",
        "was_decided",
    )

    before: RequestLedger
    """What another middleware around the app has decided of the request; unset if there is none."""

    def __init__(self, request: Request, plan: RoutePlan) -> None:
        self.plan = plan
        self.identifiers = identifiers = IdentifierCache()
        identifiers.request = request
        self.was_decided = False
        """Whether the stores of the plan have been asked."""
        self.refusal: StoreAnswer | None = None
        """What has refused the request last, by this plan or besides."""
        self.may_refund = False
        """Whether `refund_uncounted` must be called with the response."""
        self._noted: list[tuple[StorePlan, StoreCall, Decision, IdentifierCache]] = []
        """What `answers` are made of, which most requests never need."""
        self.rolled_back: tuple[StoreAnswer, ...] = ()
        """The answers that were refunded because another store refused."""
        self._raised: tuple[OwnDecision, AppRateLimit] | None = None
        """What a limiter of the app's own has refused, and the RateLimit whose options show it."""
        self.shows_more = False
        """Whether header fields show something else than a single decision of the plan."""
        self._used: int | None = None
        """What it is to be settled at once the response is known."""

    def begin(self, request: Request, plan: RoutePlan) -> None:
        """Take what is to be decided next, for the request as functions of the app are given it there."""
        self.plan = plan
        self.identifiers = identifiers = IdentifierCache()
        identifiers.request = request
        self.was_decided = False
        self.refusal = None

    @property
    def answers(self) -> list[StoreAnswer]:
        """What the stores answered, one after the other."""
        return [StoreAnswer(*each) for each in self._noted]

    @property
    def own_refusal(self) -> StoreAnswer | None:
        """What refuses the request by its plan."""
        if self.refusal is None:
            return None
        return next((each for each in self.answers if each.refuses and each.plan in self.plan.stores), None)

    def decide(self, stores: Iterable[StorePlan] | None = None) -> StoreAnswer | None:
        """Charge the request, store by store, until one refuses; then what others charged is refunded.

        ``stores`` are by default those of the request's route, which are asked only once, unless that failed:
        whoever tries again what they have refused is refused again. Raises StoreError
        if a store failed and ``on_error`` says so, and InvalidLimit, ValueError or TypeError if a function of
        the app returned an invalid value.
        """
        plan = self.plan
        call = None if self.was_decided or stores is not None or plan.needs_loop else plan.only_call
        if call is None:
            return self._run(self.deciding(stores))
        decision = call.decide(self.identifiers)
        self.was_decided = True
        return self._note(plan.stores[0], call, decision)

    def _run(self, steps: Steps[T]) -> T:
        """Make calls in this thread, where a framework may also wait for coroutine functions."""
        return run(steps)

    def _run_async(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        """Make calls on the event loop, where a framework may do something before coroutine functions."""
        return run_async(steps)

    async def decide_async(self) -> StoreAnswer | None:
        """Charge the request as `decide` does, without blocking the event loop."""
        later = self.decide_later()
        if later is not None:
            await later
        return self.refusal

    def decide_later(self) -> Awaitable[object] | None:
        """Charge the request as `decide` does; return what is to be awaited for that, None if nothing is."""
        plan = self.plan
        call = None if self.was_decided or plan.needs_loop else plan.only_call
        if call is None:
            return self._run_async(self.deciding())
        decision = call.decide_later(self.identifiers)
        self.was_decided = True
        if type(decision) is PendingCall:
            return self._note_later(plan.stores[0], call, decision)
        self._note(plan.stores[0], call, decision)
        return None

    async def _note_later(self, plan: StorePlan, call: StoreCall, pending: PendingCall) -> None:
        try:
            decision = await awaited(pending)
        except BaseException:
            self.was_decided = False
            raise
        self._note(plan, call, decision)

    def deciding(self, stores: Iterable[StorePlan] | None = None) -> Steps[StoreAnswer | None]:
        """Decide as `decide` does, and leave it to the caller to call the stores."""
        is_own = stores is None
        if stores is None:
            if self.was_decided:
                return self.own_refusal
            stores, self.was_decided = self.plan.stores, True
        identifiers, before = self.identifiers, len(self._noted)
        try:
            for plan in stores:
                if plan.awaits:
                    yield from plan.awaiting(identifiers.request.arguments)
                call = plan.fixed_call or plan.call_for(identifiers)
                if call is None:
                    continue
                try:
                    call, decision = yield from call.choosing(identifiers)
                except StoreError as error:
                    yield from plan.awaiting_instead(identifiers.request.arguments)
                    call = plan.call_instead(call, error, identifiers)
                    if call is None:
                        continue
                    call, decision = yield from call.choosing(identifiers)
                else:
                    plan.note_answer()
                if self._note(plan, call, decision) is not None:
                    break
            else:
                return None
        except BaseException:
            self.was_decided = self.was_decided and not is_own
            yield from self._rolling_back(self.answers[before:])
            raise
        yield from self._rolling_back(self.answers[before:-1])
        return self.refusal

    def _note(self, plan: StorePlan, call: StoreCall, decision: Decision) -> StoreAnswer | None:
        """Note what a store answered, and return it if that refuses the request."""
        self._noted.append((plan, call, decision, self.identifiers))
        if call.refundable:
            self.may_refund = True
        return None if decision and not call.has_shadows else self._note_refusal()

    def _note_refusal(self) -> StoreAnswer | None:
        """Record a refusal, in shadow or not, and return it if the request is refused."""
        answer = StoreAnswer(*self._noted[-1])
        if answer.refuses:
            self.refusal = answer
            return answer
        if answer.refuses_in_shadow:
            answer.decision_with_shadows._count_shadow_refusal()
            self.report_shadow_refusal(answer)
        return None

    def report_shadow_refusal(self, answer: StoreAnswer) -> None:
        """Log that limits in shadow would have refused the request."""
        answer.log_as_shadow(self.plan.place)

    def _rolling_back(self, answers: Sequence[StoreAnswer]) -> Steps[None]:
        """Refund answers, which are shown no more, since the numbers in them hold no more either."""
        self.rolled_back = (*self.rolled_back, *answers)
        self.shows_more = self.shows_more or bool(answers)
        yield from all_of(answer.refunding() for answer in answers)

    def decision(self, rate_limit: AppRateLimit) -> Decision | None:
        """Return the latest decision for a RateLimit, shadow limits included."""
        for noted in reversed(self._noted):
            if rate_limit in noted[1].rate_limits:
                return _with_shadows(*noted)
        return None

    @property
    def latest(self) -> Decision | None:
        """The latest decision, shadow limits included."""
        return _with_shadows(*self._noted[-1]) if self._noted else None

    def refund_uncounted(self, response: Any) -> None:
        """Refund what does not count, now that the response is known; only once, even if that fails."""
        self._run(self.refunding_uncounted(response))

    def refunding_uncounted(self, response: Any) -> Steps[None]:
        """Refund as `refund_uncounted` does, and leave it to the caller to call the stores."""
        self.may_refund = False
        waiting = () if self._used is None else (self.settling(self._used),)
        uncounted = [each.refunding_uncounted(response) for each in self.answers]
        yield from all_of((*uncounted, *waiting))

    @property
    def has_costs(self) -> bool:
        """Whether a limit that may hold for the request has a cost."""
        return any(plan.has_costs for plan, *_ in self._noted)

    @property
    def has_own_limits(self) -> bool:
        """Whether limits may hold for the request that are no defaults."""
        return any(plan.has_own_limits for plan, *_ in self._noted)

    def settling(self, used: int) -> Steps[None]:
        """Make the request cost what was used; what `refund_uncounted` will ask for is settled then."""
        if self.may_refund:
            self._used = used if self._used is None else self._used
        else:
            yield from all_of(each.settling(used) for each in self.answers)

    def refunding(self) -> Steps[None]:
        """Give back what the request was charged."""
        yield from all_of(each.refunding() for each in self.answers)

    def raised(
        self, decision: Decision, rate_limit: AppRateLimit, accept: str | None, message: str | None = None
    ) -> RefusalResponse:
        """Return the answer to a refusal that code of the app has raised, noted as `note_raised` does."""
        self.note_raised(decision, rate_limit)
        violated = self.violated_by(decision)
        problem = raised_refusal(decision, message, violated, explains=rate_limit.explains)
        return refusal_response(problem, decision, accept, rate_limit.header_names.retry_after)

    def note_raised(self, decision: Decision, rate_limit: AppRateLimit) -> None:
        """Have header fields show a refusal by a limiter of the app's own, by the options of a RateLimit."""
        if self._answer_of(decision) is None:
            self._raised, self.shows_more = (self._own(decision), rate_limit), True

    @property
    def refused_by(self) -> tuple[Decision, str] | None:
        """The refusal that a 429 or 503 is of, and the name of its Retry-After field; None: there is none."""
        if self._raised is not None:
            own, shown_by = self._raised
            return own.decision, shown_by.header_names.retry_after
        return None if self.refusal is None else (self.refusal.decision, self.refusal.retry_after_name)

    def violated_by(self, decision: Decision) -> list[str]:
        """Return the names that header fields give to the limits by which this decision refuses."""
        answer = self._answer_of(decision)
        return self._own(decision).violated() if answer is None else answer.violated()

    @property
    def explains(self) -> bool:
        """Whether all RateLimits that have decided or refused have refusals explained."""
        own = self._raised is None or self._raised[1].explains
        return own and all(each.explains for each in self.answers)

    def _answer_of(self, decision: Decision) -> StoreAnswer | None:
        """Return the answer whose decision it is; None: it was made by a limiter of the app's own."""
        known = ((each, (each.decision, each.decision_with_shadows)) for each in self.answers)
        return next((each for each, decisions in known if decision in decisions), None)

    def _own(self, decision: Decision) -> OwnDecision:
        shown, _ = self._decided_fields()
        return OwnDecision(decision, names_in(value for name, value in shown if name == POLICY))

    def fields(self) -> list[tuple[str, str]]:
        """Return the header fields that show the decisions."""
        if len(self._noted) != 1 or self.shows_more:
            return self._fields_of_several() if self._noted or self.shows_more else []
        _, call, decision, _ = self._noted[0]
        return call.fields(decision)

    def raw_fields(self) -> RawFields:
        """Return the header fields in bytes, with their names in lower case."""
        if len(self._noted) != 1 or self.shows_more:
            return raw(self.fields())
        _, call, decision, _ = self._noted[0]
        return call.raw_fields(decision)

    def _fields_of_several(self) -> list[tuple[str, str]]:
        """Return the fields of all decisions, with the strictest X-RateLimit."""
        fields, legacy = self._decided_fields()
        if self._raised is not None:
            own, shown_by = self._raised
            if shown_by.in_fields and own.fields():
                fields = beside(own.fields(), fields)
            if shown_by.legacy_names is not None and not shown_by.shadow and own.decision.limit is not None:
                legacy.append((own.decision, shown_by.legacy_names))
        if legacy:
            fields += legacy_fields(*min(legacy, key=lambda each: (each[0].allowed, each[0].remaining)))
        return fields

    def _decided_fields(self) -> tuple[list[tuple[str, str]], list[tuple[Decision, HeaderNames]]]:
        """Return the fields of all policies, each of its latest decision, and what X-RateLimit may show."""
        latest = {id(each.call): each for each in self.answers if each.is_in_fields}.values()
        valid = [each for each in latest if each not in self.rolled_back]
        fields = rate_fields((each.call, each.decision if each in valid else None) for each in latest)
        return fields, [
            (each.decision, each.call.legacy_names) for each in valid if each.call.legacy_names is not None
        ]


def _with_shadows(plan: StorePlan, call: StoreCall, decision: Decision, known: IdentifierCache) -> Decision:
    return StoreAnswer(plan, call, decision, known).decision_with_shadows if call.has_shadows else decision
