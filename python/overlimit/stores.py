"""Stores: where state lives and where decisions are made."""

from __future__ import annotations

import os
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Literal, SupportsIndex, TypeAlias

from overlimit import _core
from overlimit._arguments import checks_arguments, shown
from overlimit._core import Store
from overlimit._initialised import Initialised
from overlimit._options import hash_tag_of, size_of, timeout_us_of, truth_of
from overlimit._redis_url import RedisUrl
from overlimit._tls import TLS_DEFAULTS, refuse_tls_options, tls_options
from overlimit.names import KEY_NAME_RULE, is_key_name
from overlimit.shared_memory import SharedMemoryStore

__all__ = ["MemoryStore", "RedisStore", "SharedMemoryStore", "Store", "StoreLike", "as_store", "url_or_store"]

StoreLike: TypeAlias = str | Store
"""What ``store=`` takes: a URL or a store object."""

_KEY_DEFAULTS = {"timeout": 0.1, "prefix": "ol", "hash_tag": False, "hash_identifiers": False}
_CLIENT_LIBRARIES = frozenset({"coredis", "redis", "valkey"})
_IN_THE_URL = "url='redis://localhost:6379/0'"
_OPTIONS = (*_KEY_DEFAULTS, *TLS_DEFAULTS)


class MemoryStore(_core.MemoryStore):
    """A store in this process's memory, of bounded size.

    A full store never forgives: identifiers that it does not know then share counts of what all of them
    spend, so some are refused early. Policies that are too many for counts of their own share those of
    others with the same limits.

    Parameters
    ----------
    max_keys
        The most identifiers that are counted one by one, over all policies; at least 1.
    max_bytes
        The most memory for them, in bytes; at least 65,536.

    ``len(store)`` is how many identifiers it counts, and ``bool(store)`` always True. A copy is the store
    itself, and it does not pickle. Thread-safe. Raises TypeError or ValueError naming the argument.
    """

    @checks_arguments(synonyms={"size": "max_keys", "maxsize": "max_keys", "max_size": "max_keys"})
    def __init__(self, max_keys: SupportsIndex = 1_000_000, max_bytes: SupportsIndex = 256 << 20) -> None:
        super().__init__(size_of(max_keys, "max_keys"), size_of(max_bytes, "max_bytes"))


