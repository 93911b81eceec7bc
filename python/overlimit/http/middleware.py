"""Limits by method and path, for apps without decorators: what the middleware of every framework needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from overlimit._messages.arguments import check_options, checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._options import is_set
from overlimit._patterns import Pattern, as_asked, check_reached, readings
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import distinct
from overlimit.http.callables import AwaitedFunction, KeptIn, check_callable, taking_request, truth_of
from overlimit.http.deciding.charges import steps_of
from overlimit.http.deciding.plans import RoutePlan, plan_stores
from overlimit.http.deciding.steps import Steps, awaiting
from overlimit.http.options.kinds import with_request
from overlimit.http.options.limit_options import AnyCost, AnyLimits, LimitOptions
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, CommonOptions
from overlimit.http.options.settings import Settings
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.http.rules.app_rate_limits import AppRateLimit, unused_prefix
from overlimit.http.rules.count_names import CountName, field_name_of
from overlimit.http.rules.file_limits import options_of
from overlimit.http.rules.precedence import Route, RulesOfRoute, global_rules, rules_of_options
from overlimit.http.rules.rule import Rule
from overlimit.route_charges import RouteSteps

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Exempt", "ExemptRequests", "LimitsByPath", "MiddlewareOptions", "RouteSteps"]
__all__ += ["apps_within", "checks_arguments"]

Exempt = Sequence[str] | Callable[..., object] | None
"""Patterns of requests that are not limited, or a function that returns true for them."""


_OTHERWISE = dict.fromkeys(
    ("default_limits", "application_limits", "limit"), "write limits='100/minute', or routes= by path"
)
"""Options of other kinds of limits, and what to write instead."""


_KIND = "middleware"
"""The kind of its counts, which are others than those of a RateLimit of the app."""


class MiddlewareOptions(CommonOptions, total=False):
    """The options of a middleware besides limits; None means not set, except for ``headers``."""

    cost: AnyCost | None
    deduct_when: Callable[..., object] | None


class LimitsByPath:
    """The plans of an app by method and path. Functions of the app are given the request, or nothing."""

    rate_limit: AppRateLimit

    @hides_passwords
    def __init__(
        self,
        limits: AnyLimits | None,
        routes: Mapping[str, AnyLimits] | None,
        exempt: Exempt,
        others: Mapping[str, AnyLimits | None] = MappingProxyType({}),
        kept_in: KeptIn | None = None,
        app: object = None,
        /,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """Compile the limits; raise InvalidLimit, ValueError or TypeError for what is wrong or unknown.

        ``others`` are limits of something else than requests, such as messages, by the names of the adapter's
        options. With ``kept_in`` functions may be coroutine functions (see `taking_request`). Another
        middleware within ``app`` has other counts than this one, even in the same store.
        """
        known = ("limits", "routes", "exempt", *others, *MiddlewareOptions.__annotations__)
        check_options("the middleware", options, known, _OTHERWISE)
        _check_routes(routes)
        for name, value in {"limits": limits, **others}.items():
            if value == "":
                raise InvalidLimit(f"{name}='' is not a limit: leave it out where there are others")
        elsewhere = options.get("global_limits"), options.get("limits_file"), *others.values()
        if not any(map(is_set, (limits, routes, *elsewhere))):
            raise ValueError(
                "a middleware limits nothing without limits=, routes=, global_limits= or limits_file=, as in "
                "limits='100/minute'"
            )
        self._kept_in = kept_in
        self._app_name = str(getattr(app, "__name__", type(app).__name__))
        settings = _settings(limits, options, kept_in).completed({})
        settings.check(
            application_limits="limits",
            application_limits_cost="cost",
            application_limits_deduct_when="deduct_when",
            global_limits="global_limits",
        )
        taken = [each.rate_limit.prefix for each in _limits_within(app)]
        prefix = unused_prefix(settings.options.get("key_prefix") or "", taken)
        self.rate_limit = AppRateLimit(settings, prefix, on_change=self._compile)
        check_reached(map(Pattern.read, routes or ()))
        self._in_code = {
            text: self._options_of(settings, text, value) for text, value in (routes or {}).items()
        }
        self._settings, self._limits_of_others = settings, others
        self._has_switches = self.rate_limit.has_switches
        self._compile()
        self._exempt = ExemptRequests(exempt, kept_in=kept_in)
        self._exempts_some = is_set(exempt)
        self.awaits = self._exempt.awaits
        """Whether `awaiting` is to be asked before `lets_pass`."""

    def _options_of(self, settings: Settings, pattern: str, value: AnyLimits) -> LimitOptions:
        if not is_set(value):
            raise InvalidLimit(f"routes[{pattern!r}] has no limit: name what is not limited in exempt=")
        return self._settings_of(settings, value, f"routes[{pattern!r}]").group("application_limits")

    def _compile(self) -> None:
        """Compile the plans of all requests, by what the file says now, if there is one."""
        rate_limit, file = self.rate_limit, self.rate_limit.file
        limits = rate_limit.settings.group("application_limits")
        routes = self._in_code
        if file is not None:
            limits, routes = file.group("default_limits", limits, "limits"), file.before(routes, limits)
        everywhere = tuple(rules_of_options(rate_limit, limits, CountName(_KIND, (), "application", "", "")))
        plans = []
        names = distinct(map(field_name_of, routes))
        for (pattern, options), name in zip(routes.items(), names, strict=True):
            count = CountName(_KIND, ("1",), name, pattern, "", pattern, variants=("route",))
            own = tuple(rules_of_options(rate_limit, options, count))
            # One in shadow replaces nothing.
            rules = own if options.replaces_defaults else (*own, *everywhere)
            plans.append((Pattern.read(pattern), self._plan(rules, pattern)))
        self._plans = tuple(plans), self._plan(everywhere, "any other path" if routes else "any path")
        others = self._limits_of_others.items()
        self.others = {name: self._other_plan(self._settings, name, value) for name, value in others}
        """The plans of the other limits, by their names; None for those that are not set."""

    def _settings_of(self, settings: Settings, limits: AnyLimits, called: str) -> Settings:
        """Return the same settings with other limits, which are checked."""
        taken = taking_request(limits, 0, self._kept_in)
        own = settings.replaced(application_limits=taken)
        own.check(application_limits=called)
        return own

    def _other_plan(self, settings: Settings, name: str, limits: AnyLimits | None) -> RoutePlan | None:
        if limits is None or not is_set(limits):
            return None
        own = self._settings_of(settings, limits, name).group("application_limits")
        count = CountName("other", (name,), name.removesuffix("_limits"), "", "")
        rules = rules_of_options(self.rate_limit, own.saying(cost=None, deduct_when=None), count)
        stores = plan_stores({self.rate_limit: tuple(rules)}, count._replace(kind="fallback"))
        return RoutePlan(stores, place=name)

    def _plan(self, own: tuple[Rule, ...], place: str) -> RoutePlan:
        of_all = global_rules(self.rate_limit, CountName(_KIND, (), "global", "", "", variants=("global",)))
        rules = (*own, *self._of_application(), *of_all)
        stores = plan_stores({self.rate_limit: rules}, CountName("fallback", (), "application", "", ""))
        return RoutePlan(stores, place=place, rules=rules)

    def _of_application(self) -> Iterator[Rule]:
        """Yield the rules that a file has for all requests, whatever else holds for them."""
        file = self.rate_limit.file
        if file is not None and file.current.application is not None:
            count = CountName(_KIND, (), "application", "", "", variants=("application",))
            said = self.rate_limit.settings.group("application_limits")
            yield from rules_of_options(self.rate_limit, options_of(file.current.application, said), count)

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request, as far as a log tells: no function is asked about it."""
        if self._exempt.function is None and self.lets_pass(method, path, ()):
            return ()
        return () if method == "OPTIONS" else steps_of(self.plan_of(method, path))

    def rules_of(self, method: str, path: str) -> tuple[Rule, ...]:
        """Return the rules for a path with `ANYTHING` for any text in it, unless a function exempts it."""
        if self._exempt.function is None and self.lets_pass(method, path, ()):
            return ()
        plan = self.plan_of(method, path)
        return () if plan is None else plan.rules

    def described(self) -> Iterator[RulesOfRoute]:
        """Yield each pattern, and what all other requests meet, for apps whose routes are not known."""
        routes, everywhere = self._plans
        for pattern, plan in routes:
            method, path = pattern.method or "ANY", pattern.text.split()[-1]
            yield Route(plan.place, method, limited=True, paths=(path,)), plan.rules
        if everywhere.stores:
            yield Route(everywhere.place, "ANY", limited=True, paths=("*",)), everywhere.rules

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
        if self._has_switches and self.rate_limit.ask_switches():
            self._compile()
        if self.rate_limit.file is not None:
            self.rate_limit.file.look()
        routes, everywhere = self._plans
        plan = everywhere
        if routes:
            asked = as_asked(method.upper(), path)  # as many frameworks read it
            plan = next((plan for pattern, plan in routes if pattern.matches(*asked)), everywhere)
        return plan if plan.stores else None

    def warn_if_apart(self, plan: RoutePlan, *, multiprocess: object = False) -> None:
        """Warn, asked once, if other processes that serve the app have counts of their own."""
        plan.warn_if_apart(multiprocess, self._app_name, "RateLimitMiddleware")


