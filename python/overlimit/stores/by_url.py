"""The store that ``store=`` names: a store object itself, or the process-wide one of a URL."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import TypeAlias

from overlimit import _core
from overlimit._core import Store
from overlimit.stores.memory import MemoryStore
from overlimit.stores.redis import RedisStore
from overlimit.stores.shared_memory import SharedMemoryStore

StoreLike: TypeAlias = str | Store
"""What ``store=`` takes: a URL or a store object."""

_CLIENT_LIBRARIES = frozenset({"coredis", "redis", "valkey"})

_default_memory: list[MemoryStore] = []
_memory_by_clock: dict[tuple[int, int], tuple[object, MemoryStore]] = {}
_stores_by_url: dict[str, Store] = {}


def as_store(store: StoreLike, clock: Callable[[], float] | object | None = None) -> Store:
    """Return the store itself, or the process-wide one for a URL, whatever white space is around it.

    ``"memory://"`` is one store for the whole process; with an injected clock one per clock object.
    Raises ValueError for a string that is not the URL of a store, TypeError for anything else.
    """
    if isinstance(store, _core.Store):
        return store
    if not isinstance(store, str):
        raise TypeError(_no_store(store))
    store = store.strip()
    if store == "memory://":
        return _default_memory_store() if clock is None else _memory_of(clock)
    if store not in _stores_by_url:
        _stores_by_url.setdefault(store, made_from_url(store))
    return _stores_by_url[store]


def made_from_url(url: str) -> Store:
    """Return a new store of a URL, whose kind is imported only when it is named; raise as it does."""
    if url.startswith("shm://"):
        return SharedMemoryStore.from_url(url)
    if url.startswith(("sqlite:", "sqlite3:")):
        from overlimit.stores.sqlite import SQLiteStore

        return SQLiteStore.from_url(url)
    if url.startswith(("postgresql:", "postgres:", "postgresql+", "postgres+")):
        from overlimit.stores.postgresql import PostgreSQLStore

        return PostgreSQLStore(url)
    return RedisStore(url)


def _no_store(given: object) -> str:
    if isinstance(given, type) and issubclass(given, _core.Store):
        instead = f"the class {given.__name__}: write {given.__name__}({given._example})"
    elif given is None:
        instead = "None: leave it out for the memory of this process"
    else:
        instead = f"an object of type {type(given).__name__}{_url_instead(given)}"
    return (
        "store must be a store object or a URL such as 'memory://', 'shm://myapp', 'sqlite:///limits.db', "
        f"'postgresql://localhost/mydb' or 'redis://localhost:6379/0', not {instead}"
    )


def _url_instead(given: object) -> str:
    """Say what to write for another library's client, or pool of connections, of Redis."""
    is_client = type(given).__module__.partition(".")[0] in _CLIENT_LIBRARIES
    return ": write its server's URL, such as 'redis://localhost:6379/0'" if is_client else ""


def url_or_store(store: Store, clock: object | None) -> str | Store:
    """Return ``"memory://"`` for what that means in this process, for another process to take its own."""
    if not store.is_shared and store is as_store("memory://", clock):
        return "memory://"
    return store


def _default_memory_store() -> MemoryStore:
    if not _default_memory:
        _default_memory.append(MemoryStore())
    return _default_memory[0]


def _memory_of(clock: object) -> MemoryStore:
    # A bound method is made anew by each access: the object behind it is the clock.
    owner, function = clock, None
    if isinstance(clock, types.MethodType):
        owner, function = clock.__self__, clock.__func__
    key = (id(owner), id(function))
    known = _memory_by_clock.get(key)
    if known is None:
        known = _memory_by_clock.setdefault(key, (_kept(owner, key), MemoryStore()))
    return known[1]


def _kept(owner: object, key: tuple[int, int]) -> object:
    """Keep a clock by a weak reference and drop its store with it; a clock without weak references stays."""
    try:
        forget = weakref.finalize(owner, _memory_by_clock.pop, key, None)
    except TypeError:
        return owner
    forget.atexit = False
    return forget
