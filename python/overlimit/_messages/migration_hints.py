"""Names that other rate limiters use for what is here, and what to write instead: for error messages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from types import FrameType, MappingProxyType, ModuleType
from typing import NoReturn

_RESET = "use decision.time + decision.retry_after of a refusal, else decision.time + decision.reset_after"

OF_DECISION: Mapping[str, str] = MappingProxyType(
    {
        "amount": "use decision.limit.quota",
        "breached": "use not decision",
        "extension": "use the RateLimit itself",
        "key": "use decision.identifier and decision.limit",
        "limited": "use not decision",
        "limiter": "use an overlimit.Limiter of your own, with the same store=",
        "request_args": "use decision.identifier",
        "reset_at": _RESET,
        "reset_time": _RESET,
        "state": "use .remaining, .reset_after and .retry_after of the decision",
        "shared": "use .policy of the rows of decision.details",
        "window": "use decision.retry_after and decision.remaining",
    }
)
"""Attributes that a ``Decision`` does not have."""

OF_LIMIT: Mapping[str, str] = MappingProxyType(
    {
        "GRANULARITY": "use limit.per, in seconds",
        "amount": "use limit.quota",
        "check_granularity_string": "write overlimit.limits.parse",
        "error_message": "use error.description",
        "get_expiry": "use limit.per or limit.window, in seconds",
        "granularity": "use limit.per, in seconds",
        "key_for": "use decision.identifier; the keys in the store are not to be made by hand",
        "limit_provider": "use limit.label",
        "multiples": "use limit.per, in seconds",
        "namespace": "use limit.name",
    }
)
"""Attributes that a limit does not have."""


_HIT = "use limiter.hit('user:42'), or limiter.peek('user:42') to ask without charging"
_PEEK = "use limiter.peek('user:42', cost=0), whose Decision says what remains and when it resets"

OF_LIMITER: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("allow", "allow_request", "attempt", "check", "consume", "test"), _HIT),
        **dict.fromkeys(("is_allowed", "is_limited", "is_rate_limited", "try_consume"), _HIT),
        **dict.fromkeys(("get_remaining", "get_window_stats", "remaining", "status"), _PEEK),
        **dict.fromkeys(("clear", "flush"), "use limiter.reset('user:42'), or limiter.reset_all()"),
        "as_decorator": "write @limiter.throttle('user:42')",
        **{
            name: f"write overlimit.{name}([(limiter, 'user:42'), (other, 'user:42')])"
            for name in ("acquire_all", "acquire_first", "hit_all", "hit_first", "peek_all")
        },
        "__enter__": "write with limiter.throttle('user:42')",
        "ping": "use limiter.store.ping()",
        "try_acquire": f"{_HIT}; limiter.acquire('user:42') waits, as that of pyrate-limiter does",
        "wait": "use limiter.acquire('user:42', timeout=5.0)",
    }
)
"""Methods that a ``Limiter`` does not have."""

_AWAITED = re.compile(
    r"(?<!\w)(limiter\.(?:acquire|hit|peek|reset|reset_all)\(|overlimit\.(?=\w+_(?:all|first)\())"
)

OF_ASYNC_LIMITER: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: _AWAITED.sub(r"await \1", hint).replace("overlimit.", "overlimit.aio.")
            for name, hint in OF_LIMITER.items()
            if name != "ping"
        },
        **dict.fromkeys(("__aenter__", "__enter__"), "write async with limiter.throttle('user:42')"),
        "has_capacity": "use await limiter.peek('user:42'), which charges nothing",
    }
)
"""Methods that an ``AsyncLimiter`` does not have."""

OF_ACQUIRE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("max_delay", "max_wait"), "use timeout=, in seconds")
)
"""Arguments that ``Limiter.acquire`` does not have."""

OPTIONS_OF_THROTTLE: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(OF_ACQUIRE, "timeout"), "weight": "cost"}
)
"""Arguments that ``throttle`` does not have, and what it calls them."""

OPTIONS_OF_LIMITER: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("backend", "redis", "storage_uri", "uri", "url"), "store"),
        **dict.fromkeys(("default_limits", "rate", "rates"), "limits"),
        **dict.fromkeys(("namespace", "prefix"), "name"),
        "strategy": "algorithm",
    }
)
"""Options that a ``Limiter`` does not have, and what it calls them."""

TIMEOUT_OF_STORE = "write store='redis://host:6379/0?timeout=0.5', or another store with its timeout"
"""What to write instead of a timeout of what has a store."""

OF_CLOCK: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("shift", "sleep", "tick"), "use clock.advance(60), in seconds"),
        **dict.fromkeys(("move_to", "travel"), "use clock.set(...), with seconds or an aware datetime"),
    }
)
"""Methods that a ``ManualClock`` does not have."""

OF_RATE_LIMIT: Mapping[str, str] = MappingProxyType(
    {
        "auto_check": "leave it out: every request is decided by itself",
        "headers_enabled": "write headers='both' for True, headers=None for False",
        "in_memory_fallback_enabled": "write on_error='local'",
        "retry_after": "leave it out: Retry-After is always in seconds",
        "storage_uri": "write store='redis://host:6379/0', or another URL or store",
        "strategy": "write algorithm='fixed_window', 'sliding_log' or 'sliding_window_counter'",
        "swallow_errors": "write on_error='allow' for True, on_error='raise' for False",
    }
)
"""Arguments of the ``Limiter`` of Flask-Limiter and of slowapi that a ``RateLimit`` does not have."""

NO_LIMITS = "write default_limits='100/minute', or application_limits= for all routes together"
"""What a RateLimit is given where somebody gives it limits by position, or by a shorter name."""

GUESSES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("limit", "limits"), NO_LIMITS),
        "key": "write identifiers=by_address, or another function",
        "name": "write key_prefix=",
        "timeout": TIMEOUT_OF_STORE,
    }
)
"""What else people try as arguments of a ``RateLimit``."""

_FOR_FLASK, _FOR_FASTAPI, _FOR_DJANGO = "overlimit.flask", "overlimit.fastapi", "overlimit.django"
_FOR_DECORATORS = (_FOR_FLASK, _FOR_FASTAPI, _FOR_DJANGO)
_FOR_ALL = (*_FOR_DECORATORS, "overlimit.asgi", "overlimit.wsgi")

ELSEWHERE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("ExemptionScope", "RateLimit", "StoreFailed"), (_FOR_FLASK, _FOR_FASTAPI)),
        "get_address": _FOR_DECORATORS,
        "get_identifiers": (_FOR_FLASK, _FOR_FASTAPI),
        **dict.fromkeys(("HeaderNames", "by_address", "by_user", "by_user_or_address"), _FOR_ALL),
        **dict.fromkeys(("by_cookie", "by_header", "by_json", "group_address"), _FOR_ALL),
        "by_path_parameter": _FOR_DECORATORS,
        "Response": ("overlimit.asgi", "overlimit.wsgi"),
        "exempt": (_FOR_DJANGO,),
        "rate_limit": (_FOR_FLASK, _FOR_DJANGO),
        "rate_limited": (_FOR_FLASK,),
        "RateLimitMiddleware": ("overlimit.asgi", "overlimit.wsgi", _FOR_DJANGO),
        **dict.fromkeys(("AsyncConcurrency", "AsyncLimiter", "AsyncSlot"), ("overlimit.aio",)),
        **dict.fromkeys(
            ("Concurrency", "Counter", "PeriodLimit", "PeriodState", "Slot", "TokenLimiter", "wait_time"),
            ("overlimit.recipes",),
        ),
        **dict.fromkeys(("ALGORITHMS", "LimitLike", "as_limits"), ("overlimit.limits",)),
        **dict.fromkeys(("fresh_counts", "manual_time", "python_time"), ("overlimit.testing",)),
        **dict.fromkeys(("AsyncThrottledTransport", "ThrottledTransport"), ("overlimit.httpx",)),
        "Clock": ("overlimit.clocks",),
        "ThrottledAdapter": ("overlimit.requests",),
        **dict.fromkeys(("ThrottledMiddleware", "throttled"), ("overlimit.aiohttp",)),
    }
)
"""Names that ``overlimit`` does not have, and the modules that have them."""

OF_PACKAGE: Mapping[str, str] = MappingProxyType(
    {
        "RateLimiter": "use overlimit.Limiter",
        "parse": "give the text to Limiter, or write from overlimit.limits import parse",
    }
)
"""Names of other packages, and what to use instead."""

OF_AIO: Mapping[str, str] = MappingProxyType(
    {
        "Concurrency": "write AsyncConcurrency, or from overlimit.recipes import Concurrency",
        "Limiter": "write AsyncLimiter, or from overlimit import Limiter, whose calls are not awaited",
        "RateLimiter": "write AsyncLimiter",
    }
)
"""Names that ``overlimit.aio`` does not have, and what to use instead."""


class NotHere:
    """An attribute that is not there, whose error says what to use; what is there costs nothing."""

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {self._hint}",
            name=self._name,
            obj=owner if instance is None else instance,
        )


class HintingType(type):
    """Leaves out of ``dir`` and ``help`` the names that a class has only to answer with a hint.

    They are members because ``__getattr__`` would make every hit slower, by a third.
    """

    def __dir__(cls) -> list[str]:
        return there(cls, super().__dir__())


def add_hints(kind: type, hints: Mapping[str, str]) -> None:
    """Let attributes that a class does not have say what to use instead.

    It is called below the class, so that type checkers do not see them and still report them.
    """
    for name, hint in hints.items():
        setattr(kind, name, NotHere(name, hint))


def there(kind: type, names: Iterable[str]) -> list[str]:
    """Return those names that a class does not have only to answer with a hint."""
    return [name for name in names if not isinstance(inspect.getattr_static(kind, name, None), NotHere)]


def missing(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Return the error of an attribute that is not there, with what to use instead of another library's."""
    hint = f": {hints[name]}" if name in hints else ""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=owner)