def apps_within(app: object) -> Iterator[object]:
    """Yield an app and those within it, as far as middleware keeps them as ``app`` or ``_app``."""
    seen: list[object] = []
    while app is not None and all(app is not each for each in seen):
        seen.append(app)
        yield app
        kept = getattr(app, "__dict__", {})
        app = kept.get("_app") or kept.get("app")


def _limits_within(app: object) -> Iterator[LimitsByPath]:
    """Yield the limits of other middleware around an app."""
    for each in apps_within(app):
        own = getattr(each, "_limits", None)
        if isinstance(own, LimitsByPath):
            yield own


class ExemptRequests:
    """The requests that are not limited."""

    def __init__(self, exempt: Exempt, name: str = "exempt", kept_in: KeptIn | None = None) -> None:
        """Read patterns, or take a function; raise TypeError, about ``name``, or ValueError for a pattern.

        With ``kept_in`` it may be a coroutine function (see `taking_request`).
        """
        _check_exempt(exempt, name)
        self._patterns = () if callable(exempt) else tuple(Pattern.read(text) for text in exempt or ())
        self.function = taking_request(exempt, 0, kept_in) if callable(exempt) else None
        """The function of the app that says which they are, if one does."""
        check_callable(name, self.function, 1)

    @property
    def awaits(self) -> bool:
        """Whether `awaiting` is to be asked before `include`."""
        return isinstance(self.function, AwaitedFunction)

    def awaiting(self, arguments: tuple[Any, ...]) -> Steps[None]:
        """Await the function, if it is a coroutine function."""
        return awaiting((self.function,), *arguments)

    def include(self, method: str, path: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether a request is one of them; functions are called with ``arguments``."""
        if self.function is not None:
            return truth_of(self.function, self.function(*arguments))
        if not self._patterns:
            return False
        method, path = as_asked(method, path)
        return all(
            any(pattern.matches(method, reading) for pattern in self._patterns) for reading in readings(path)
        )


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
    return Settings(with_request(given, RATE_LIMIT_OPTIONS, kept_in), 1)
