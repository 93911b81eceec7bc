"""What was decided in a request of Django, and how its response shows that."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from overlimit import errors
from overlimit._core import Decision
from overlimit.django.calling import in_thread, load_user, run_async, run_in_thread, run_on_loop
from overlimit.django.request import DjangoRequest, forget_outcomes, method_of
from overlimit.django.site import Site, site, warn_of_processes
from overlimit.django.views import facts_of
from overlimit.http.answering.fields import shows_fields
from overlimit.http.answering.refusals import RefusalResponse, retry_after_instead
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import NO_PLAN, RoutePlan
from overlimit.http.deciding.steps import Steps
from overlimit.http.rules.applied_limits import AppliedLimits

T = TypeVar("T")

_LEDGER = "_overlimit_ledger"
_ERRORS = ((Http404, 404), (PermissionDenied, 403), ((BadRequest, SuspiciousOperation), 400))


class Ledger(RequestLedger):
    """The ledger of a request, which may be decided several times: for its view, and for what that calls."""

    __slots__ = (
        "_before",
        "_is_limited",
        "_refused",
        "is_kept",
        "is_taken",
        "pending",
        "saw_view",
        "site",
        "site_view",
        "told",
    )

    def __init__(self, of: Site, request: HttpRequest) -> None:
        super().__init__(DjangoRequest(request), NO_PLAN)
        self.site = of
        self._before: Sequence[StoreAnswer] = ()
        """What was decided before the latest refusal."""
        self._refused: HttpResponseBase | None = None
        """The response that the latest refusal became."""
        self._is_limited: bool | None = None
        self.is_taken = False
        """Whether somebody outside of the view is to finish the response."""
        self.is_kept = False
        """Whether a page cache keeps what is written into the response, for other clients."""
        self.pending: AppliedLimits = ()
        """The limits of decorators that were called, and which the innermost one decides."""
        self.saw_view = False
        """Whether the middleware has seen the view."""
        self.site_view: str | None = None
        """The view whose limits of the site are decided with the first decorator; None: they are decided."""
        self.told: Decision | None = None
        """What the view is told: the latest decision, or the refusal."""

    @classmethod
    def of(cls, request: HttpRequest) -> Ledger:
        """Return the ledger of a request, begun when it is first needed."""
        known = cls.known(request)
        if known is not None:
            return known
        of = site()
        of.look()
        made = cls(of, request)
        setattr(request, _LEDGER, made)
        request.rate_limit = None
        return made

    @staticmethod
    def known(request: HttpRequest) -> Ledger | None:
        """Return the ledger of a request, if it was begun."""
        found: Ledger | None = getattr(request, _LEDGER, None)
        return found

    def take_response(self, given: Any) -> bool:
        """Return whether the caller is the first, and so the outermost, who is to finish the response."""
        is_first, self.is_taken = not self.is_taken, True
        if is_first:
            self.is_kept = is_kept(given)
        return is_first

    def limits(self, request: HttpRequest) -> bool:
        """Return whether anything is limited in this request, which is asked when its view is known."""
        if self._is_limited is None:
            if self.site.exempt.awaits:
                run_in_thread(self.site.exempt.awaiting((request,)))
            match = request.resolver_match
            exempt = match is not None and facts_of(match.func, method_of(request)).is_exempt
            self._is_limited = not exempt and self.site.limits(request)
        return self._is_limited

    async def limits_async(self, request: HttpRequest) -> bool:
        """Return what `limits` does, without blocking the event loop."""
        exempt = self.site.exempt
        if self._is_limited is not None or exempt.function is None:
            return self.limits(request)
        if not exempt.awaits:
            return await in_thread(self.limits)(request)
        await run_async(exempt.awaiting((request,)))
        return self.limits(request)

    def plan_of(self, function: str, method: str, applied: AppliedLimits = ()) -> RoutePlan:
        """Return the plan of what is to be decided now, which is so only once."""
        found = self.site.plan(function, method, (*applied, *reversed(self.pending)), self.site_view)
        self.pending, self.site_view = (), None
        return found

    def enforce(self, plan: RoutePlan, given: Any, request: HttpRequest) -> HttpResponseBase | None:
        """Decide a request by a plan, and return the response if it is refused.

        ``given`` is the request as the view has it, with which functions of the app are called.
        """
        before = self._begin(plan, given, request)
        self.decide()
        self._tell(request)
        return None if self.refusal is None else run_in_thread(self._refusing(self.refusal, before, request))

    async def enforce_async(
        self, plan: RoutePlan, given: Any, request: HttpRequest
    ) -> HttpResponseBase | None:
        """Decide a request as `enforce` does, without blocking the event loop."""
        if plan.may_block:
            return await in_thread(self.enforce)(plan, given, request)
        if plan.may_count_user:
            await load_user(request)
        before = self._begin(plan, given, request)
        refusal = await self.decide_async()
        self._tell(request)
        if refusal is None:
            return None
        hooks = (each for rule in refusal.refusing for each in (*rule.on_breach, rule.error_message))
        return await run_on_loop(self._refusing(refusal, before, request), hooks)

    def _begin(self, plan: RoutePlan, given: Any, request: HttpRequest) -> int:
        """Begin a decision; return how many answers there were before."""
        warn_of_processes(plan, request)
        forget_outcomes(request)
        self.begin(DjangoRequest(given), plan)
        return len(self.answers)

    def _run(self, steps: Steps[T]) -> T:
        return run_in_thread(steps)

    def _run_async(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        return run_async(steps)

    def _tell(self, request: HttpRequest) -> None:
        """Tell the view what was decided."""
        if self.told is None or self.told:
            self.told = self.decision(self.site.rate_limit)
        request.rate_limit = self.told

    def _refusing(self, refusal: StoreAnswer, before: int, request: HttpRequest) -> Steps[HttpResponseBase]:
        self._before = self.answers[:before]
        self._refused = yield from _answering(refusal, request)
        self._refused.setdefault("Cache-Control", "no-store")
        return self._refused

    def finish(self, response: HttpResponseBase) -> None:
        """Write the header fields, and refund what does not count by the response.

        If a refusal is the response, what was decided before gives back what it has charged. A view may also
        go on, as one that does many things in a request.
        """
        if self._has_to_refund:
            run_in_thread(self._finishing(response))
        else:
            self.show(response, is_kept=self.is_kept)

    async def finish_async(self, response: HttpResponseBase) -> None:
        """Finish a response as `finish` does, without blocking the event loop."""
        if self._has_to_refund:
            await run_on_loop(self._finishing(response), self._asked_of_response())
        else:
            self.show(response, is_kept=self.is_kept)

    @property
    def _has_to_refund(self) -> bool:
        return self._refused is not None or self.may_refund

    def _finishing(self, response: HttpResponseBase) -> Steps[None]:
        if self._refused is not None and (response is self._refused or response.status_code in (429, 503)):
            yield from self._rolling_back([each for each in self._before if each not in self.rolled_back])
        self.show(response, is_kept=self.is_kept)
        if self.may_refund:
            yield from self.refunding_uncounted(response)

    def show(self, response: HttpResponseBase, *, is_kept: bool) -> None:
        """Write the header fields, which a page cache keeps if ``is_kept``, once a response is rendered.

        A page cache inside of the caller keeps a response when it is rendered, and so has kept it by then.
        """
        write = partial(self._write_fields, is_kept)
        if getattr(response, "is_rendered", True):
            write(response)
        else:
            response.add_post_render_callback(write)

    def _write_fields(self, is_kept: bool, response: HttpResponseBase) -> None:
        status = response.status_code
        if shows_fields(status) and not (is_kept and status == HTTPStatus.OK):
            for name, value in self.fields():
                response[name] = value
        if self.told is not None and not self.told and status in (429, 503):
            name = self.site.rate_limit.header_names.retry_after
            seconds = retry_after_instead(self.told, response.get(name))
            if seconds is not None:
                response[name] = seconds

    def fail(self, error: Exception) -> None:
        """Refund what does not count by the response that Django makes of an exception."""
        if self.may_refund:
            run_in_thread(self.refunding_uncounted(_response_to(error)))

    async def fail_async(self, error: Exception) -> None:
        """Refund as `fail` does, without blocking the event loop."""
        if self.may_refund:
            steps = self.refunding_uncounted(_response_to(error))
            await run_on_loop(steps, self._asked_of_response())

    def _asked_of_response(self) -> Iterator[object]:
        """Yield the functions of the app that are asked whether the request counts."""
        return (rule.deduct_when for answer in self.answers for rule in answer.call.rules)


def is_kept(given: Any) -> bool:
    """Return whether a page cache that was given this request is to keep its response for others."""
    kept: bool = getattr(given, "_cache_update_cache", False)
    return kept


def _response_to(error: Exception) -> HttpResponse:
    return HttpResponse(status=next((status for kinds, status in _ERRORS if isinstance(error, kinds)), 500))


def _answering(refusal: StoreAnswer, request: HttpRequest) -> Steps[HttpResponseBase]:
    answer: HttpResponseBase | None = yield from refusal.asking_hooks(
        lambda result: isinstance(result, HttpResponseBase), "an HttpResponse"
    )
    if answer is not None:
        return answer
    return _response((yield from refusal.asking_response(request.META.get("HTTP_ACCEPT"))))


def answer_to(error: errors.RateLimitExceeded, request: HttpRequest) -> HttpResponseBase:
    """Return the response to a refusal that a view has raised."""
    ledger, accept = Ledger.of(request), request.META.get("HTTP_ACCEPT")
    message = getattr(error, "message", None)
    return _response(ledger.raised(error.decision, ledger.site.rate_limit, accept, message))


def _response(refusal: RefusalResponse) -> HttpResponse:
    status, fields, body = refusal
    response = HttpResponse(body, status=status.value)
    for name, value in fields:
        if name != "Vary":
            response[name] = value
    patch_vary_headers(response, ["Accept"])
    return response
