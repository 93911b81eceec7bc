"""Storage URLs as the ``limits`` package takes them: translated for our stores, and kept out of errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

from overlimit._messages.caller import warn_caller
from overlimit._options import truth_of
from overlimit.stores.redis_url import query_options
from overlimit.stores.sentinels import SENTINEL_DEFAULTS
from overlimit.stores.tls import CERT_REQS, TLS_DEFAULTS

P = ParamSpec("P")
R = TypeVar("R")

_SCHEMES = {"redis+unix": "unix", "valkey+unix": "unix"}
_WITH_TLS = {"redis": "rediss", "valkey": "valkeys"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ELSEWHERE = ("memcached", "mongodb", "mongodb+srv", "etcd")
_DATABASES = ("sqlite", "postgresql", "postgres")
_DEFAULT_TIMEOUT = 0.1

_HIDDEN = "***"
# Up to the last "@", since a password that is not percent-encoded may hold anything.
_USER_OF_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://).*@", re.DOTALL)
_USER_OF_ADDRESS = re.compile(r"[^\s'\"/]*:[^\s'\"/]*@")
_IN_QUERY = re.compile(r"((?:password|username)=)[^&\s'\"]*", re.IGNORECASE)

_KNOWLEDGE = {"lease", "lease_in", "max_stale", "remember"}
_OPTIONS = {"timeout", "prefix", "hash_tag", "hash_identifiers", "client_name"}
_OWN = frozenset({*_OPTIONS, *_KNOWLEDGE, *TLS_DEFAULTS, *SENTINEL_DEFAULTS})
_OF_SHARED_MEMORY = frozenset({"max_bytes", "max_keys", "mode", "timeout"})
_TRANSLATED = {"username", "password", "db", "ssl", "service_name", "key_prefix"}
_TRANSLATED |= {"socket_timeout", "socket_connect_timeout"}


def store_url(uri: str, options: Mapping[str, Any] | None = None) -> str:
    """Return the URL of the store that a storage URL and its options mean; it may hold a password.

    The options are those of the store, and those that docs/guides/migrating.md translates; they may also be
    in the query of the URL, which takes precedence. They have no effect on ``memory://``.

    An option without effect is named in a warning. Raises ValueError for an unknown kind of store,
    for a ``connection_pool`` and for a wrong value; no message repeats a URL or a password.
    """
    if not all(map(_is_unicode, (uri, *(options or {}).values()))):
        raise ValueError("a storage URL and its options must be Unicode: one has a lone surrogate")
    place = _Place.read(uri)
    if place.scheme in _ELSEWHERE:
        raise ValueError(
            f"there is no store for {place.scheme}://; use redis://, valkey://, postgresql://, sqlite:///, "
            "shm:// or memory://"
        )
    if place.scheme == "memory":
        return "memory://"
    if place.scheme == "shm":
        return _shared_memory_url(place, options or {})
    if place.scheme in _DATABASES:
        query = {name: _written(name, value) for name, value in _given(options or {}).items()}
        return str(place._replace(query=urlencode(query | query_options(place.query), quote_via=quote)))
    if place.is_torn:
        return str(place)
    given = _given(options or {})
    if place.has_database:
        given.pop("db", None)
    given |= query_options(place.query)
    return str(place.completed(given)._replace(query=_query(place, given)))


def _is_unicode(value: object) -> bool:
    return not (isinstance(value, str) and _SURROGATE.search(value))


class _Place(NamedTuple):
    scheme: str
    authority: str
    path: str
    query: str

    @classmethod
    def read(cls, uri: str) -> _Place:
        scheme, separator, rest = uri.strip().partition("://")
        if not separator:
            raise ValueError(
                "a storage URL begins with a scheme, and this one has none: write redis://localhost:6379/0, "
                "postgresql://localhost/mydb, sqlite:///limits.db for a file, shm://myapp for memory that "
                "the processes of this host share, or memory:// for that of this process"
            )
        scheme = scheme.lower()
        if scheme.startswith("async+"):
            raise ValueError(
                "a storage URL with async+ is for asyncio: leave async+ out, as in memory:// or "
                "redis://localhost:6379/0"
            )
        if "@" not in rest.partition("#")[2]:
            rest = rest.partition("#")[0]
        before, _, query = rest.partition("?")
        authority, slash, path = before.partition("/")
        return cls(_SCHEMES.get(scheme, scheme), authority, slash + path, query)

    @property
    def is_torn(self) -> bool:
        """Whether a password without percent-encoding was split; ``RedisStore`` raises an error about it."""
        return "@" in self.path or "@" in self.query

    @property
    def has_database(self) -> bool:
        """Whether the path names a database, which for sentinels comes after the service."""
        if self.scheme == "unix":
            return False
        parts = self.path.strip("/").split("/", 1)
        return bool(parts[1:] if self.scheme.endswith("+sentinel") else parts[0])

    def completed(self, options: Mapping[str, Any]) -> _Place:
        """Add what options say of the place and the URL does not."""
        credentials, _, hosts = self.authority.rpartition("@")
        username, _, password = credentials.partition(":")
        username = username or quote(str(options.get("username", "")), safe="")
        password = password or quote(str(options.get("password", "")), safe="")
        known = f"{username}:{password}@" if username or password else ""
        return self._replace(
            scheme=_secured(self.scheme) if truth_of("ssl", options.get("ssl", False)) else self.scheme,
            authority=known + hosts,
            path=self.path if self.path.strip("/") else f"/{options.get('service_name', '')}".rstrip("/"),
        )

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.authority}{self.path}{query}"


def _shared_memory_url(place: _Place, options: Mapping[str, Any]) -> str:
    given = _given(options) | query_options(place.query)
    if others := sorted(set(given) - _OF_SHARED_MEMORY):
        warn_caller(f"storage options that have no effect on shm://: {', '.join(others)}")
    query = {name: _written(name, value) for name, value in given.items() if name in _OF_SHARED_MEMORY}
    return str(place._replace(query=urlencode(query)))


def _secured(scheme: str) -> str:
    server, plus, layout = scheme.partition("+")
    return _WITH_TLS.get(server, server) + plus + layout


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is set; only to ``ssl_cert_reqs`` None is a value."""
    if "connection_pool" in options:
        raise ValueError("a connection_pool has no effect here: write where it connects to into the URL")
    return {name: value for name, value in options.items() if value is not None or name == "ssl_cert_reqs"}


