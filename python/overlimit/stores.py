"""Stores: where state lives and where decisions are made."""

from __future__ import annotations

import urllib.parse
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from overlimit import _core
from overlimit._core import MemoryStore

__all__ = ["MemoryStore", "RedisStore", "Store", "as_store"]

Store: TypeAlias = "_core.Store"

_SCHEMES = ("redis", "valkey", "unix")


class RedisStore(_core.RedisStore):
    """A store in Redis (6.2 or newer) or Valkey (7.2 or newer).

    Parameters
    ----------
    url
        ``redis://[user[:password]@]host[:port][/db]`` or ``unix://[user:password@]/path[?db=N]``;
        ``valkey://`` is the same as ``redis://``. Every keyword below may also be a query option of it.
    timeout
        The deadline of one whole call (resolve, connect, log in, send, reply), in seconds.
    prefix
        What every key begins with: ``[A-Za-z0-9_.-]{1,64}``.

    Building a store connects to nothing and never fails because a server is down. Thread-safe; a forked
    child opens connections of its own. Raises ValueError for a URL or an option that cannot be.
    """

    def __init__(self, url: str, *, timeout: float = 0.1, prefix: str = "ol") -> None:
        address = _address(url)
        options = {"timeout": timeout, "prefix": prefix} | address.pop("options")
        self._description = _described(address)
        self._arguments = (url, timeout, prefix)
        super().__init__(
            **address,
            prefix=options["prefix"],
            timeout_us=_timeout_us(options["timeout"]),
        )

    def __repr__(self) -> str:
        return f"RedisStore({self._description!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        url, timeout, prefix = self._arguments
        return _rebuilt, (url, timeout, prefix)


def _rebuilt(url: str, timeout: float, prefix: str) -> RedisStore:
    return RedisStore(url, timeout=timeout, prefix=prefix)


def _timeout_us(timeout: float | str) -> int:
    try:
        microseconds = round(float(timeout) * 1e6)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}") from None
    if not 0 < microseconds < 1 << 49:
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    return microseconds


def _address(url: str) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"a store's URL begins with redis://, valkey:// or unix://, not {parts.scheme!r}://")
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    options = {name: query.pop(name) for name in ("timeout", "prefix") if name in query}
    on_socket = parts.scheme == "unix"
    database = query.pop("db", "0") if on_socket else parts.path.strip("/") or query.pop("db", "0")
    if query:
        unknown = sorted(query)[0]
        raise ValueError(f"unknown option {unknown!r} in the store's URL; there are db, prefix, timeout")
    if not database.isdecimal():
        raise ValueError(f"the database in the store's URL must be a number, got {database!r}")
    if on_socket and not parts.path:
        raise ValueError("a unix:// URL names a path, as in unix:///run/redis.sock")
    return {
        "host": parts.hostname or "localhost",
        "port": _port(parts),
        "unix_path": urllib.parse.unquote(parts.path) if on_socket else "",
        "username": urllib.parse.unquote(parts.username or ""),
        "password": urllib.parse.unquote(parts.password or ""),
        "database": int(database),
        "options": options,
    }


def _port(parts: urllib.parse.SplitResult) -> int:
    try:
        return parts.port or 6379
    except ValueError as error:
        raise ValueError(f"the port in the store's URL is wrong: {error}") from None


def _described(address: dict[str, Any]) -> str:
    if address["unix_path"]:
        return f"unix://{address['unix_path']}?db={address['database']}"
    host = f"[{address['host']}]" if ":" in address["host"] else address["host"]
    return f"redis://{host}:{address['port']}/{address['database']}"


_default_memory: list[MemoryStore] = []
_memory_by_clock: weakref.WeakKeyDictionary[Any, MemoryStore] = weakref.WeakKeyDictionary()
_redis_by_url: weakref.WeakValueDictionary[str, RedisStore] = weakref.WeakValueDictionary()


def as_store(store: str | Store, clock: Callable[[], float] | object | None = None) -> Store:
    """The store itself, or the process-wide one for a URL.

    ``"memory://"`` is one store for the whole process; with an injected clock one per clock object.
    Raises ValueError for a URL that is none, TypeError for anything else.
    """
    if isinstance(store, _core.Store):
        return store
    if not isinstance(store, str):
        raise TypeError(f"store must be a URL or a store, not {type(store).__name__}")
    if store == "memory://":
        return _shared_memory() if clock is None else _memory_of(clock)
    shared = _redis_by_url.get(store)
    if shared is None:
        shared = _redis_by_url[store] = RedisStore(store)
    return shared


def _shared_memory() -> MemoryStore:
    if not _default_memory:
        _default_memory.append(MemoryStore())
    return _default_memory[0]


def _memory_of(clock: object) -> MemoryStore:
    try:
        return _memory_by_clock.setdefault(clock, MemoryStore())
    except TypeError:  # a clock that cannot be weakly referenced or hashed has no store to share
        return MemoryStore()