def missing_of_decision(decision: object, name: str) -> AttributeError:
    """Return the error of an attribute that a decision does not have; the core calls this."""
    return missing(decision, name, OF_DECISION)


def missing_of_package(package: ModuleType, name: str, caller: FrameType) -> Exception:
    """Return the error of a name that the package does not have, with the module that has it.

    It is an AttributeError, so that ``hasattr`` answers; ``from overlimit import ...`` would replace that by
    an ImportError without a hint, so what it asks for is an ImportError at once.
    """
    instead = _import_of(name, *ELSEWHERE[name]) if name in ELSEWHERE else OF_PACKAGE.get(name)
    return _missing_of_module(package, name, instead, caller)


def missing_of_aio(module: ModuleType, package: ModuleType, name: str, caller: FrameType) -> Exception:
    """Return the error of a name that ``overlimit.aio`` does not have, as `missing_of_package` does."""
    instead = OF_AIO.get(name)
    if instead is None and name in package.__all__:
        instead = _import_of(name, package.__name__)
    return _missing_of_module(module, name, instead, caller)


def _missing_of_module(module: ModuleType, name: str, instead: str | None, caller: FrameType) -> Exception:
    hint = f": {instead}" if instead else ""
    if instead and caller.f_globals.get("__name__") == "importlib._bootstrap":
        return ImportError(
            f"cannot import name {name!r} from {module.__name__!r}{hint}", name=module.__name__
        )
    message = f"module {module.__name__!r} has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=module)


def missing_of_adapter(module: str, name: str, hints: Mapping[str, str]) -> Exception:
    """Return the error of a name that an adapter of a framework does not have.

    For one of another library it is an ImportError, since ``from module import name`` shows no other.
    """
    if name in hints:
        return ImportError(f"{module} has no {name}: {hints[name]}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)


def _import_of(name: str, module: str, *others: str) -> str:
    also = f", or import it from {' or '.join(others)}" if others else ""
    return f"write from {module} import {name}{also}"