def _query(place: _Place, options: Mapping[str, Any]) -> str:
    """Return the options that ``RedisStore`` reads from its URL; warn of those without effect."""
    others = sorted(set(options) - _OWN - _TRANSLATED)
    if others:
        warn_caller(f"storage options that have no effect here: {', '.join(others)}")
    query = {name: _written(name, value) for name, value in options.items() if name in _OWN}
    if "db" in options:
        query["db"] = str(options["db"])
    if "key_prefix" in options:
        query.setdefault("prefix", str(options["key_prefix"]))
    if "socket_timeout" in options or "socket_connect_timeout" in options:
        query.setdefault("timeout", str(_timeout(options)))
    return urlencode(query, quote_via=quote, safe="/")


def _timeout(options: Mapping[str, Any]) -> float:
    whole = _seconds("socket_timeout", options.get("socket_timeout", _DEFAULT_TIMEOUT))
    return min(whole, _seconds("socket_connect_timeout", options.get("socket_connect_timeout", whole)))


def _seconds(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number of seconds, not {value!r}") from None


def _written(name: str, value: Any) -> str:
    if name == "ssl_cert_reqs":
        return str(CERT_REQS.get(value, value))
    if name == "mode" and isinstance(value, int):
        return f"{value:o}"
    if isinstance(value, bool):
        return str(value).lower()
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def without_passwords(text: str) -> str:
    """Return the text with ``***`` in place of the user names and passwords of its URLs."""
    text = _USER_OF_URL.sub(rf"\1{_HIDDEN}@", text)
    return _IN_QUERY.sub(rf"\1{_HIDDEN}", _USER_OF_ADDRESS.sub(f"{_HIDDEN}@", text))


def hides_passwords(function: Callable[P, R]) -> Callable[P, R]:
    """Keep passwords out of the errors that the function raises."""

    @wraps(function)
    def hiding(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            error.args = tuple(without_passwords(arg) if isinstance(arg, str) else arg for arg in error.args)
            raise
        except OSError as error:  # about a file that is none
            error.filename = without_passwords(str(error.filename))
            raise

    return hiding
