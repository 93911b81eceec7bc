"""The middleware: the limits of the site, header fields on every response, and answers to refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.cache import UpdateCacheMiddleware
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from overlimit import errors
from overlimit.django.ledger import Ledger, answer_to, is_kept
from overlimit.django.request import method_of
from overlimit.django.site import site
from overlimit.django.views import decisions, facts_of, is_exempt
from overlimit.http.deciding.charges import steps_of
from overlimit.http.deciding.plans import RoutePlan
from overlimit.route_charges import RouteSteps


class RateLimitMiddleware:
    """Limits views by the setting ``OVERLIMIT``, and writes the header fields of all that is decided.

    A view without a decorator is decided just before it is called, after the ``__call__`` of every
    middleware, so that ``request.user`` is known wherever this one stands. What a decorator decides is
    decided where that is called, together with the limits of the site. No view, no limit: 404s are not
    counted, nor what another middleware answers. OPTIONS requests are not limited.

    It may be used under WSGI and ASGI; `RateLimitExceeded` that a view raises becomes a 429.

    Raises
    ------
    ImproperlyConfigured
        The setting ``OVERLIMIT`` is wrong; raised when the server starts.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        site()
        self._is_within_cache = bool(caches_around())
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)
            self.process_view = self._process_view_async  # type: ignore[method-assign]

    def __call__(self, request: HttpRequest) -> Any:
        """Let a request pass, and write the header fields into its response."""
        ledger = Ledger.of(request)
        is_outermost = ledger.take_response(request)
        if self._is_async:
            return self._call_async(ledger, request, is_outermost)
        response = self._get_response(request)
        if is_outermost:
            ledger.is_kept = self._is_within_cache and is_kept(request)
            ledger.finish(response)
        return response

    async def _call_async(self, ledger: Ledger, request: HttpRequest, is_outermost: bool) -> Any:
        response = await self._get_response(request)
        if is_outermost:
            ledger.is_kept = self._is_within_cache and is_kept(request)
            await ledger.finish_async(response)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Decide a request to a view that has no decorator; return the response if it is refused."""
        ledger = Ledger.of(request)
        plan = _plan(ledger, view, request) if ledger.limits(request) else None
        return None if plan is None else ledger.enforce(plan, request, request)

    async def _process_view_async(
        self, request: HttpRequest, view: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponseBase | None:
        ledger = Ledger.of(request)
        plan = _plan(ledger, view, request) if await ledger.limits_async(request) else None
        return None if plan is None else await ledger.enforce_async(plan, request, request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        """Answer a refusal that the view has raised."""
        if isinstance(exception, errors.RateLimitExceeded):
            return answer_to(exception, request)
        return None


class SiteLimits:
    """The limits of the site as ``overlimit.simulation.replay`` takes them."""

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request, as far as a log tells: no function is asked about it."""
        of = site()
        try:
            view: Any = resolve(path).func
        except Resolver404:
            return ()
        if method == "OPTIONS" or not of.rate_limit.enabled or is_exempt(view, method):
            return ()
        if of.exempt.function is None and of.exempt.include(method, path, ()):
            return ()
        has_middleware = any(is_a(each, RateLimitMiddleware) for each in settings.MIDDLEWARE)
        plans = (
            of.plan(name, method, applied, site_view)
            for name, applied, site_view in decisions(view, method, has_middleware)
        )
        return tuple(step for plan in plans for step in steps_of(plan))


def get_limits() -> SiteLimits:
    """Return the limits of the site, for ``overlimit.simulation.replay(events, get_limits())``."""
    return SiteLimits()


def caches_around() -> list[str]:
    """Return the page caches before this in ``MIDDLEWARE``, which would keep its header fields."""
    given = list(settings.MIDDLEWARE)
    own = next((place for place, path in enumerate(given) if is_a(path, RateLimitMiddleware)), 0)
    return [path for path in given[:own] if is_a(path, UpdateCacheMiddleware)]


def is_a(path: str, kind: type) -> bool:
    """Return whether a path in ``MIDDLEWARE`` names this class, or one derived from it."""
    try:
        found = import_string(path)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, kind)


def _plan(ledger: Ledger, view: Callable[..., Any], request: HttpRequest) -> RoutePlan | None:
    """Return the plan by which the site limits a view; None: nothing is decided now."""
    if ledger.saw_view:
        return None
    method = method_of(request)
    facts = facts_of(view, method)
    ledger.saw_view, ledger.site_view = True, facts.name
    if facts.decides:
        return None
    plan = ledger.plan_of(facts.name, method)
    return plan if plan.stores else None
