"""Limits by method and path, for apps without decorators: what the middleware of every framework needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from overlimit import InvalidLimit
from overlimit._arguments import shown as quoted
from overlimit._options import is_set
from overlimit.clocks import ClockLike
from overlimit.http.app_rate_limits import AppRateLimit
from overlimit.http.callables import check_callable, taking_request
from overlimit.http.fields import HeaderNames
from overlimit.http.identifiers import Anonymous, Identify
from overlimit.http.options import Cost, LimitsValue, counted_method, identify_by
from overlimit.http.patterns import Pattern, check_reached, without_repeated_slashes
from overlimit.http.policy_names import distinct
from overlimit.http.precedence import rules_of_options
from overlimit.http.route_plan import RoutePlan, plan_stores
from overlimit.http.rules import CounterScope
from overlimit.http.settings import AllOptions, Headers, Settings
from overlimit.http.storage_urls import hides_passwords
from overlimit.limiter import OnError
from overlimit.stores import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Exempt", "LimitsByPath", "MiddlewareOptions"]

Exempt = Sequence[str] | Callable[..., object] | None
"""Patterns of requests that are not limited, or a function that returns true for them."""


class MiddlewareOptions(TypedDict, total=False):
    """The options of a middleware besides limits; None means not set, except for ``headers``."""

    identifiers: Identify | Sequence[Identify] | None
    key_func: Callable[..., object] | None
    anonymous: Anonymous | None
    cost: Cost | None
    deduct_when: Callable[..., object] | None
    on_breach: Callable[..., object] | None
    store: str | Store | None
    clock: ClockLike | None
    algorithm: str | None
    key_prefix: str | None
    enabled: bool | None
    headers: Headers
    header_names: HeaderNames | None
    on_error: OnError | None
    local_share: float | None
    shadow: bool | None
    trusted_proxies: int | Sequence[str] | None
    ipv6_prefix: int | None


class LimitsByPath:
    """The plans of an app by method and path. Functions of the app are given the request, or nothing."""

    @hides_passwords
    def __init__(
        self,
        limits: LimitsValue | None,
        routes: Mapping[str, LimitsValue] | None,
        exempt: Exempt,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """Compile the limits.

        Raises
        ------
        InvalidLimit
            A limit is malformed.
        ValueError, TypeError
            Another option has an invalid value, or there is no option of this name.
        """
        _check_names(options)
        _check_kinds(routes, exempt)
        if not is_set(limits) and not routes:
            raise ValueError(
                "a middleware limits nothing without limits= or routes=, as in limits='100/minute'"
            )
        settings = _settings(limits, options).completed({})
        settings.check()
        self.rate_limit = AppRateLimit(settings, settings.options.get("key_prefix") or "")
        self._everywhere = self._plan(settings, CounterScope("application", (), "application", "", ""))
        patterns = [Pattern.read(text) for text in routes or ()]
        check_reached(patterns)
        self._routes = tuple(zip(patterns, self._route_plans(settings, routes or {}), strict=True))
        self._exempt = None if callable(exempt) else [Pattern.read(text) for text in exempt or ()]
        self._is_exempt = taking_request(exempt) if callable(exempt) else None
        check_callable("exempt", self._is_exempt, 1)

    def _route_plans(self, settings: Settings, routes: Mapping[str, LimitsValue]) -> list[RoutePlan]:
        names = distinct(_shown(pattern) for pattern in routes)
        plans = []
        for (pattern, value), name in zip(routes.items(), names, strict=True):
            if not is_set(value):
                raise InvalidLimit(f"routes[{pattern!r}] has no limit: name what is not limited in exempt=")
            own = Settings({**settings.options, "application_limits": taking_request(value)}, 1)
            own.check()
            plans.append(self._plan(own, CounterScope("route", (pattern, "1"), name, pattern, "")))
        return plans

    def _plan(self, settings: Settings, scope: CounterScope) -> RoutePlan:
        rules = tuple(rules_of_options(self.rate_limit, settings.application, scope))
        return RoutePlan(plan_stores({self.rate_limit: rules}, scope._replace(kind="fallback")))

    def plan(self, method: str, path: str, arguments: tuple[Any, ...]) -> RoutePlan | None:
        """Return the plan for a request by the path below the app's mount point; None: it is not limited.

        A trailing or doubled slash makes no difference.
        """
        if method == "OPTIONS":
            return None
        asked = counted_method(method), without_repeated_slashes(path).rstrip("/") or "/"
        if self._is_exempt is not None and self._is_exempt(*arguments):
            return None
        if self._exempt is not None and any(pattern.matches(*asked) for pattern in self._exempt):
            return None
        found = (plan for pattern, plan in self._routes if pattern.matches(*asked))
        plan = next(found, self._everywhere)
        return plan if plan.stores else None


def _shown(pattern: str) -> str:
    """Return the name that the limits of a pattern have in header fields."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", str(pattern)).strip("-") or "root"


def _check_kinds(routes: object, exempt: object) -> None:
    if not (routes is None or isinstance(routes, Mapping)):
        raise TypeError(
            "routes must be a dict from patterns to limits, as in routes={'/login': '5/minute'}, "
            f"not {quoted(routes)}"
        )
    if isinstance(exempt, str):
        raise TypeError(f"exempt must be a list of patterns: write exempt=[{exempt!r}]")
    if not (exempt is None or callable(exempt) or isinstance(exempt, (list, tuple, set, frozenset))):
        raise TypeError(
            "exempt must be a list of patterns, as in exempt=['/health'], or a function, "
            f"not {quoted(exempt)}"
        )


def _check_names(options: Mapping[str, object]) -> None:
    known = MiddlewareOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(
                f"the middleware has no option {name!r}; it has limits, routes, exempt, {', '.join(known)}"
            )


def _settings(limits: LimitsValue | None, options: MiddlewareOptions) -> Settings:
    given: dict[str, Any] = dict(options)
    identifiers, key_func = given.pop("identifiers", None), given.pop("key_func", None)
    given["identifiers"] = identify_by(taking_request(identifiers), taking_request(key_func), 1)
    given["application_limits"] = taking_request(limits)
    given["application_limits_cost"] = taking_request(given.pop("cost", None))
    given["application_limits_deduct_when"] = taking_request(given.pop("deduct_when", None), 1)
    given["on_breach"] = taking_request(given.get("on_breach"), 1)
    return Settings(cast(AllOptions, given), 1)
