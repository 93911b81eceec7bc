"""Limits by method and path, for apps without decorators: what the middleware of every framework needs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit import InvalidLimit
from overlimit._messages.arguments import checks_arguments, no_such_option
from overlimit._messages.texts import nearest, short_repr
from overlimit._options import is_set
from overlimit.http.callables import AwaitedFunction, KeptIn, check_callable, taking_request
from overlimit.http.deciding.plans import RoutePlan, plan_stores
from overlimit.http.deciding.steps import Steps, awaiting
from overlimit.http.options.limit_options import AnyCost, AnyLimits, counted_method
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, CommonOptions
from overlimit.http.options.settings import Settings
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.count_names import CountName, distinct
from overlimit.http.rules.precedence import global_rules, rules_of_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["METHODS", "Exempt", "ExemptRequests", "LimitsByPath", "MiddlewareOptions", "checks_arguments"]

Exempt = Sequence[str] | Callable[..., object] | None
"""Patterns of requests that are not limited, or a function that returns true for them."""

_PATTERN = re.compile(r"(?:([A-Za-z]+) +)?([/*]\S*)")
_SLASHES = re.compile(r"//+")
_OF_HTTP = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE")
_OF_WEBDAV = ("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "ACL")
METHODS = (*_OF_HTTP, *_OF_WEBDAV, "PURGE")
_PLACEHOLDER = re.compile(r"<[^/]*>|\{[^/]*\}|(?<=/):[^/]+")
_ANYTHING = "\0"  # in no path: only a * matches it


_OTHERWISE = dict.fromkeys(
    ("default_limits", "application_limits", "limit"), "write limits='100/minute', or routes= by path"
)
"""Options of other kinds of limits, and what to write instead."""


class MiddlewareOptions(CommonOptions, total=False):
    """The options of a middleware besides limits; None means not set, except for ``headers``."""

    cost: AnyCost | None
    deduct_when: Callable[..., object] | None


class LimitsByPath:
    """The plans of an app by method and path. Functions of the app are given the request, or nothing."""

    @hides_passwords
    def __init__(
        self,
        limits: AnyLimits | None,
        routes: Mapping[str, AnyLimits] | None,
        exempt: Exempt,
        others: Mapping[str, AnyLimits | None] = MappingProxyType({}),
        kept_in: KeptIn | None = None,
        /,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """Compile the limits; raise InvalidLimit, ValueError or TypeError for what is wrong or unknown.

        ``others`` are limits of something else than requests, such as messages, by the names of the adapter's
        options. With ``kept_in`` functions may be coroutine functions (see `taking_request`).
        """
        for name in options.keys() - MiddlewareOptions.__annotations__.keys():
            known = ("limits", "routes", "exempt", *others, *MiddlewareOptions.__annotations__)
            raise no_such_option("the middleware", name, known, _OTHERWISE)
        _check_routes(routes)
        for name, value in {"limits": limits, **others}.items():
            if value == "":
                raise InvalidLimit(f"{name}='' is not a limit: leave it out where there are others")
        if not any(map(is_set, (limits, routes, options.get("global_limits"), *others.values()))):
            raise ValueError(
                "a middleware limits nothing without limits=, routes= or global_limits=, as in "
                "limits='100/minute'"
            )
        self._kept_in = kept_in
        settings = _settings(limits, options, kept_in).completed({})
        settings.check(
            application_limits="limits",
            application_limits_cost="cost",
            application_limits_deduct_when="deduct_when",
            global_limits="global_limits",
        )
        self.rate_limit = AppRateLimit(settings, settings.options.get("key_prefix") or "")
        everywhere = CountName("application", (), "application", "", "")
        self._everywhere = self._plan(settings, everywhere, "any other path" if routes else "any path")
        patterns = [_Pattern.read(text) for text in routes or ()]
        _check_reached(patterns)
        self._routes = tuple(zip(patterns, self._route_plans(settings, routes or {}), strict=True))
        self._exempt = ExemptRequests(exempt, kept_in=kept_in)
        self._exempts_some = is_set(exempt)
        self.awaits = self._exempt.awaits
        """Whether `awaiting` is to be asked before `lets_pass`."""
        self.others = {name: self._other_plan(settings, name, value) for name, value in others.items()}
        """The plans of the other limits, by their names; None for those that are not set."""

    def _route_plans(self, settings: Settings, routes: Mapping[str, AnyLimits]) -> list[RoutePlan]:
        names = distinct(map(_field_name, routes))
        plans = []
        for (pattern, value), name in zip(routes.items(), names, strict=True):
            if not is_set(value):
                raise InvalidLimit(f"routes[{pattern!r}] has no limit: name what is not limited in exempt=")
            own = self._settings_of(settings, value, f"routes[{pattern!r}]")
            plans.append(self._plan(own, CountName("route", ("1",), name, pattern, "", pattern), pattern))
        return plans

    def _settings_of(self, settings: Settings, limits: AnyLimits, called: str) -> Settings:
        """Return the same settings with other limits, which are checked."""
        taken = taking_request(limits, 0, self._kept_in)
        own = Settings({**settings.options, "application_limits": taken}, 1)
        own.check(application_limits=called)
        return own

    def _other_plan(self, settings: Settings, name: str, limits: AnyLimits | None) -> RoutePlan | None:
        if limits is None or not is_set(limits):
            return None
        own = self._settings_of(settings, limits, name).group("application_limits")
        count = CountName("other", (name,), name.removesuffix("_limits"), "", "")
        rules = rules_of_options(self.rate_limit, dataclasses.replace(own, cost=1, deduct_when=None), count)
        stores = plan_stores({self.rate_limit: tuple(rules)}, count._replace(kind="fallback"))
        return RoutePlan(stores, place=name)

    def _plan(self, settings: Settings, count: CountName, place: str) -> RoutePlan:
        own = rules_of_options(self.rate_limit, settings.group("application_limits"), count)
        of_all = global_rules(self.rate_limit, CountName("global", (), "global", "", ""))
        stores = plan_stores({self.rate_limit: (*own, *of_all)}, count._replace(kind="fallback"))
        return RoutePlan(stores, place=place)

    def plan(self, method: str, path: str, arguments: tuple[Any, ...]) -> RoutePlan | None:
        """Return the plan for a path, however many slashes are in a row or at its end; None: no limit."""
        return None if self.lets_pass(method, path, arguments) else self.plan_of(method, path)

    def awaiting(self, arguments: tuple[Any, ...]) -> Steps[None]:
        """Await what `lets_pass` asks, if it is a coroutine function."""
        return self._exempt.awaiting(arguments)

    def lets_pass(self, method: str, path: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether a request is exempt, as those of OPTIONS always are."""
        if method == "OPTIONS":
            return True
        return self._exempts_some and self._exempt.include(method, path, arguments)

    def plan_of(self, method: str, path: str) -> RoutePlan | None:
        """Return the plan for the path of a request that is not exempt; None: no limit."""
        plan = self._plan_of_route(method, path) if self._routes else self._everywhere
        return plan if plan.stores else None

    def _plan_of_route(self, method: str, path: str) -> RoutePlan:
        asked = _as_asked(method, path)
        return next((plan for pattern, plan in self._routes if pattern.matches(*asked)), self._everywhere)


