"""The ``RATELIMIT_*`` keys of an app's configuration: those of Flask-Limiter 4.1, and our own.

Values may be strings, as from environment variables. An invalid value is a ValueError that names its key.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

from overlimit import _core
from overlimit._messages.caller import warn_caller
from overlimit._options import is_set, truth_of
from overlimit.http.answering.fields import HeaderNames, checked_header_name
from overlimit.http.identifying.addresses import Proxies, checked_ipv6_prefix
from overlimit.http.identifying.identifiers import Anonymous, Key
from overlimit.http.options.storage_urls import store_url
from overlimit.limiter import OnError
from overlimit.limits import FixedWindow, SlidingLog, SlidingWindowCounter
from overlimit.limits.registry import algorithm_named
from overlimit.stores import as_store

__all__ = ["HEADERS", "KEYS", "LIMITS", "MOVING_WINDOW", "STRATEGIES", "algorithm_of", "read"]

HEADERS = ("draft", "legacy", "both", None)
"""Which fields a response carries."""

LIMITS = ("default_limits", "application_limits", "meta_limits", "in_memory_fallback")
"""The options that are limits: an empty list means that they are not set, an empty string is an error."""

MOVING_WINDOW = "moving-window"

STRATEGIES = MappingProxyType(
    {
        "fixed-window": FixedWindow.algorithm,
        MOVING_WINDOW: SlidingLog.algorithm,
        "sliding-window-counter": SlidingWindowCounter.algorithm,
    }
)
"""The algorithm that a strategy stands for."""

Options: TypeAlias = dict[str, object]
Read: TypeAlias = Callable[[str, Any], Options]
"""Converts a key and its value to options."""

_T = TypeVar("_T")

_PREFIX = "RATELIMIT_"
_SLIP = 0.85
"""From which similarity (0 to 1) an unknown key is taken for a misspelt one."""
_SWITCH = {"on": True, "off": False}


def read(config: Mapping[str, Any], given: Mapping[str, object] = MappingProxyType({})) -> Options:
    """Return the options that the ``RATELIMIT_*`` keys of ``config`` set, by name.

    Keys of options that are ``given`` are not read, except ``RATELIMIT_STORAGE_OPTIONS``, with which a
    ``store`` that is given as a URL is completed. None, an empty string and an empty collection mean that a
    key is not set, except for ``RATELIMIT_HEADERS``; an empty ``RATELIMIT_ENABLED`` and an empty string in
    place of limits are errors. Of two keys for
    one option our own takes precedence (``RATELIMIT_ALGORITHM``, ``RATELIMIT_HEADERS``,
    ``RATELIMIT_ON_ERROR``), and a fallback in memory takes precedence over ``RATELIMIT_SWALLOW_ERRORS``.

    The options are those of a RateLimit and of `AllOptions`: ``strategy`` is set with its ``algorithm`` (None
    if the algorithm itself was given), ``request_identifier`` returns what is counted instead of the
    endpoint, and ``unusable_store`` is the error of the store of a RateLimit that is not enabled. Limits are
    returned unread. A ``store`` may contain a password.

    Warns about each unknown ``RATELIMIT_*`` key, and names a similar one.

    Raises
    ------
    ValueError
        A value is invalid; the message names its key, and shows no part of a URL.
    """
    _warn_of_unknown(config)
    values = {key: config[key] for key in KEYS if _is_set(config, key)}
    options: Options = {}
    for key, value in values.items():
        if key in _SINGLE and _SINGLE[key].option not in given:
            options.update(_SINGLE[key].read(key, value))
    if "header_names" not in given:
        options |= _header_names(values)
    enabled = {**options, **given}.get("enabled") is not False
    return options | _store_if_needed(given, values, enabled=enabled)


def _is_set(config: Mapping[str, Any], key: str) -> bool:
    if key not in config or key == "RATELIMIT_HEADERS":
        return key in config
    value = config[key]
    if key == "RATELIMIT_ENABLED" or (key in _KEYS_OF_LIMITS and value == ""):
        return value is not None
    return is_set(value)


def _warn_of_unknown(config: Mapping[str, Any]) -> None:
    for key in config:
        if isinstance(key, str) and key.startswith(_PREFIX) and key not in KEYS:
            # Without the common prefix, which makes all keys similar.
            known = {each.removeprefix(_PREFIX): each for each in KEYS}
            nearest = difflib.get_close_matches(key.removeprefix(_PREFIX), known, n=1, cutoff=_SLIP)
            hint = f"; did you mean {known[nearest[0]]}?" if nearest else ""
            warn_caller(f"{key} is not a key that RateLimit reads: it has no effect{hint}")


class _Key(NamedTuple):
    """How a key is read, and the option of a RateLimit that takes precedence over it."""

    option: str
    read: Read


def _option(name: str, check: Callable[[str, Any], object]) -> _Key:
    """Set one option to the checked value."""
    return _Key(name, lambda key, value: {name: check(key, value)})


def _nothing(check: Callable[[str, Any], object]) -> _Key:
    """Check the value, which has no effect here."""

    def checked(key: str, value: Any) -> Options:
        check(key, value)
        return {}

    return _Key("", checked)


def _named(key: str, value: Any, check: Callable[[Any], _T]) -> _T:
    """Check a value; an error names the key."""
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from None


def _as_is(_key: str, value: Any) -> object:
    return value


def _truth(key: str, value: Any) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if not isinstance(value, str):
        return truth_of(key, value)
    word = value.strip().lower()
    return _SWITCH[word] if word in _SWITCH else truth_of(key, word)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a string, not {value!r}")
    return value


def _function(key: str, value: Any) -> Callable[..., object]:
    if not callable(value):
        raise ValueError(f"{key} must be a function, not {value!r}")
    return value  # type: ignore[no-any-return]


def _number(key: str, value: Any) -> int:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{key} must be a whole number that is not negative, not {value!r}")
    return number


def _cost(key: str, value: Any) -> object:
    return value if callable(value) else _number(key, value)


def _one_of(key: str, value: object, known: Sequence[str | None]) -> str | None:
    asked = None if value == "none" else value
    for word in known:
        if asked == word:
            return word
    raise ValueError(f"{key} must be one of {', '.join(map(repr, known))}, not {value!r}")


def _headers(key: str, value: Any) -> str | None:
    return _one_of(key, value, HEADERS)


def _headers_enabled(key: str, value: Any) -> str | None:
    return "both" if _truth(key, value) else None


def _on_error(key: str, value: Any) -> str | None:
    return _one_of(key, value, get_args(OnError))


def _swallow_errors(key: str, value: Any) -> str:
    return "allow" if _truth(key, value) else "raise"


def _fallback(_key: str, value: Any) -> Options:
    return {"in_memory_fallback": value, "on_error": "local"}


def _fallback_enabled(key: str, value: Any) -> Options:
    return {"on_error": "local"} if _truth(key, value) else {}


def _strategy(key: str, value: Any) -> Options:
    return {"strategy": value, "algorithm": _named(key, value, algorithm_of)}


def algorithm_of(strategy: object) -> str:
    """Return the name of a strategy's algorithm; raises ValueError listing the strategies."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"a strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}")
    return STRATEGIES[strategy]


