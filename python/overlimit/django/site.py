"""The limits of this site, compiled when they are first needed, and anew when its settings change."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import setting_changed
from django.http import HttpRequest

from overlimit._forks import PerProcess
from overlimit.django.request import DjangoRequest
from overlimit.django.settings import LABELS, NAME, read
from overlimit.django.views import paths_of_views, shown_name
from overlimit.http.deciding.plans import RoutePlan, plan_stores
from overlimit.http.identifying.default import by_address_and_user
from overlimit.http.rules.app_rate_limits import AppRateLimit, AppRateLimits, RateLimitHandle
from overlimit.http.rules.applied_limits import AppliedLimits, labelled
from overlimit.http.rules.file_limits import RoutePaths
from overlimit.http.rules.precedence import (
    Route,
    count_of,
    meta_rules,
    rules_of_decorators,
    rules_of_route,
)
from overlimit.http.rules.rule import Rule
from overlimit.stores import Store

_MOST_PLANS = 4096
_ADVICE = (
    f'set {NAME} = {{"STORE": "shm://myapp"}}, which the processes of one host share, or a store such as '
    '"redis://localhost:6379/0"'
)
_compiling = PerProcess(threading.Lock)


class Site:
    """The limits of this process, by its settings; safe for threads."""

    def __init__(self, given: object) -> None:
        """Read the settings; raise ImproperlyConfigured, naming the key, for what is wrong."""
        own = read(given)
        self.exempt = own.exempt
        self._rate_limits = AppRateLimits(self, "this site", by_address_and_user)
        self._paths: dict[str, tuple[str, ...]] = {}
        handle = RateLimitHandle()
        self._rate_limits.register(handle, own.options, **LABELS)
        self.rate_limit = cast(AppRateLimit, self._rate_limits.get(handle))
        """The settings, and where they count."""
        self.plan = lru_cache(_MOST_PLANS)(self._compile)
        """Returns the plan of a view with these decorators for a method, with the site's limits or not."""
        self._rate_limits.on_change = self._forget_plans

    def _forget_plans(self) -> None:
        # One that another thread compiles meanwhile is kept by the cache before.
        self.plan = lru_cache(_MOST_PLANS)(self._compile)

    def look(self) -> None:
        """Take what the file of limits says by now, if there is one; before each request."""
        self._rate_limits.look()

    def _find_paths(self) -> None:
        """Find the paths of all views, which the routes of a file are compared with."""
        for file in self._rate_limits.files:
            if not self._paths:
                self._paths = paths_of_views()
            file.begin(lambda: (RoutePaths("ANY", paths) for paths in self._paths.values()))

    def limits(self, request: HttpRequest) -> bool:
        """Return whether a request is limited at all; a coroutine function that says so has been awaited."""
        self._rate_limits.follow_switches()
        if request.method == "OPTIONS" or not self.rate_limit.enabled:
            return False
        return not self.exempt.include(request.method or "", request.path_info, (request,))

    def rules(self, function: str, method: str, applied: AppliedLimits, view: str | None) -> tuple[Rule, ...]:
        """Return the rules of a function with these decorators for a method.

        ``view`` is the view by which the limits of the site count; None: they are not decided here.
        """
        if view is not None:
            self._find_paths()
        rate_limit = self.rate_limit
        route = _route(function, method, applied)._replace(paths=self._paths.get(function, ()))
        if view is not None:
            route = route._replace(whole=view)
            return tuple(rules_of_route(self._rate_limits, rate_limit, route))
        holding = [each for each in applied if each.options.holds_for(method)]
        own = tuple(rules_of_decorators(rate_limit, route, holding))
        return (*own, *meta_rules(rate_limit, route)) if own else ()

    def _compile(self, function: str, method: str, applied: AppliedLimits, view: str | None) -> RoutePlan:
        rules = {self.rate_limit: self.rules(function, method, applied, view)}
        fallback = count_of(_route(view or function, method, applied), "fallback")
        return RoutePlan(plan_stores(rules, fallback), place=function)


def _route(function: str, method: str, applied: AppliedLimits) -> Route:
    return Route(function, method, labelled=labelled(applied), limited=True, field_name=shown_name(function))


_current: Site | None = None


def site() -> Site:
    """Return the limits of the current settings; raise ImproperlyConfigured if they are wrong."""
    global _current  # noqa: PLW0603 - Django's settings are one to a process, too
    known = _current
    if known is None:
        with _compiling():
            known = _current = _current or Site(getattr(settings, NAME, {}))
    return known


def get_store() -> Store:
    """Return the store in which the site counts, by the setting ``OVERLIMIT``.

    ``get_store().close()`` releases what this process has leased, for servers that end without that.
    """
    return site().rate_limit.store


def get_address(request: Any) -> str:
    """Return the address that ``"ip"`` counts, for functions and views of your own.

    It is the client's, by the settings ``TRUSTED_PROXIES`` and ``ADDRESS_HEADER``; an IPv6 address counts as
    its network. It is ``unknown`` if there is none. The request is Django's or that of REST framework.
    """
    return site().rate_limit.addresses.counted(DjangoRequest(request))


def _forget(*, setting: str, **_: object) -> None:
    global _current  # noqa: PLW0603
    if setting == NAME:
        _current = None


setting_changed.connect(_forget, dispatch_uid="overlimit.django")


def warn_of_processes(plan: RoutePlan, request: HttpRequest) -> None:
    """Warn if the processes of the server count apart, each in its memory."""
    if plan.memories:
        name = getattr(settings, "SETTINGS_MODULE", None) or "this site"
        plan.warn_if_apart(_multiprocess(request), name, "overlimit.django", _ADVICE)


def _multiprocess(request: HttpRequest) -> object:
    """Return whether WSGI says that others serve the site, too; the flag of ASGI and of tests is fixed."""
    is_test = type(request.META.get("wsgi.input")).__module__ == "django.test.client"
    return not (isinstance(request, ASGIRequest) or is_test) and request.META.get("wsgi.multiprocess")
