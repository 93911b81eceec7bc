"""Stores: where state lives and where decisions are made."""

from __future__ import annotations

import os
import types
import urllib.parse
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from overlimit import _core
from overlimit._core import MemoryStore
from overlimit._tls import TLS_DEFAULTS, refuse_tls_options, tls_options
from overlimit.names import KEY_NAME_RULE, is_key_name

__all__ = ["MemoryStore", "RedisStore", "Store", "as_store"]

Store: TypeAlias = "_core.Store"

_TLS_SCHEMES = ("rediss", "valkeys")
_SCHEMES = ("redis", "valkey", *_TLS_SCHEMES, "unix")
_OPTIONS = ("timeout", "prefix", *TLS_DEFAULTS)
_MAX_DATABASE = 2**31 - 1


class RedisStore(_core.RedisStore):
    """A store in Redis (6.2 or newer) or Valkey (7.2 or newer).

    Parameters
    ----------
    url
        ``redis://[user[:password]@]host[:port][/db]`` or ``unix://[user:password@]/path[?db=N]``;
        ``rediss://`` is with TLS; ``valkey://`` and ``valkeys://`` are the same as ``redis://`` and
        ``rediss://``. Every keyword below may also be a query option of it.
    timeout
        The deadline of one whole call (resolve, connect, TLS, log in, send, reply), in seconds.
    prefix
        What every key begins with: ``[A-Za-z0-9_.-]{1,64}``.
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
    Thread-safe; a forked child opens connections of its own. Raises ValueError for a URL or an option that
    cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 0.1,
        prefix: str = "ol",
        ssl_ca_certs: str | os.PathLike[str] | None = None,
        ssl_ca_path: str | os.PathLike[str] | None = None,
        ssl_ca_data: str | None = None,
        ssl_cert_reqs: str = "required",
        ssl_check_hostname: bool = True,
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_password: str | None = None,
    ) -> None:
        keywords = {
            "timeout": timeout,
            "prefix": prefix,
            "ssl_ca_certs": ssl_ca_certs,
            "ssl_ca_path": ssl_ca_path,
            "ssl_ca_data": ssl_ca_data,
            "ssl_cert_reqs": ssl_cert_reqs,
            "ssl_check_hostname": ssl_check_hostname,
            "ssl_certfile": ssl_certfile,
            "ssl_keyfile": ssl_keyfile,
            "ssl_password": ssl_password,
        }
        address = _address(url)
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str, not {type(prefix).__name__}")
        if isinstance(timeout, bool | str):
            raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")
        options = keywords | address.pop("options")
        if not is_key_name(options["prefix"]):
            raise ValueError(f"prefix must be {KEY_NAME_RULE}, not {options['prefix']!r}")
        has_tls = address.pop("has_tls")
        if not has_tls:
            refuse_tls_options(options)
        self._description = _described(address, has_tls)
        self._shown = {name: options[name] for name in ("timeout", "prefix")}
        self._arguments = (url, keywords)
        super().__init__(
            **address,
            tls=tls_options(options) if has_tls else None,
            prefix=options["prefix"],
            timeout_us=_timeout_us(options["timeout"]),
        )

    def __repr__(self) -> str:
        usual = {"timeout": 0.1, "prefix": "ol"}
        unusual = {name: value for name, value in self._shown.items() if value != usual[name]}
        options = [f"{name}={value!r}" for name, value in unusual.items()]
        return f"RedisStore({', '.join([repr(self._description), *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, self._arguments


def _rebuilt(url: str, keywords: dict[str, Any]) -> RedisStore:
    return RedisStore(url, **keywords)


def _timeout_us(timeout: float | str) -> int:
    try:
        microseconds = round(float(timeout) * 1e6)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}") from None
    if not 0 < microseconds < 1 << 49:
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    return microseconds


def _address(url: str) -> dict[str, Any]:
    """Take a URL apart; no message repeats a part of it that may belong to a password."""
    parts = _split(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    options = {name: query.pop(name) for name in _OPTIONS if name in query}
    on_socket = parts.scheme == "unix"
    database = _database(query.pop("db", None), "" if on_socket else parts.path.strip("/"))
    if query:
        unknown = sorted(query)[0]
        raise ValueError(
            f"unknown option {unknown!r} in the store's URL; there are db, {', '.join(sorted(_OPTIONS))}"
        )
    if on_socket and not parts.path:
        raise ValueError("a unix:// URL names a path, as in unix:///run/redis.sock")
    return {
        "host": parts.hostname or "localhost",
        "port": _port(parts),
        "unix_path": urllib.parse.unquote(parts.path) if on_socket else "",
        "username": urllib.parse.unquote(parts.username or ""),
        "password": urllib.parse.unquote(parts.password or ""),
        "database": database,
        "has_tls": parts.scheme in _TLS_SCHEMES,
        "options": options,
    }


def _split(url: str) -> urllib.parse.SplitResult:
    if not isinstance(url, str):
        raise TypeError(f"a store's URL is a str, not {type(url).__name__}")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in _SCHEMES or not url.startswith(f"{parts.scheme}://"):
        raise ValueError(
            "a store's URL looks like 'memory://', 'redis://host:6379/0', 'valkey://host:6379/0', "
            "'rediss://host:6379/0' (with TLS) or 'unix:///path'; this one begins otherwise"
        )
    if "@" in f"{parts.path}?{parts.query}#{parts.fragment}":
        raise ValueError(
            "user and password in the store's URL must be percent-encoded, as by "
            "urllib.parse.quote(password, safe='')"
        )
    return parts


def _database(in_query: str | None, in_path: str) -> int:
    if in_query is not None and in_path:
        raise ValueError("the store's URL gives the database twice: in its path and as db=")
    database = in_query or in_path or "0"
    if not database.isdecimal() or int(database) > _MAX_DATABASE:
        raise ValueError("the database in the store's URL must be a number, as in redis://host:6379/0")
    return int(database)


def _port(parts: urllib.parse.SplitResult) -> int:
    try:
        return parts.port or 6379
    except ValueError:
        raise ValueError(
            "the port in the store's URL must be a number from 1 to 65535, and a password in it be "
            "percent-encoded"
        ) from None


def _described(address: dict[str, Any], has_tls: bool) -> str:
    if address["unix_path"]:
        return f"unix://{address['unix_path']}?db={address['database']}"
    host = f"[{address['host']}]" if ":" in address["host"] else address["host"]
    return f"{'rediss' if has_tls else 'redis'}://{host}:{address['port']}/{address['database']}"


_default_memory: list[MemoryStore] = []
_memory_by_clock: dict[tuple[int, int], tuple[object, MemoryStore]] = {}
_redis_by_url: dict[str, RedisStore] = {}


def as_store(store: str | Store, clock: Callable[[], float] | object | None = None) -> Store:
    """The store itself, or the process-wide one for a URL.

    ``"memory://"`` is one store for the whole process; with an injected clock one per clock object.
    Raises ValueError for a URL that is none, TypeError for anything else.
    """
    if isinstance(store, _core.Store):
        return store
    if not isinstance(store, str):
        raise TypeError(
            f"store must be a URL such as 'redis://localhost:6379/0' or a store, not {type(store).__name__}"
        )
    if store == "memory://":
        return _shared_memory() if clock is None else _memory_of(clock)
    if store not in _redis_by_url:
        _redis_by_url.setdefault(store, RedisStore(store))
    return _redis_by_url[store]


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
    """Hold a clock weakly and forget its store with it; one that cannot be held weakly stays."""
    try:
        forget = weakref.finalize(owner, _memory_by_clock.pop, key, None)
    except TypeError:
        return owner
    forget.atexit = False
    return forget
