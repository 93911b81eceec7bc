"""What an adapter keeps of an app: its RateLimits and the compiled plans of its routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from overlimit.http.deciding.plans import PlanCache
from overlimit.http.identifying.identifiers import Identify
from overlimit.http.rules.app_rate_limits import AppRateLimits
from overlimit.http.rules.applied_limits import AppliedLimit
from overlimit.http.rules.called_routes import CalledRoute, endpoints_of
from overlimit.http.rules.precedence import (
    Route,
    RulesOfRoute,
    check_methods,
    check_registered,
    rules_of_route,
)
from overlimit.http.rules.rule import Rule


class BaseAppState:
    """The RateLimits of one app and the plans of its routes; safe for threads.

    An adapter says what routes there are: `find_route`, `found_routes`, `endpoints` and `methods_taken`.
    """

    def __init__(self, app: Any, app_name: str, default_identify: Identify, *, how_to_register: str) -> None:
        """Begin without RateLimits, as `AppRateLimits` does."""
        self.app_name, self.how_to_register = app_name, how_to_register
        self.rate_limits = AppRateLimits(app, app_name, default_identify, how_to_register=how_to_register)
        self.plans = PlanCache(self.rate_limits, self.find_route, self._check_route)

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

    def routes(self) -> tuple[RulesOfRoute, ...]:
        """Return every route that can be limited, with its rules; raise as `rules_of` does."""
        found = [(route, self.rules_of(route)) for route in self.found_routes()]
        return tuple((route, rules) for route, rules in found if route.limited)

    def rules_of(self, route: Route) -> tuple[Rule, ...]:
        """Return all rules that may hold for a route; raise as `check_registered` does."""
        rate_limits = self.rate_limits
        check_registered(rate_limits, route)
        return tuple(rule for each in rate_limits for rule in rules_of_route(rate_limits, each, route))

    def _check_route(self, route: Route, more: Iterable[AppliedLimit]) -> None:
        taken = self.methods_taken()
        if taken is not None:
            check_methods(route, more, taken, self.app_name)


class AppStateByNumbers(BaseAppState):
    """That of an app whose functions stay as they are: plans know its routes by numbers.

    Routes may share their functions. An adapter says what routes there are by `prepare`.
    """

    def __init__(self, *about: Any, **named: Any) -> None:
        """Begin without routes, and otherwise as any does."""
        super().__init__(*about, **named)
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