class RedisStore(_core.RedisStore, Initialised):
    """A store in Redis (6.2 or newer) or Valkey (7.2 or newer).

    Parameters
    ----------
    url
        ``redis://[user[:password]@]host[:port][/db]`` or ``unix://[user:password@]/path[?db=N]``, also
        written ``redis+unix://``;
        ``redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]``, where the hosts are
        sentinels and user and password are for the master they name;
        ``redis+cluster://[user:password@]host[:port],host[:port]``, where the hosts are some nodes of a
        cluster. ``rediss`` instead of ``redis`` is with TLS; ``valkey`` and ``valkeys`` are the same as
        ``redis`` and ``rediss``. Every keyword below may also be a query option of it.
    timeout
        The deadline of one whole call (resolve, connect, TLS, log in, send, reply, and asking others or once
        more where that cannot charge twice), in seconds.
    prefix
        What every key begins with: ``[A-Za-z0-9_.-]{1,64}``.
    hash_tag
        What the keys of one call share in their names, for a cluster to keep them in one slot: nothing
        (False), the policy (``"policy"`` or True) or all keys of the prefix (``"prefix"``).
    hash_identifiers
        Whether keys hold the SHA-256 of every identifier, not only of those longer than 256 bytes.
    ssl_ca_certs, ssl_ca_path, ssl_ca_data
        The CAs to trust instead of the system's: a PEM file, a directory as ``openssl rehash`` makes it, PEM
        text.
    ssl_cert_reqs
        ``"required"``: the server's certificate must be of such a CA. ``"none"``: any will do, for any host.
    ssl_check_hostname
        Whether the certificate must be for the URL's host name or address.
    ssl_certfile, ssl_keyfile, ssl_password
        The certificate to show the server and its key (by default in the same file), PEM files; the
        password if the key is encrypted.

    Building a store connects to nothing, reads none of the files and never fails because a server is down.
    Thread-safe; a forked child opens connections of its own. Raises ValueError or TypeError that names the
    wrong option, or says what is wrong with the URL.
    """

    _set_last: ClassVar[str] = "_state_key"

    @checks_arguments(instead=dict.fromkeys(("host", "port", "db", "username", "password"), _IN_THE_URL))
    def __init__(
        self,
        url: str,
        *,
        timeout: float = 0.1,
        prefix: str = "ol",
        hash_tag: bool | Literal["policy", "prefix"] = False,
        hash_identifiers: bool = False,
        ssl_ca_certs: str | os.PathLike[str] | None = None,
        ssl_ca_path: str | os.PathLike[str] | None = None,
        ssl_ca_data: str | None = None,
        ssl_cert_reqs: str = "required",
        ssl_check_hostname: bool = True,
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_password: str | None = None,
    ) -> None:
        keywords: dict[str, Any] = {
            "timeout": timeout,
            "prefix": prefix,
            "hash_tag": hash_tag,
            "hash_identifiers": hash_identifiers,
            "ssl_ca_certs": ssl_ca_certs,
            "ssl_ca_path": ssl_ca_path,
            "ssl_ca_data": ssl_ca_data,
            "ssl_cert_reqs": ssl_cert_reqs,
            "ssl_check_hostname": ssl_check_hostname,
            "ssl_certfile": ssl_certfile,
            "ssl_keyfile": ssl_keyfile,
            "ssl_password": ssl_password,
        }
        where = RedisUrl.read(url, _OPTIONS)
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str such as 'ol', not {shown(prefix)}")
        if isinstance(timeout, bool | str):
            raise TypeError(f"timeout must be a number of seconds above 0, not {shown(timeout)}")
        options = keywords | where.options
        if not is_key_name(options["prefix"]):
            raise ValueError(f"prefix must be {KEY_NAME_RULE}, not {options['prefix']!r}")
        if not where.has_tls:
            refuse_tls_options(options)
        self._description = str(where)
        self._shown = {name: options[name] for name in _KEY_DEFAULTS}
        self._arguments = (url, keywords)
        hash_tag_word = hash_tag_of(options["hash_tag"])
        hashes = truth_of("hash_identifiers", options["hash_identifiers"])
        self._state_key: Hashable = (self._description, options["prefix"], hash_tag_word, hashes)
        super().__init__(
            where.location(tls_options(options) if where.has_tls else None),
            prefix=options["prefix"],
            hash_tag=hash_tag_word,
            hash_identifiers=hashes,
            timeout_us=timeout_us_of(options["timeout"]),
        )

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without credentials and options."""
        return self._description

    def __repr__(self) -> str:
        unusual = {name: value for name, value in self._shown.items() if value != _KEY_DEFAULTS[name]}
        options = [f"{name}={value!r}" for name, value in unusual.items()]
        return f"RedisStore({', '.join([repr(self._description), *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, self._arguments


def _rebuilt(url: str, keywords: dict[str, Any]) -> RedisStore:
    return RedisStore(url, **keywords)


_default_memory: list[MemoryStore] = []
_memory_by_clock: dict[tuple[int, int], tuple[object, MemoryStore]] = {}
_stores_by_url: dict[str, RedisStore | SharedMemoryStore] = {}


def as_store(store: StoreLike, clock: Callable[[], float] | object | None = None) -> Store:
    """Return the store itself, or the process-wide one for a URL.

    ``"memory://"`` is one store for the whole process; with an injected clock one per clock object.
    Raises ValueError for a string that is not the URL of a store, TypeError for anything else.
    """
    if isinstance(store, _core.Store):
        return store
    if not isinstance(store, str):
        raise TypeError(_no_store(store))
    if store == "memory://":
        return _shared_memory() if clock is None else _memory_of(clock)
    if store not in _stores_by_url:
        made = SharedMemoryStore.from_url(store) if store.startswith("shm://") else RedisStore(store)
        _stores_by_url.setdefault(store, made)
    return _stores_by_url[store]


_ARGUMENTS = {RedisStore: "'redis://localhost:6379/0'", SharedMemoryStore: "'myapp'"}


def _no_store(given: object) -> str:
    if isinstance(given, type) and issubclass(given, _core.Store):
        arguments = next((text for kind, text in _ARGUMENTS.items() if issubclass(given, kind)), "")
        instead = f"the class {given.__name__}: write {given.__name__}({arguments})"
    elif given is None:
        instead = "None: leave it out for the memory of this process"
    else:
        instead = f"an object of type {type(given).__name__}{_url_instead(given)}"
    return (
        "store must be a store object or a URL such as 'memory://', 'shm://myapp' or "
        f"'redis://localhost:6379/0', not {instead}"
    )


def _url_instead(given: object) -> str:
    """Say what to write for another library's client, or pool of connections, of Redis."""
    is_client = type(given).__module__.partition(".")[0] in _CLIENT_LIBRARIES
    return ": write its server's URL, such as 'redis://localhost:6379/0'" if is_client else ""


def url_or_store(store: Store, clock: object | None) -> str | Store:
    """Return ``"memory://"`` for what that means in this process, for another process to take its own."""
    if isinstance(store, MemoryStore) and store is as_store("memory://", clock):
        return "memory://"
    return store


def _shared_memory() -> MemoryStore:
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
