"""What the RateLimit object of each framework has: its switch, its latest decision, and fresh starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Generic, TypeVar, overload

from overlimit._core import Decision
from overlimit._messages.arguments import check_options
from overlimit._messages.migration_hints import GUESSES
from overlimit._options import truth_of
from overlimit.clocks import ClockLike
from overlimit.http.app_state import BaseAppState
from overlimit.http.callables import check_callable
from overlimit.http.deciding import settling
from overlimit.http.deciding.charges import steps_of
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.identifying.identifiers import ANONYMOUS, as_identifiers
from overlimit.http.options.rate_limit_options import GROUPS
from overlimit.http.options.settings import Settings
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.http.reports import reset_counts
from overlimit.http.rules.app_rate_limits import AppRateLimit, RateLimitHandle
from overlimit.http.rules.applied_limits import ALL_LIMITS, ExemptionScope
from overlimit.http.rules.unnoticed import Unnoticed
from overlimit.http.statistics import summed_stats
from overlimit.route_charges import RouteSteps
from overlimit.statistics import RateLimitStats
from overlimit.stores import Store

A = TypeVar("A")
"""An app."""
T = TypeVar("T")


class BaseRateLimit(Generic[A]):
    """Limits the requests of one or more apps.

    An adapter says what its apps and options are, and which app and which request there is now.
    """

    _app: type[A]
    """The class of apps."""
    _framework: str
    """How its apps are called, for an error message."""
    _first = ""
    """What an error message calls the app as the first argument, if not by the framework."""
    _for_other_apps = ""
    """What there is for other apps, for an error message."""
    _keywords: type
    """The options, as type checkers know them."""
    _instead: Mapping[str, str] = MappingProxyType({})
    """What is to be written in the place of options that there are not."""
    _called: Mapping[str, str] = MappingProxyType({name: name for name in GROUPS})
    """How error messages call options, which have no keys of a configuration unless it is read."""
    _unnoticed: Unnoticed | None = None
    """The limits that an app without a RateLimit may lose."""
    _arguments = 0
    """How many arguments for the request functions are called with."""
    _endpoints_are = ""
    """How endpoints are called, for an error message."""
    _keeping_request = ""
    """How a request is kept at hand, for an error message."""
    _check_thread: Callable[[str], None] = staticmethod(lambda awaited: None)
    """Raises RuntimeError where an event loop would be blocked; it is told what to await instead."""

    def __init__(self, app: A | None, options: Mapping[str, Any]) -> None:
        """Keep the options, once they are checked, and limit the app if one is given, by name or not.

        Raises InvalidLimit, ValueError or TypeError for an option that is wrong or unknown, and for no app.
        """
        given = dict(options)
        named = given.pop("app", None)
        app = named if app is None else app
        if not (app is None or isinstance(app, self._app)):
            raise TypeError(self._no_app(app))
        check_options("RateLimit", given, self._keywords.__annotations__, {**GUESSES, **self._instead})
        self._settings = Settings(self._taken(given), self._arguments)
        self._settings.check(**self._called)
        self._handle = RateLimitHandle()
        self.exemptions = self._handle.exemptions
        self.request_filters = self._handle.request_filters
        if app is not None:
            self.init_app(app)

    def _no_app(self, given: object) -> str:
        if callable(given) and not isinstance(given, type):
            name = getattr(given, "__name__", type(given).__name__)
            first = self._first or f"the {self._framework} app"
            return (
                f"the first argument must be {first}, not {name}: write RateLimit(app, key_func=...)"
                f"{self._for_other_apps}"
            )
        return (
            f"app must be a {self._framework} app, not a {type(given).__name__}; limits are given as "
            "default_limits=..."
        )

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return options with functions as they will be called."""
        return options

    @hides_passwords
    def init_app(self, app: A, *, clock: ClockLike | None = None) -> None:
        """Limit an app. Several RateLimits on one app are asked in the order they were registered.

        ``clock`` drives the limits of this app instead of the RateLimit's: in tests, a ``ManualClock``. A
        second call for the same app replaces its options.

        Raises
        ------
        ValueError
            The URL of the store is malformed.
        TypeError
            ``app`` is no app of the framework.
        RuntimeError
            The app has been started, where its framework allows no change from then on.
        """
        if not isinstance(app, self._app):
            raise TypeError(
                f"init_app takes the {self._framework} app, as in init_app(app), not {type(app).__name__}"
            )
        self._state_of(app).register(self._handle, self._settings.replaced(clock=clock))
        if self._unnoticed is not None:
            self._unnoticed.discard((self._handle,))
        self._handle.switch_new_apps()

    @overload
    def exempt(self, obj: None = None, *, flags: ExemptionScope = ALL_LIMITS) -> Callable[[T], T]: ...
    @overload
    def exempt(self, obj: T, *, flags: ExemptionScope = ALL_LIMITS) -> T: ...
    def exempt(self, obj: Any = None, *, flags: ExemptionScope = ALL_LIMITS) -> Any:
        """Exempt what answers requests, or a group of routes, from the limits in ``flags``; also a decorator.

        With ``DEFAULT`` it is exempt from limits of its own, too. Groups nested in an exempt one are exempt
        only with ``DESCENDENTS``.
        """
        if obj is None:
            return lambda target: self.exempt(target, flags=flags)
        self.exemptions.add(self._to_be_exempt(obj), flags)
        self._handle.note_change()
        return obj

    def _to_be_exempt(self, what: Any) -> object:
        """Return what can be exempt; raise TypeError for anything else."""
        raise NotImplementedError

    @property
    def enabled(self) -> bool:
        """Whether anything is limited: False within `disabled`. May be set at any time, for all apps."""
        return self._handle.enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._handle.switch(truth_of("enabled", enabled))

    def disabled(self) -> AbstractContextManager[None]:
        """Limit nothing within a ``with`` block, in any thread: for tests. Blocks may overlap."""
        return self._handle.suspended()

    def reset(self, *identifiers: object, endpoint: str | None = None) -> None:
        """Give identifiers a fresh start on the current app; without one, on all apps of this RateLimit.

        This resets all their counts and locks of this RateLimit, in any store; with ``endpoint`` only counts
        of that endpoint alone, so none of the application, of a shared scope or of refusals. Identifiers are
        what ``identifiers`` returns, such as ``"ip:203.0.113.7"`` and ``"user:42"``.
        Counts whose names depend on the request (those of plain functions, of ``with`` blocks, and of a
        ``scope`` that reads it) are reset if they are among the 1024 names that this process used last; those
        of other processes stay.

        Raises
        ------
        ValueError
            There is no identifier (`reset_all` is for everybody), one is empty, or no app has the endpoint.
        TypeError
            One of them is not what ``identifiers`` may return.
        StoreError
            The store cannot answer.
        RuntimeError
            The current app does not have this RateLimit, or that of one of its decorators. Or this is not a
            request, and there may be counts in the store whose names depend on one; all others were reset.
        """
        if not identifiers:
            raise ValueError(
                "reset() needs an identifier, as in reset('user:42'); reset_all() is for everybody"
            )
        if any(each is None or each in ("", b"") for each in identifiers):
            raise ValueError(
                f"an identifier must not be empty: requests without one are counted as {ANONYMOUS!r}"
            )
        as_identifiers(identifiers)  # or an error, before anything is reset
        left = self._reset(endpoint, identifiers)
        if left and not self._is_in_request():
            raise RuntimeError(
                f"not reset, because the names of their counts depend on a request: {', '.join(left)}. Call "
                "reset() during a request, or in the process that has handled it; the others are reset"
            )

    def reset_all(self, endpoint: str | None = None) -> None:
        """Give everybody a fresh start: for tests.

        As `reset`, for those in other processes too. No other key of the store is touched. On Redis all keys
        of the database are looked at, once for each policy.
        """
        self._reset(endpoint, None)

    def stats(self) -> RateLimitStats:
        """Return what the limiters of this RateLimit have counted in this process, summed, as a new dict.

        Of the current app; without one, of all apps of this RateLimit. The keys are those of
        ``Limiter.stats``, but for what describes the store; ``policies`` has the same for each policy, by the
        name under which the store counts. A request under several policies counts in each of them. Limiters
        of limits that a function returned go with what they have counted once they are no longer used.

        Raises
        ------
        StoreError
            Shared memory cannot be opened.
        RuntimeError
            The current app does not have this RateLimit.
        """
        return summed_stats(each for _, rate_limit in self._registered() for each in rate_limit.limiters())

    @property
    def store(self) -> Store:
        """Where requests are counted: on the current app; without one, on the app of this RateLimit.

        Raises
        ------
        RuntimeError
            The current app does not have this RateLimit; or there is none, and this RateLimit has no app, or
            apps with different stores.
        """
        stores = self._stores()
        if len(stores) != 1:
            raise RuntimeError(
                "this RateLimit has no app yet: give it one"
                if not stores
                else "the apps of this RateLimit have different stores: ask for that of one while it is the "
                "current app"
            )
        return stores[0]

    def close(self) -> None:
        """Give back what its stores have leased, and close their connections; later requests open new ones.

        Of the current app; without one, of all apps of this RateLimit.
        """
        for store in self._stores():
            store.close()

    def _stores(self) -> list[Store]:
        return list(dict.fromkeys(rate_limit.store for _, rate_limit in self._registered()))

    @property
    def current_decision(self) -> Decision | None:
        """The latest decision on the current request; None if there is none. A refusal is falsy.

        If only shadow limits would have refused, it is their refusal.
        """
        ledger = self._current_ledger()
        state = None if ledger is None else self._current_state()
        rate_limit = None if state is None else state.rate_limits.get(self._handle)
        return None if ledger is None or rate_limit is None else ledger.decision(rate_limit)

    def settle(self, used: int) -> None:
        """Make the current request cost what it used, such as the tokens of a model: once, and exactly.

        The limits with a ``cost`` are charged what they are short of, whatever is left of them, or get back
        what was too much; those without count requests, and stay as they are. Call it in the request, in its
        stream, or where its context was copied to. Where a limit has a ``deduct_when``, it is done once the
        response is known, unless that does not count. A request that was refused, that no limit held for, or
        that was settled before stays as it is. In a coroutine, await `asettle`.

        Parameters
        ----------
        used
            What the request cost in the end; 0 gives back all of these limits.

        Raises
        ------
        ValueError, TypeError
            ``used`` is no whole number from 0.
        RuntimeError
            This is no request, or its view has limits of its own, and none of its limits has a ``cost``.
        StoreError
            The store cannot answer, and ``on_error`` is ``"raise"``.
        """
        self._check_thread("limiter.asettle(used)")
        settling.settle(self._ledgers("settle"), used)

    async def asettle(self, used: int) -> None:
        """Settle the current request as `settle` does, without blocking the event loop."""
        await settling.asettle(self._ledgers("asettle"), used)

    def refund(self) -> None:
        """Give back what the current request was charged, once, under all limits that are not settled.

        As if each of them had a ``deduct_when`` that says no: the request does not count. It is called where
        `settle` is, and raises what that does. In a coroutine, await `arefund`.
        """
        self._check_thread("limiter.arefund()")
        settling.refund(self._ledgers("refund"))

    async def arefund(self) -> None:
        """Refund the current request as `refund` does, without blocking the event loop."""
        await settling.arefund(self._ledgers("arefund"))

    def _ledgers(self, called: str) -> tuple[RequestLedger, ...]:
        """Return what was decided in the current request; RuntimeError where there is none."""
        if not self._is_in_request():
            raise RuntimeError(f"{called}() needs a request, and there is none here: {self._keeping_request}")
        ledger = self._current_ledger()
        return () if ledger is None else (ledger,)

    def _current_state(self) -> BaseAppState | None:
        """Return the state of the app whose code runs now, if any."""
        raise NotImplementedError

    def _current_ledger(self) -> RequestLedger | None:
        """Return the ledger of the request that is being handled, once it has one."""
        raise NotImplementedError

    def _is_in_request(self) -> bool:
        raise NotImplementedError

    def _state_of(self, app: Any) -> BaseAppState:
        raise NotImplementedError

    def _registered(self) -> Iterator[tuple[BaseAppState, AppRateLimit]]:
        """Yield what this is on the current app, or without one on all its apps."""
        current = self._current_state()
        everywhere = (self._state_of(each.app) for each in tuple(self._handle.apps))
        for state in everywhere if current is None else (current,):
            rate_limit = state.rate_limits.get(self._handle)
            if rate_limit is None:
                raise RuntimeError(
                    f"{state.app_name!r} does not have this RateLimit: call init_app(app) on it"
                )
            yield state, rate_limit

    def _reset(self, endpoint: str | None, given: tuple[object, ...] | None) -> list[str]:
        """Reset what can be reset, and return the limits that other processes may have counted elsewhere."""
        registered = tuple(self._registered())
        if endpoint is not None and not any(endpoint in state.endpoints() for state, _ in registered):
            raise ValueError(f"no endpoint is called {endpoint!r}; {self._endpoints_are}")
        left: list[str] = []
        for state, rate_limit in registered:
            identifiers = None if given is None else as_identifiers(given, rate_limit.addresses.ipv6_prefix)
            with state.active():
                left += reset_counts(state.routes(), rate_limit, endpoint, identifiers)
        return left

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what the app decides for a request, for ``overlimit.simulation.replay``.

        All RateLimits of the app decide together. Raises RuntimeError if this one has no app, or several.
        """
        states = [state for state, _ in self._registered()]
        if len(states) != 1:
            raise RuntimeError("route_charges needs the routes of one app: give this RateLimit one")
        return () if method == "OPTIONS" else steps_of(states[0].plan_at(method, path))

    def _add_filter(self, known: Callable[..., object]) -> None:
        check_callable("request_filter", known, self._arguments)
        self.request_filters.append(known)
        self._handle.note_change()