class ExemptRequests:
    """The requests that are not limited."""

    def __init__(self, exempt: Exempt, name: str = "exempt", kept_in: KeptIn | None = None) -> None:
        """Read patterns, or take a function; raise TypeError, about ``name``, or ValueError for a pattern.

        With ``kept_in`` it may be a coroutine function (see `taking_request`).
        """
        _check_exempt(exempt, name)
        self._patterns = () if callable(exempt) else tuple(_Pattern.read(text) for text in exempt or ())
        self._function = taking_request(exempt, 0, kept_in) if callable(exempt) else None
        check_callable(name, self._function, 1)

    @property
    def awaits(self) -> bool:
        """Whether `awaiting` is to be asked before `include`."""
        return isinstance(self._function, AwaitedFunction)

    def awaiting(self, arguments: tuple[Any, ...]) -> Steps[None]:
        """Await the function, if it is a coroutine function."""
        return awaiting((self._function,), *arguments)

    @property
    def depend_on_function(self) -> bool:
        """Whether a function of the app says which they are."""
        return self._function is not None

    def include(self, method: str, path: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether a request is one of them; functions are called with ``arguments``."""
        if self._function is not None:
            return bool(self._function(*arguments))
        if not self._patterns:
            return False
        asked = _as_asked(method, path)
        return any(pattern.matches(*asked) for pattern in self._patterns)


class _Pattern(NamedTuple):
    """An HTTP method, None for all, and the paths."""

    method: str | None
    path: re.Pattern[str]
    text: str
    examples: tuple[str, ...]
    """Paths that it matches; another pattern that matches them all matches whatever this one does."""

    @classmethod
    def read(cls, text: object) -> _Pattern:
        found = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"a pattern is a path with or without an HTTP method, as '/login' or 'POST /upload/*', "
                f"not {text!r}"
            )
        method, path = found.groups()
        _check_method(found.string, method)
        _check_path(found.string)
        below, start = _split(_without_repeated_slashes(path))
        examples = (start, f"{start}/{_ANYTHING}") if below else (start,)
        return cls(
            method and counted_method(method.upper()),
            re.compile(".*".join(map(re.escape, start.split("*"))) + "(?:/.*)?" * below, re.DOTALL),
            found.string,
            tuple(example.replace("*", _ANYTHING) for example in examples),
        )

    def matches(self, method: str, path: str) -> bool:
        """Return whether it matches a request; the path ends with no slash."""
        return self.method in (None, method) and self.path.fullmatch(path) is not None

    def covers(self, other: _Pattern) -> bool:
        return self.method in (None, other.method) and all(map(self.path.fullmatch, other.examples))


def _as_asked(method: str, path: str) -> tuple[str, str]:
    """Return the method and the path by which patterns are compared."""
    return counted_method(method), _without_repeated_slashes(path).rstrip("/") or "/"


def _without_repeated_slashes(path: str) -> str:
    return _SLASHES.sub("/", path)


def _check_reached(patterns: Iterable[_Pattern]) -> None:
    """Raise ValueError if a pattern comes after one that matches everything it matches."""
    for earlier, pattern in combinations(patterns, 2):
        if earlier.covers(pattern):
            raise ValueError(
                f"the pattern {pattern.text!r} is never reached, because {earlier.text!r} before it "
                f"matches the same requests: write {pattern.text!r} first, or leave it out"
            )


def _split(path: str) -> tuple[bool, str]:
    """Return whether a path ends with ``/*``, which also matches the path before it, and the path before."""
    if path.endswith("/*"):
        return True, path.removesuffix("/*")
    return False, path.rstrip("/") or "/"


def _check_method(text: str, method: str | None) -> None:
    if method is None or method.upper() in METHODS:
        return
    if method.upper() == "OPTIONS":
        raise ValueError(f"the pattern {text!r} matches nothing, because OPTIONS requests are never limited")
    like = nearest(method.upper(), METHODS)
    hint = f"did you mean {like!r}?" if like else "write one such as 'POST', or only the path"
    raise ValueError(f"the pattern {text!r} has an unknown HTTP method, {method!r}: {hint}")


def _check_path(text: str) -> None:
    path, query, _ = text.partition("?")
    instead = _PLACEHOLDER.sub("*", path)
    if query or instead != path:
        raise ValueError(
            f"a pattern contains an HTTP method, a path without its query, and * for any text, not "
            f"placeholders of a framework: write {instead!r} instead of {text!r}"
        )


def _field_name(pattern: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", str(pattern)).strip("-") or "root"


def _check_routes(routes: object) -> None:
    if not (routes is None or isinstance(routes, Mapping)):
        raise TypeError(
            "routes must be a dict from patterns to limits, as in routes={'/login': '5/minute'}, "
            f"not {short_repr(routes)}"
        )


def _check_exempt(exempt: object, name: str) -> None:
    if isinstance(exempt, str):
        raise TypeError(f"{name} must be a list of patterns: write {name}=[{exempt!r}]")
    if not (exempt is None or callable(exempt) or isinstance(exempt, (list, tuple, set, frozenset))):
        raise TypeError(
            f"{name} must be a list of patterns, as in ['/health'], or a function, not {short_repr(exempt)}"
        )


def _settings(limits: AnyLimits | None, options: MiddlewareOptions, kept_in: KeptIn | None) -> Settings:
    given: dict[str, Any] = {"application_limits": limits, **options}
    for name in ("cost", "deduct_when"):
        given[f"application_limits_{name}"] = given[f"global_limits_{name}"] = given.pop(name, None)
    taken = {
        name: taking_request(value, RATE_LIMIT_OPTIONS[name].kind.own_arguments, kept_in)
        for name, value in given.items()
    }
    return Settings(taken, 1)
