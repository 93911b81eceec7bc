"""The ``RATELIMIT_*`` keys of an app's configuration: those of Flask-Limiter 4.1, and our own.

Values may be strings, as from environment variables. An invalid value is a ValueError that names its key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from overlimit import _core
from overlimit._forwarded import checked_header_name
from overlimit._messages.caller import frames_to_caller, warn_caller
from overlimit._messages.texts import nearest
from overlimit._options import is_set
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.identifying.identifiers import Identify, from_key_function
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, REQUEST_IDENTIFIER
from overlimit.http.options.storage_urls import store_url
from overlimit.limits import (
    FixedWindow,
    Limit,
    LimitsLike,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    as_limits,
)
from overlimit.stores import as_store

Options: TypeAlias = dict[str, object]

_T = TypeVar("_T")

_PREFIX = "RATELIMIT_"
_SLIP = 0.85  # the likeness from which an unknown key is taken for a misspelt one


def read(
    config: Mapping[str, Any], given: Mapping[str, object] = MappingProxyType({}), arguments: int = 0
) -> Options:
    """Return the options that the ``RATELIMIT_*`` keys of ``config`` set, by name.

    Keys of options that are ``given`` are not read, except ``RATELIMIT_STORAGE_OPTIONS``, with which a
    ``store`` that is given as a URL is completed. Of two keys for one option the key of the option counts,
    then the first of those that say it otherwise. ``arguments`` is the number of arguments for the request
    with which functions are called.

    Besides options there are ``request_identifier``, ``strategy``, which is set with its ``algorithm``, and
    ``unusable_store``, the error of the store of a RateLimit that is not enabled. Limits are returned unread.
    A ``store`` may contain a password.

    Warns about each unknown ``RATELIMIT_*`` key, and names a similar one. Raises ValueError if a value is
    invalid, and TypeError if it is a function that cannot be called as it will be; the message names its key,
    and shows no part of a URL.
    """
    _warn_of_unknown(config)
    values = {key: config[key] for key in KEYS if key in config and _is_set(key, config[key])}
    options: Options = {}
    for key, option in _OWN.items():
        if key in values and option.name not in given:
            options[option.name] = option.configured(key, values[key], arguments)
    for key, (name, read_theirs) in _THEIRS.items():
        if key in values and name not in options and name not in given:
            options |= read_theirs(key, values[key])
    if _KEY_FUNC in values and "identifiers" not in given:
        key_func = RATE_LIMIT_OPTIONS["key_func"].configured(_KEY_FUNC, values[_KEY_FUNC], arguments)
        options["identifiers"] = from_key_function(cast(Identify, key_func))
    if "header_names" not in given:
        options |= _header_names(values)
    enabled = {**options, **given}.get("enabled") is not False
    return options | _store_if_needed(given, values, enabled=enabled)


def _is_set(key: str, value: object) -> bool:
    return _OWN[key].is_set(value) if key in _OWN else is_set(value)


def _warn_of_unknown(config: Mapping[str, Any]) -> None:
    for key in config:
        if isinstance(key, str) and key.startswith(_PREFIX) and key not in KEYS:
            like = _key_like(key)
            hint = f"; did you mean {like}?" if like else ""
            warn_caller(f"{key} is not a key that RateLimit reads: it has no effect{hint}")


def warn_of_keys(config: Mapping[str, Any]) -> None:
    """Warn about each ``RATELIMIT_*`` key of an app whose RateLimit reads none, and name its option."""
    for key in config:
        if isinstance(key, str) and key.startswith(_PREFIX):
            name = _OWN[key].name if key in _OWN else "default_limits"
            warn_caller(
                f"{key} has no effect: options are given in the program, as in RateLimit(app, {name}=...)"
            )


def _key_like(key: str) -> str | None:
    name = key.removeprefix(_PREFIX)  # which makes all keys similar
    for own, option in _OWN.items():
        if option.name.upper() == name:
            return own
    if name == "STORE":
        return _STORAGE_URI
    like = nearest(name, [each.removeprefix(_PREFIX) for each in KEYS], _SLIP)
    return f"{_PREFIX}{like}" if like else None


def _named(key: str, value: Any, check: Callable[[Any], _T]) -> _T:
    """Check a value; an error names the key."""
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from None


def _switch(if_true: Options, if_false: Options) -> Callable[[str, Any], Options]:
    """Return what reads a key that is true or false."""
    return lambda key, value: if_true if Option(kinds.SWITCH, "").configured(key, value, 0) else if_false


def _strategy(key: str, value: Any) -> Options:
    return {"strategy": value, "algorithm": _named(key, value, algorithm_of)}


_RETRY_AFTER = kinds.one_of("delta-seconds", "http-date")


def _retry_after_value(key: str, value: Any) -> Options:
    if Option(_RETRY_AFTER, "").configured(key, value, 0) == "http-date":
        warn_caller(f"{key}: Retry-After is in seconds here, never a date")
    return {}


_OWN = {option.key: option for option in (*RATE_LIMIT_OPTIONS.values(), REQUEST_IDENTIFIER) if option.key}
"""The keys of options."""

_THEIRS: dict[str, tuple[str, Callable[[str, Any], Options]]] = {
    "RATELIMIT_STRATEGY": ("algorithm", _strategy),
    "RATELIMIT_HEADERS_ENABLED": ("headers", _switch({"headers": "both"}, {"headers": None})),
    "RATELIMIT_IN_MEMORY_FALLBACK_ENABLED": ("on_error", _switch({"on_error": "local"}, {})),
    "RATELIMIT_SWALLOW_ERRORS": ("on_error", _switch({"on_error": "allow"}, {"on_error": "raise"})),
    "RATELIMIT_FAIL_ON_FIRST_BREACH": ("", _switch({}, {})),
    "RATELIMIT_HEADER_RETRY_AFTER_VALUE": ("", _retry_after_value),
}
"""Keys of Flask-Limiter that say otherwise what an option says; of two for one option the first counts."""

_KEY_FUNC = "RATELIMIT_KEY_FUNC"
_HEADER_NAMES = dict(zip(RATE_LIMIT_OPTIONS["header_names"].other_keys, HeaderNames._fields, strict=True))
_STORAGE_URI = "RATELIMIT_STORAGE_URI"
_STORAGE_OPTIONS = "RATELIMIT_STORAGE_OPTIONS"

KEYS = (_KEY_FUNC, *_OWN, *_THEIRS, *_HEADER_NAMES, _STORAGE_URI, _STORAGE_OPTIONS)
"""Every key there is."""


def _header_names(given: Mapping[str, Any]) -> Options:
    names = {
        field: _named(key, given[key], checked_header_name)
        for key, field in _HEADER_NAMES.items()
        if key in given
    }
    return {"header_names": HeaderNames(**names)} if names else {}


def _store_if_needed(given: Mapping[str, object], values: Mapping[str, Any], *, enabled: bool) -> Options:
    """Return the store; if the RateLimit is not enabled, keep an error about it for later."""
    try:
        return _given_store(given["store"], values) if "store" in given else _store(values)
    except ValueError as error:
        if enabled:
            raise
        return {"unusable_store": error}


def _store(values: Mapping[str, Any]) -> Options:
    uri, options = values.get(_STORAGE_URI), _storage_options(values)
    if uri is None or isinstance(uri, _core.Store):
        _warn_of_lost(options, f"a URL in {_STORAGE_URI}")
        return {} if uri is None else {"store": uri}
    if not isinstance(uri, str):
        raise ValueError(f"{_STORAGE_URI} must be a URL or a store, not {type(uri).__name__}")
    return _store_of_url(_STORAGE_URI, uri, options)


def _given_store(given: object, values: Mapping[str, Any]) -> Options:
    """Return the store that is given as an option, completed by storage options if it is a URL."""
    options = _storage_options(values)
    if isinstance(given, str) and options:
        return _store_of_url("store", given, options)
    _warn_of_lost(options, "a URL as store: give them to the store itself")
    return {}


def _storage_options(values: Mapping[str, Any]) -> Mapping[str, Any]:
    options = values.get(_STORAGE_OPTIONS, {})
    if not isinstance(options, Mapping):
        raise ValueError(f"{_STORAGE_OPTIONS} must be a dict, not {type(options).__name__}")
    return options


def _store_of_url(name: str, url: str, options: Mapping[str, Any]) -> Options:
    key = f"{name} with {_STORAGE_OPTIONS}" if options else name
    return {"store": _named(key, url, lambda text: _checked_url(store_url(text, options)))}


def _checked_url(url: str) -> str:
    """Return the URL if a store can be made of it."""
    if url != "memory://":
        as_store(url)
    return url


def _warn_of_lost(options: Mapping[str, Any], needed: str) -> None:
    if options:
        warn_caller(f"{_STORAGE_OPTIONS} has no effect without {needed}")


_log = logging.getLogger("overlimit")

_MOVING_WINDOW = "moving-window"

STRATEGIES = MappingProxyType(
    {
        "fixed-window": FixedWindow.algorithm,
        _MOVING_WINDOW: SlidingLog.algorithm,
        "sliding-window-counter": SlidingWindowCounter.algorithm,
    }
)
"""The algorithm that a strategy stands for."""


def algorithm_of(strategy: object) -> str:
    """Return the name of a strategy's algorithm; raises ValueError listing the strategies."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"a strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}")
    return STRATEGIES[strategy]


def limits_under(strategy: str, limits: LimitsLike) -> tuple[Limit, ...]:
    """Return the limits as ``as_limits`` does, with strings and tuples read by a strategy.

    A log keeps each request, up to 10,000, so a larger limit under ``"moving-window"`` becomes a sliding
    window, which is exact up to one block and never admits more; a warning says so under ``overlimit``.
    Raises InvalidLimit for invalid limits, and ValueError for an unknown strategy.
    """
    try:
        return as_limits(limits, algorithm_of(strategy))
    except InvalidLimit:
        if strategy != _MOVING_WINDOW:
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