def _algorithm(key: str, value: Any) -> Options:
    return {"strategy": None, "algorithm": _named(key, value, algorithm_named).algorithm}


def _retry_after_value(key: str, value: Any) -> None:
    if _one_of(key, value, ("delta-seconds", "http-date")) == "http-date":
        warn_caller(f"{key}: Retry-After is in seconds here, never a date")


def _anonymous(key: str, value: Any) -> str | None:
    return _one_of(key, value, get_args(Anonymous))


def _trusted_proxies(key: str, value: Any) -> int | list[str]:
    trusted = value
    if isinstance(value, str):
        trusted = int(value) if value.strip().isdecimal() else [part.strip() for part in value.split(",")]
    _named(key, trusted, Proxies)
    return trusted if isinstance(trusted, int) else list(trusted)


def _ipv6_prefix(key: str, value: Any) -> int:
    return _named(key, _number(key, value), checked_ipv6_prefix)


_SINGLE: dict[str, _Key] = {
    "RATELIMIT_ENABLED": _option("enabled", _truth),
    "RATELIMIT_KEY_FUNC": _option("identifiers", lambda key, value: Key(_function(key, value))),
    "RATELIMIT_ANONYMOUS": _option("anonymous", _anonymous),
    "RATELIMIT_KEY_PREFIX": _option("key_prefix", _text),
    "RATELIMIT_REQUEST_IDENTIFIER": _option("request_identifier", _function),
    "RATELIMIT_DEFAULT": _option("default_limits", _as_is),
    "RATELIMIT_DEFAULTS_PER_METHOD": _option("default_limits_per_method", _truth),
    "RATELIMIT_DEFAULTS_EXEMPT_WHEN": _option("default_limits_exempt_when", _function),
    "RATELIMIT_DEFAULTS_DEDUCT_WHEN": _option("default_limits_deduct_when", _function),
    "RATELIMIT_DEFAULTS_COST": _option("default_limits_cost", _cost),
    "RATELIMIT_APPLICATION": _option("application_limits", _as_is),
    "RATELIMIT_APPLICATION_PER_METHOD": _option("application_limits_per_method", _truth),
    "RATELIMIT_APPLICATION_EXEMPT_WHEN": _option("application_limits_exempt_when", _function),
    "RATELIMIT_APPLICATION_DEDUCT_WHEN": _option("application_limits_deduct_when", _function),
    "RATELIMIT_APPLICATION_COST": _option("application_limits_cost", _cost),
    "RATELIMIT_META": _option("meta_limits", _as_is),
    "RATELIMIT_ON_BREACH_CALLBACK": _option("on_breach", _function),
    "RATELIMIT_ON_META_BREACH_CALLBACK": _option("on_meta_breach", _function),
    "RATELIMIT_FAIL_ON_FIRST_BREACH": _nothing(_truth),
    "RATELIMIT_STRATEGY": _Key("algorithm", _strategy),
    "RATELIMIT_ALGORITHM": _Key("algorithm", _algorithm),
    "RATELIMIT_HEADERS_ENABLED": _option("headers", _headers_enabled),
    "RATELIMIT_HEADERS": _option("headers", _headers),
    "RATELIMIT_HEADER_RETRY_AFTER_VALUE": _nothing(_retry_after_value),
    "RATELIMIT_SWALLOW_ERRORS": _option("on_error", _swallow_errors),
    "RATELIMIT_IN_MEMORY_FALLBACK_ENABLED": _Key("on_error", _fallback_enabled),
    "RATELIMIT_IN_MEMORY_FALLBACK": _Key("in_memory_fallback", _fallback),
    "RATELIMIT_ON_ERROR": _option("on_error", _on_error),
    "RATELIMIT_SHADOW": _option("shadow", _truth),
    "RATELIMIT_TRUSTED_PROXIES": _option("trusted_proxies", _trusted_proxies),
    "RATELIMIT_IPV6_PREFIX": _option("ipv6_prefix", _ipv6_prefix),
}
"""All keys that are read by themselves; of two for the same option the later takes precedence."""

_KEYS_OF_LIMITS = frozenset(key for key, known in _SINGLE.items() if known.option in LIMITS)

_HEADER_NAMES = {
    "RATELIMIT_HEADER_LIMIT": "limit",
    "RATELIMIT_HEADER_REMAINING": "remaining",
    "RATELIMIT_HEADER_RESET": "reset",
    "RATELIMIT_HEADER_RETRY_AFTER": "retry_after",
}
_STORAGE_URI = "RATELIMIT_STORAGE_URI"
_STORAGE_OPTIONS = "RATELIMIT_STORAGE_OPTIONS"

KEYS = (*_SINGLE, *_HEADER_NAMES, _STORAGE_URI, _STORAGE_OPTIONS)
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
