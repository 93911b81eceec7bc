"""``rate_limit`` and ``exempt``: limits on views, sync and async, functions and classes."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from overlimit import errors
from overlimit._messages.arguments import checks_arguments
from overlimit.django.ledger import Ledger, answer_to
from overlimit.django.options import VIEW_OPTIONS, ViewKeywords, applied_limits
from overlimit.django.request import http_request, method_of
from overlimit.django.views import EXEMPT, limits_of, name_of_call
from overlimit.http.callables import dotted_name
from overlimit.http.options.kinds import documents
from overlimit.http.options.limit_options import is_dynamic
from overlimit.http.options.optional_limits import OptionalLimits
from overlimit.http.rules.applied_limits import APPLIED_LIMITS, AppliedLimits, owner_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

V = TypeVar("V", bound=Callable[..., Any])
T = TypeVar("T")

_numbers = count()


class ViewLimit:
    """Limits to be put on views; it may be used for several."""

    def __init__(self, applied: AppliedLimits) -> None:
        self._applied = applied
        self._attribute = f"{APPLIED_LIMITS}{next(_numbers)}"

    def __call__(self, view: V, *_: NoReturn, **__: NoReturn) -> V:
        """Limit a view."""
        if isinstance(view, type):
            raise TypeError(
                f"{view.__name__} is a class: write @method_decorator(rate_limit(...), name='dispatch')"
            )
        if isinstance(view, HttpRequest) or not callable(view):
            raise TypeError(
                f"a limit is put on a view, not on {view!r}: write @rate_limit('5/minute'), not @rate_limit"
            )
        wrapper = self._wrapper(view)
        setattr(wrapper, self._attribute, self._applied)
        return wrapper

    @property
    def given(self) -> str:
        """The dotted name of a function that was given as the limits; empty if none was."""
        parts = (part for each in self._applied for part in each.options.parts if is_dynamic(part))
        return next(map(dotted_name, parts), "")

    def _wrapper(self, view: V) -> V:
        is_innermost, owner = not limits_of(view), owner_of(view)

        @wraps(view)
        def limited(*args: Any, **kwargs: Any) -> Any:
            call = _Call(view, self._applied, args, kwargs, owner, is_innermost=is_innermost)
            return call.answer_async() if getattr(call.owner, "view_is_async", False) else call.answer()

        @wraps(view)
        async def limited_async(*args: Any, **kwargs: Any) -> Any:
            call = _Call(view, self._applied, args, kwargs, owner, is_innermost=is_innermost)
            return await call.answer_async()

        return cast(V, limited_async if iscoroutinefunction(view) else limited)


class _Call:
    """A call of a decorated view."""

    def __init__(
        self, view: Any, applied: AppliedLimits, args: Any, kwargs: Any, owner: Any, *, is_innermost: bool
    ) -> None:
        self._view, self._args, self._kwargs = view, args, kwargs
        self._applied, self._is_innermost = applied, is_innermost
        self.owner = owner
        self._given, self._request = self._find_request()
        self._ledger = Ledger.of(self._request)
        self._is_outermost = self._ledger.take_response(self._given)

    def _find_request(self) -> tuple[Any, HttpRequest]:
        for given in (*self._args[:2], self._kwargs.get("request")):
            request = http_request(given)
            if request is not None:
                return given, request
            self.owner = given if self.owner is None else self.owner  # the view, if this is a method
        raise TypeError(
            f"{name_of_call(self._view, None)} is limited as a view, but was called without a request"
        )

    def answer(self) -> Any:
        ledger = self._ledger
        plan = self._plan() if ledger.limits(self._request) else None
        response = None if plan is None else ledger.enforce(plan, self._given, self._request)
        if response is None:
            try:
                response = self._view(*self._args, **self._kwargs)
            except Exception as error:
                response = self._answer_to(error)
                if response is None:
                    if self._is_outermost:
                        ledger.fail(error)
                    raise
        if not isinstance(response, HttpResponseBase) and inspect.isawaitable(response):
            return self._finish_later(response)
        if self._writes(response):
            ledger.finish(response)
        return response

    async def answer_async(self) -> Any:
        ledger = self._ledger
        plan = self._plan() if await ledger.limits_async(self._request) else None
        response = None if plan is None else await ledger.enforce_async(plan, self._given, self._request)
        if response is None:
            return await self._finish_later(self._call_view())
        if self._writes(response):
            await ledger.finish_async(response)
        return response

    async def _call_view(self) -> Any:
        response = self._view(*self._args, **self._kwargs)
        return await response if inspect.isawaitable(response) else response

    async def _finish_later(self, answering: Awaitable[Any]) -> Any:
        try:
            response = await answering
        except Exception as error:
            response = self._answer_to(error)
            if response is None:
                if self._is_outermost:
                    await self._ledger.fail_async(error)
                raise
        if self._writes(response):
            await self._ledger.finish_async(response)
        return response

    def _answer_to(self, error: Exception) -> HttpResponseBase | None:
        """Return the response to a refusal that the view has raised, where no middleware of ours will."""
        if self._is_outermost and isinstance(error, errors.RateLimitExceeded):
            return answer_to(error, self._request)
        return None

    def _plan(self) -> Any:
        """Return what this call decides; None: nothing, or another decorator below does."""
        ledger = self._ledger
        is_exempt = getattr(self._view, EXEMPT, False) or getattr(self.owner, EXEMPT, False)
        if not self._applied or is_exempt:
            return None
        if not self._is_innermost:
            ledger.pending = (*ledger.pending, *self._applied)
            return None
        plan = ledger.plan_of(name_of_call(self._view, self.owner), method_of(self._request), self._applied)
        return plan if plan.stores else None

    # The header fields are the middleware's, if it is there, or else the outermost decorator's.
    def _writes(self, response: Any) -> bool:
        return self._is_outermost and isinstance(response, HttpResponseBase)


@documents(VIEW_OPTIONS)
@checks_arguments(hint="write the limits first and all else by name, as rate_limit('5/m', key='ip')")
def rate_limit(limits: OptionalLimits | None = (), /, **options: Unpack[ViewKeywords]) -> ViewLimit:
    """Limit a view: a function, a method of a class, or ``dispatch`` by ``method_decorator``.

    The decorator answers a refused request with a 429, and the view is not called. ``request.rate_limit`` is
    the Decision, of several the refusal, and None if nothing was limited. Stacked decorators are one decision
    in one call to the store, made when the innermost of them is called: a refused request is charged nowhere.
    A view counts by its dotted name, ``dispatch`` by that of its class, however often it is decorated.

    Functions are given the request as the view has it, after the response or the decision if they are given
    one; they need not take it. Coroutine functions are awaited, and all others are called where Django calls
    sync code, for an async view in a thread. What is said of a RateLimit, the setting ``OVERLIMIT`` says
    here, and the endpoint is the view.

    Parameters
    ----------
    limits
        Limits as a string (``"10/second; 120/minute"``), a limit, a function that returns one of these for
        the request (``""`` or None: no limit), or a list of them. None is no limit.
    {options}

    Raises
    ------
    InvalidLimit
        ``limits`` are malformed; raised here and not at a request.
    ValueError, TypeError
        An option has an invalid value, or there is no option of this name.
    """
    return ViewLimit(applied_limits(limits, options))


def exempt(view: T) -> T:
    """Exempt a view from every limit, also from its own decorators: a function, or a class of views."""
    if not callable(view):
        raise TypeError(f"only a view can be exempt, not {view!r}")
    if isinstance(view, type):
        setattr(view, EXEMPT, True)
        return view

    @wraps(view)
    def marked(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    if iscoroutinefunction(view):
        markcoroutinefunction(marked)
    setattr(marked, EXEMPT, True)
    return cast(T, marked)
