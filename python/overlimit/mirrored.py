"""``over_limit`` and its relatives: functions known from published rate limiters on Redis.

Same parameters, defaults and truth value (True: over the limit), under overlimit's own contract: all or
nothing over all limits and identifiers, in one round trip.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any, cast
from urllib.parse import quote

from overlimit._messages.texts import short_repr
from overlimit.clocks import ClockLike
from overlimit.errors import InvalidLimit
from overlimit.limiter import Limiter
from overlimit.limits import FixedWindow, Limit, SlidingWindow
from overlimit.limits.quantities import micros
from overlimit.limits.sliding_window import MOST_BLOCKS
from overlimit.stores import RedisStore, Store, as_store
from overlimit.stores.tls import taken_over
from overlimit.waiting import own_time

Identifier = str | bytes
Window = tuple[float, int] | tuple[float, int, float | None]

_DEFAULT_WINDOWS: tuple[Window, ...] = ((1, 10), (60, 120), (3600, 240))
_DEFAULT_SLIDING: tuple[Window, ...] = ((1, 10), (60, 120), (3600, 240, 60))
_MAX_NAME = 64
_NO_IDENTIFIERS = "there are no default identifiers: write identifiers='user:42'"


def over_limit(
    conn: Any,
    duration: float = 3600,
    limit: int = 240,
    *,
    identifiers: Identifier | Sequence[Identifier] | None = None,
    clock: ClockLike | None = None,
    name: str | None = None,
) -> bool:
    """Whether one more request exceeds ``limit`` in the epoch-aligned window of ``duration`` seconds.

    ``conn`` is a redis-py client (its address, database, credentials and TLS options are used, never its
    connections), a URL or a store. ``identifiers`` are by default those of the current Flask request.
    """
    return over_limit_multi(conn, [(duration, limit)], identifiers=identifiers, clock=clock, name=name)


def over_limit_multi(
    conn: Any,
    limits: Sequence[Window] = _DEFAULT_WINDOWS,
    *,
    identifiers: Identifier | Sequence[Identifier] | None = None,
    clock: ClockLike | None = None,
    name: str | None = None,
) -> bool:
    """Whether one more request exceeds any of several epoch-aligned windows, (seconds, limit) each."""
    windows = tuple(window[:2] for window in _windows(limits))
    return _is_over(conn, windows, 1, identifiers, clock, name)


over_limit_multi_lua = over_limit_multi


def over_limit_sliding_window(
    conn: Any,
    weight: int = 1,
    limits: Sequence[Window] = _DEFAULT_SLIDING,
    redis_time: bool = False,
    *,
    identifiers: Identifier | Sequence[Identifier] | None = None,
    clock: ClockLike | None = None,
    name: str | None = None,
) -> bool:
    """Whether a request of this weight exceeds any limit, (seconds, limit[, precision in seconds]) each.

    A limit with a precision is a sliding window; without one it is an epoch-aligned fixed window. A precision
    that does not divide its duration becomes the next finer one that does; one of more than 4096 blocks, the
    finest that is allowed.
    ``redis_time=False`` decides by this machine's clock instead of the server's; ``clock`` overrides both.
    """
    if clock is None and not redis_time and not own_time.stands_still:
        clock = time.time
    return _is_over(conn, _windows(limits), weight, identifiers, clock, name)


def _windows(limits: Sequence[Window]) -> tuple[tuple[Any, ...], ...]:
    try:
        windows = () if isinstance(limits, str) else tuple(map(tuple, limits))
    except TypeError:
        windows = ()
    if not windows or not all(len(window) in (2, 3) for window in windows):
        raise InvalidLimit(
            "limits must be a list of tuples (seconds, limit[, precision]), as [(1, 10), (60, 120)], not "
            f"{short_repr(limits)}"
        )
    if not all(isinstance(part, Hashable) for window in windows for part in window):
        raise InvalidLimit(f"seconds, limit and precision must be numbers, not {short_repr(limits)}")
    return windows


def _is_over(
    conn: Any,
    windows: tuple[Any, ...],
    weight: int,
    identifiers: Identifier | Sequence[Identifier] | None,
    clock: ClockLike | None,
    name: str | None,
) -> bool:
    limiter = _limiter(
        _store_of(conn, clock), windows, cast("Hashable", clock), name or _derived_name(windows)
    )
    if identifiers is None:
        identifiers = _request_identifiers()
    elif isinstance(identifiers, str | bytes):
        identifiers = [identifiers]
    elif not isinstance(identifiers, Iterable):
        raise TypeError(
            "identifiers must be a str such as 'user:42', bytes or a list of them, "
            f"not {short_repr(identifiers)}"
        )
    return not limiter.hit(*identifiers, cost=weight)


@functools.lru_cache(maxsize=256)
def _limiter(store: Store, windows: tuple[Any, ...], clock: Any, name: str) -> Limiter:
    return Limiter([_limit(*window) for window in windows], name=name, store=store, clock=clock)


def _limit(duration: float, limit: int, precision: float | None = None) -> Limit:
    if precision is None:
        return FixedWindow(limit, duration, start="epoch")
    period_us, wanted_us = micros(duration, "duration"), micros(precision, "precision")
    return SlidingWindow(limit, duration, precision=Fraction(_block_us(period_us, wanted_us), 1_000_000))


def _block_us(period_us: int, wanted_us: int) -> int:
    """Return the longest block up to ``wanted_us`` that divides the period, or the shortest allowed one."""
    fewest = -(-period_us // wanted_us)
    finer = (blocks for blocks in range(fewest, MOST_BLOCKS + 1) if period_us % blocks == 0)
    coarser = (blocks for blocks in range(MOST_BLOCKS, 0, -1) if period_us % blocks == 0)
    return period_us // next(finer, next(coarser))


def _derived_name(windows: tuple[Any, ...]) -> str:
    spans = [[str(part) for part in (window[0], *window[2:]) if part is not None] for window in windows]
    name = "over_limit." + "-".join("_".join(span) for span in spans)
    if len(name) <= _MAX_NAME:
        return name
    import hashlib  # which loads OpenSSL

    return "over_limit." + hashlib.sha256(name.encode()).hexdigest()[:16]


def _store_of(conn: Any, clock: ClockLike | None) -> Store:
    pool = getattr(conn, "connection_pool", None)
    if pool is None:
        return as_store(conn, clock)
    if "Sentinel" in type(pool).__name__:
        raise ValueError(
            "conn must not be a client of a Sentinel: give a client of the master, a URL such as "
            "'redis+sentinel://host:26379/service/0' or a RedisStore"
        )
    address = pool.connection_kwargs
    username, password = _credentials(address)
    return _redis_store(
        str(address.get("path") or ""),
        str(address.get("host") or "localhost"),
        int(address.get("port") or 6379),
        int(address.get("db") or 0),
        username,
        password,
        tuple(taken_over(address).items()) if _has_tls(pool.connection_class) else None,
    )


def _credentials(address: dict[str, Any]) -> tuple[str, str]:
    provider = address.get("credential_provider")
    if provider is None:
        return str(address.get("username") or ""), str(address.get("password") or "")
    *username, password = provider.get_credentials()
    return (str(username[0]) if username else ""), str(password)


def _has_tls(connection_class: type) -> bool:
    """By name, which redis-py's asyncio and sentinel clients and valkey-py's share."""
    return any(base.__name__ == "SSLConnection" for base in connection_class.__mro__)


@functools.lru_cache(maxsize=64)
def _redis_store(
    path: str,
    host: str,
    port: int,
    database: int,
    username: str,
    password: str,
    tls: tuple[tuple[str, Any], ...] | None,
) -> RedisStore:
    user = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username or password else ""
    if path:
        return RedisStore(f"unix://{user}{quote(path)}?db={database}")
    shown = f"[{host}]" if ":" in host else host
    scheme = "redis" if tls is None else "rediss"
    return RedisStore(f"{scheme}://{user}{shown}:{port}/{database}", **dict(tls or ()))


def _request_identifiers() -> Sequence[Identifier]:
    try:
        from flask import has_request_context
    except ImportError:
        raise TypeError(f"without Flask {_NO_IDENTIFIERS}") from None
    if not has_request_context():
        raise TypeError(f"outside a Flask request {_NO_IDENTIFIERS}")
    from overlimit.flask import get_identifiers

    return get_identifiers()
