"""The options of a RateLimit, from its arguments and the app's configuration."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, TypedDict, TypeVar, cast

from overlimit import InvalidLimit
from overlimit._messages.caller import frames_to_caller
from overlimit._options import is_set
from overlimit.clocks import ClockLike, reader_of
from overlimit.http.answering.fields import HeaderNames, checked_header_name
from overlimit.http.callables import check_callable
from overlimit.http.identifying.addresses import Proxies, checked_ipv6_prefix
from overlimit.http.identifying.identifiers import Anonymous, Identify, Key, ReadsRequest
from overlimit.http.options import configuration
from overlimit.http.options.configuration import LIMITS, MOVING_WINDOW, algorithm_of
from overlimit.http.options.limit_options import (
    Cost,
    LimitOptions,
    LimitsValue,
    check_anonymous,
    check_on_error,
    check_switch,
    parts_of,
)
from overlimit.limiter import OnError
from overlimit.limits import Limit, LimitsLike, SlidingLog, SlidingWindow, as_limits
from overlimit.limits.quantities import share_of_all
from overlimit.limits.registry import algorithm_named
from overlimit.stores import Store

__all__ = ["AllOptions", "Headers", "Options", "Settings", "limits_under", "shows_keywords"]

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger("overlimit")

Headers = Literal["draft", "legacy", "both"] | None
"""The fields of the IETF draft, X-RateLimit-*, both, or none."""


class Options(TypedDict, total=False):
    """The options of a RateLimit; None means not set, except for ``headers``."""

    default_limits: LimitsValue | None
    default_limits_per_method: bool | None
    default_limits_exempt_when: Callable[..., object] | None
    default_limits_deduct_when: Callable[..., object] | None
    default_limits_cost: Cost | None
    application_limits: LimitsValue | None
    application_limits_per_method: bool | None
    application_limits_exempt_when: Callable[..., object] | None
    application_limits_deduct_when: Callable[..., object] | None
    application_limits_cost: Cost | None
    meta_limits: LimitsValue | None
    in_memory_fallback: LimitsValue | None
    on_breach: Callable[..., object] | None
    on_meta_breach: Callable[..., object] | None
    identifiers: Identify | Sequence[Identify] | None
    anonymous: Anonymous | None
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


class AllOptions(Options, total=False):
    """The options of a RateLimit, and those that only the configuration has."""

    strategy: str | None
    request_identifier: Callable[..., str] | None
    unusable_store: ValueError | None


class Settings:
    """The options of a RateLimit."""

    def __init__(self, options: AllOptions, arguments: int = 0) -> None:
        """Keep the options that are set; a ``store`` may contain a password.

        ``arguments`` is the number of arguments for the request with which functions are called.
        """
        given = {
            name: value
            for name, value in options.items()
            if is_set(value)
            or name == "headers"
            or (name == "enabled" and value is not None)
            or (name in LIMITS and value == "")
        }
        self.options = cast(AllOptions, given)
        self.arguments = arguments
        self._checked: dict[LimitsLike, tuple[Limit, ...]] = {}

    def check(self, application: str = "application_limits (RATELIMIT_APPLICATION)") -> None:
        """Check what can be checked without the app.

        ``application`` is what error messages call the limits of the whole app.

        Raises
        ------
        InvalidLimit
            A limit is malformed.
        ValueError, TypeError
            Another option has an invalid value.
        """
        for name, options in {
            "default_limits (RATELIMIT_DEFAULT)": self.default,
            application: self.application,
            "meta_limits (RATELIMIT_META)": self.meta,
            "in_memory_fallback (RATELIMIT_IN_MEMORY_FALLBACK)": self.fallback,
        }.items():
            self._check_limits(name, options)
        check_anonymous(self.options.get("anonymous"))
        self._check_functions()
        self._check_counting()
        self._check_switches()
        self._check_choices()
        self._check_clock()
        self._check_addresses()

    def _check_functions(self) -> None:
        for name in ("on_breach", "on_meta_breach"):
            check_callable(name, self.options.get(name), self.arguments, of="the decision")
        identifier = self.options.get("request_identifier")
        check_callable("RATELIMIT_REQUEST_IDENTIFIER", identifier, self.arguments)
        identify = self.options.get("identifiers")
        if isinstance(identify, Key) and not isinstance(identify.function, ReadsRequest):
            check_callable("key_func (RATELIMIT_KEY_FUNC)", identify.function, self.arguments)

    def _check_counting(self) -> None:
        prefix, share = self.options.get("key_prefix"), self.options.get("local_share")
        if not isinstance(prefix, (str, NoneType)):
            raise TypeError(f"key_prefix must be a string, not {prefix!r}")
        if share is not None:
            share_of_all(share, "local_share")

    def _check_switches(self) -> None:
        options = cast(dict[str, object], self.options)
        for name in ("enabled", "shadow", "default_limits_per_method", "application_limits_per_method"):
            check_switch(name, options.get(name, False))

    def _check_choices(self) -> None:
        algorithm = self.options.get("algorithm")
        check_on_error(self.options.get("on_error"))
        if algorithm is not None:
            algorithm_named(algorithm)
        headers, names = self.options.get("headers"), self.options.get("header_names")
        if headers not in ("draft", "legacy", "both", None):
            raise ValueError(f"headers must be 'draft', 'legacy', 'both' or None, not {headers!r}")
        if not isinstance(names, (HeaderNames, NoneType)):
            raise TypeError(f"header_names must be a HeaderNames, not {names!r}")
        for name in names or ():
            checked_header_name(name)

    def _check_clock(self) -> None:
        clock = self.options.get("clock")
        if clock is not None:
            reader_of(clock)

    def _check_addresses(self) -> None:
        proxies, prefix = self.options.get("trusted_proxies"), self.options.get("ipv6_prefix")
        Proxies(0 if proxies is None else proxies)
        checked_ipv6_prefix(64 if prefix is None else prefix)

    def _check_limits(self, name: str, options: LimitOptions) -> None:
        if options.parts == ("",):
            raise InvalidLimit(f"{name}: '' is not a limit: leave it out, or give None, if there are none")
        try:
            options.check(self._checking, self.arguments)
        except InvalidLimit as error:
            raise InvalidLimit(f"{name}: {error}") from None

    def _checking(self, value: LimitsLike, algorithm: str | None) -> tuple[Limit, ...]:
        limits = self._checked[value] = self.limits(value, algorithm)
        return limits

    def completed(self, config: Mapping[str, Any]) -> Settings:
        """Set what is not set from the ``RATELIMIT_*`` keys, and the rest from the defaults.

        Raises
        ------
        ValueError
            A key has an invalid value.
        """
        found = configuration.read(config, self.options)
        # The store comes last: the configuration may have completed a URL that is also in the options.
        store = {"store": found["store"]} if "store" in found else {}
        options = {"headers": "draft", **found, **self.options, **store}
        return Settings(cast(AllOptions, options), self.arguments)

    def limits(self, value: LimitsLike, algorithm: str | None = None) -> tuple[Limit, ...]:
        """Read limits; strings by ``algorithm``, or else by the algorithm of the settings.

        Raises
        ------
        InvalidLimit
            They are malformed.
        """
        strategy = self.options.get("strategy")
        if algorithm is None and strategy is not None:
            return self._under(strategy, value)
        return as_limits(value, algorithm or self.options.get("algorithm"))

    # Limits are checked before they are compiled, and a warning about them is logged only once.
    def _under(self, strategy: str, value: LimitsLike) -> tuple[Limit, ...]:
        known = self._checked.get(value)
        return limits_under(strategy, value) if known is None else known

    @property
    def default(self) -> LimitOptions:
        """The limits of routes that have none of their own."""
        cost = self.options.get("default_limits_cost")
        return LimitOptions(
            parts_of(self.options.get("default_limits")),
            per_method=bool(self.options.get("default_limits_per_method")),
            exempt_when=self.options.get("default_limits_exempt_when"),
            deduct_when=self.options.get("default_limits_deduct_when"),
            cost=1 if cost is None else cost,
        )

    @property
    def application(self) -> LimitOptions:
        """The limits of the whole app."""
        cost = self.options.get("application_limits_cost")
        return LimitOptions(
            parts_of(self.options.get("application_limits")),
            per_method=bool(self.options.get("application_limits_per_method")),
            exempt_when=self.options.get("application_limits_exempt_when"),
            deduct_when=self.options.get("application_limits_deduct_when"),
            cost=1 if cost is None else cost,
        )

    @property
    def meta(self) -> LimitOptions:
        """The limits on refusals."""
        return LimitOptions(parts_of(self.options.get("meta_limits")))

    @property
    def fallback(self) -> LimitOptions:
        """The limits that replace all others while the store fails."""
        return LimitOptions(parts_of(self.options.get("in_memory_fallback")))


def limits_under(strategy: str, limits: LimitsLike) -> tuple[Limit, ...]:
    """Return the limits as ``as_limits`` does, with strings and tuples read by a strategy.

    A log keeps each request, up to 10,000, so a larger limit under ``"moving-window"`` becomes a sliding
    window, which is exact up to one block and never admits more; a warning says so under ``overlimit``.
    Raises InvalidLimit for invalid limits, and ValueError for an unknown strategy.
    """
    try:
        return as_limits(limits, algorithm_of(strategy))
    except InvalidLimit:
        if strategy != MOVING_WINDOW:
            raise
        found = _logs_or_windows(limits)
        if found is None:
            raise
    return found


def _logs_or_windows(limits: LimitsLike) -> tuple[Limit, ...] | None:
    """Return the limits with windows for those that are too large for a log; None if there are none."""
    given = {id(part) for part in limits} if isinstance(limits, (list, tuple)) else set()
    windows = as_limits(limits, SlidingWindow.algorithm)
    found = tuple(limit if id(limit) in given else _log_or_window(limit) for limit in windows)
    too_large = [limit for limit in found if id(limit) not in given and isinstance(limit, SlidingWindow)]
    for limit in too_large:
        _log.warning(
            "%s is too much for a log of every request: it is a sliding window instead",
            limit.label,
            stacklevel=frames_to_caller(),
        )
    return found if too_large else None


def _log_or_window(limit: Limit) -> Limit:
    if not isinstance(limit, SlidingWindow):
        return limit
    try:
        return SlidingLog(limit.limit, limit.per)
    except InvalidLimit:
        return limit


def shows_keywords(keywords: type) -> Callable[[F], F]:
    """Show the keywords in the signature of a function instead of its ``**options``.

    A keyword that is also a positional parameter is shown as that.
    """

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        placed = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD)
            for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        named = [
            _optional(name, annotation)
            for name, annotation in keywords.__annotations__.items()
            if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=placed + named)  # type: ignore[attr-defined]
        return function

    return shown


class _NotGiven:
    """The default of an option that is not given, which does not always mean the same as None."""

    def __repr__(self) -> str:
        return "..."


_NOT_GIVEN = _NotGiven()


def _optional(name: str, annotation: Any) -> inspect.Parameter:
    written = getattr(annotation, "__forward_arg__", annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_NOT_GIVEN, annotation=written)
