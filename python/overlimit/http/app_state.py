"""What an adapter keeps of an app: its RateLimits and the compiled plans of its routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from overlimit.http.deciding.plans import NO_PLAN, Place, PlanCache, RoutePlan
from overlimit.http.identifying.identifiers import Identify
from overlimit.http.options.settings import Settings
from overlimit.http.rules.app_rate_limits import AppRateLimits, RateLimitHandle
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction, decorated_below
from overlimit.http.rules.called_routes import CalledRoute, endpoints_of
from overlimit.http.rules.file_limits import RoutePaths
from overlimit.http.rules.hooks import check_hooks
from overlimit.http.rules.precedence import (
    Route,
    RulesOfRoute,
    check_methods,
    check_registered,
    rules_of_route,
)
from overlimit.http.rules.rule import Rule
from overlimit.http.rules.views import View, functions_of, places_of


class BaseAppState:
    """The RateLimits of one app and the plans of its routes; safe for threads.

    An adapter says what routes there are: `find_route`, `found_routes`, `endpoints` and `methods_taken`.
    """

    def __init__(self, app: Any, app_name: str, default_identify: Identify) -> None:
        """Begin without RateLimits, as `AppRateLimits` does."""
        self.app_name = app_name
        self.rate_limits = AppRateLimits(app, app_name, default_identify)
        self.plans = PlanCache(self.rate_limits, self.find_route, self._check_route)

    def register(self, handle: RateLimitHandle, settings: Settings) -> None:
        """Add a RateLimit; raises InvalidLimit, ValueError or TypeError for a wrong value of a key."""
        self.rate_limits.register(handle, settings.completed(self.configuration()))

    def configuration(self) -> Mapping[str, Any]:
        """Return what may set options by ``RATELIMIT_*`` keys."""
        return {}

    def find_route(self, endpoint: str, method: str) -> Route:
        """Return an endpoint for one HTTP method, with the limits that hold there."""
        raise NotImplementedError

    def found_routes(self) -> Iterable[Route]:
        """Return every endpoint with every method that it answers, OPTIONS and HEAD excepted."""
        raise NotImplementedError

    def endpoints(self) -> Collection[str]:
        """Return the names of all endpoints."""
        raise NotImplementedError

    def methods_taken(self) -> Collection[str] | None:
        """Return the HTTP methods that routes of the app take; None: any."""
        raise NotImplementedError

    def active(self) -> AbstractContextManager[object]:
        """Return the context in which functions of the app are called besides requests."""
        return nullcontext()

    def plan_at(self, method: str, path: str) -> RoutePlan | None:
        """Return the plan of a request to a path; None: no route answers it, or nothing limits it."""
        raise NotImplementedError

    def routes(self) -> tuple[RulesOfRoute, ...]:
        """Return every route that can be limited, with its rules; raise as `rules_of` does."""
        found = [(route, self.rules_of(route)) for route in self.found_routes()]
        return tuple((route, rules) for route, rules in found if route.limited)

    def rules_of(self, route: Route) -> tuple[Rule, ...]:
        """Return all rules that may hold for a route; raise as `check_registered` does."""
        rate_limits = self.rate_limits
        check_registered(rate_limits, route)
        return tuple(rule for each in rate_limits for rule in rules_of_route(rate_limits, each, route))

    def _paths(self) -> Iterator[RoutePaths]:
        return (RoutePaths(each.method, each.paths) for each in self.found_routes())

    def _check_route(self, route: Route, more: Iterable[AppliedLimit]) -> None:
        for each in self.rate_limits.files:
            each.begin(self._paths)
        taken = self.methods_taken()
        if taken is not None:
            check_methods(route, more, taken, self.app_name)


class AppStateOfViews(BaseAppState):
    """That of an app whose decorators wrap its views; plans know these by endpoints.

    An adapter says what `find_route` does, and which methods are taken.
    """

    def __init__(
        self, app: Any, app_name: str, views: Mapping[str, View], default_identify: Identify
    ) -> None:
        """Begin without RateLimits; ``views`` are those of the app, to which others may be added."""
        super().__init__(app, app_name, default_identify)
        self._views = views
        self._views_seen = 0
        self._warned_of: list[object] = []

    def endpoints(self) -> Collection[str]:
        """Return the names of all views."""
        return self._views.keys()

    def found_routes(self) -> Iterator[Route]:
        """Yield every route, by endpoint and method; a handshake of a websocket is a GET."""
        places = places_of(self.rate_limits.app.url_map.iter_rules(), self._views)
        return (self.find_route(*place) for place in places)

    def _check_route(self, route: Route, more: Iterable[AppliedLimit]) -> None:
        super()._check_route(route, more)
        check_hooks(self.rate_limits.app, self.app_name, self._warned_of)

    def has_new_views(self) -> bool:
        """Return whether views were added since this was asked before."""
        before, self._views_seen = self._views_seen, len(self._views)
        return self._views_seen != before

    def decorated(self) -> Iterator[View]:
        """Yield what was decorated so that a call of a view passes its limits."""
        return decorated_below(functions_of(self._views))

    def plan_of_view(self, endpoint: str | None, method: str) -> RoutePlan:
        """Return the plan of the view of an endpoint; without one nothing is decided."""
        view = None if endpoint is None else self._views.get(endpoint)
        if endpoint is None or view is None:
            return NO_PLAN
        return self.plans.of_route(endpoint, method, view)

    def plan_at(self, method: str, path: str) -> RoutePlan | None:
        """Return the plan of a request, by the map of URLs that the app has."""
        try:
            endpoint, _ = self.rate_limits.app.url_map.bind("localhost").match(path, method)
        except Exception:  # 404, 405 and redirections
            return None
        return self.plan_of_view(endpoint, method)

    def plan_of_call(self, function: LimitedFunction, plan: RoutePlan, place: Place) -> RoutePlan | None:
        """Return the plan that a call of a decorated function decides, in a request with this ``plan``.

        None: another function decides it. ``place`` is where limits count that are no view's.
        """
        if function.applied_limits[0] not in plan.applied_limits:
            return self.plans.of_function(function, *place)
        return plan if function.is_innermost else None


class AppStateByNumbers(BaseAppState):
    """That of an app whose functions stay as they are: plans know its routes by numbers.

    Routes may share their functions. An adapter says what routes there are by `prepare`.
    """

    def __init__(self, *about: Any) -> None:
        """Begin without routes, and otherwise as any does."""
        super().__init__(*about)
        self.numbers: dict[CalledRoute, str] = {}
        """The routes that were found."""
        self._routes: Sequence[CalledRoute] = ()
        self._endpoints: dict[CalledRoute, str] = {}

    def prepare(self) -> None:
        """Look for routes, which are given to `number`."""
        raise NotImplementedError

    def number(self, routes: Sequence[CalledRoute]) -> None:
        """Take the routes that were found."""
        self.numbers = {route: str(number) for number, route in enumerate(routes)}
        self._endpoints = dict(endpoints_of(routes))
        self._routes = routes

    def found_routes(self) -> Iterator[Route]:
        """Yield every route."""
        self.prepare()
        return (each for route in self._routes for each in self.described(route))

    def described(self, route: CalledRoute) -> Iterator[Route]:
        """Yield a route with every method that it answers, OPTIONS and HEAD excepted."""
        methods = [method for method in route.methods if method not in ("HEAD", "OPTIONS")]
        return (self.find_route(self.numbers[route], method) for method in methods)

    def endpoints(self) -> Collection[str]:
        """Return the names of all functions that answer."""
        self.prepare()
        return self._endpoints.values()

    def methods_taken(self) -> Collection[str]:
        """Return the methods of all routes."""
        return {method for each in self._routes for method in each.methods}

    def find_route(self, endpoint: str, method: str) -> Route:
        """Return a route, by its number, for one HTTP method."""
        route = self._routes[int(endpoint)]
        return route.described(self._endpoints[route], method)
