"""The URL of a Redis store."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from overlimit._messages.texts import nearest
from overlimit._options import is_utf8

Layout = Literal["single", "unix", "sentinel", "cluster"]

_URL = re.compile(
    r"(?P<scheme>[a-z+]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?(#.*)?", re.DOTALL
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"[a-z+]{1,20}")
_PLAIN_SCHEMES = ("redis", "valkey")
_TLS_SCHEMES = ("rediss", "valkeys")
_LAYOUTS: dict[str, Layout] = {"": "single", "sentinel": "sentinel", "cluster": "cluster"}
_PORTS: dict[Layout, int] = {"single": 6379, "unix": 6379, "sentinel": 26379, "cluster": 6379}
_HOST_PORT = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:,\s]+))(:(?P<port>[0-9]{1,5}))?")
_NUMBER = re.compile(r"[0-9]{1,10}")
_SERVICE = re.compile(r"[A-Za-z0-9._-]+")
_UNIX_SCHEMES = ("unix", *(f"{server}+unix" for server in _PLAIN_SCHEMES))
_CREDENTIALS = {"password", "passwd", "pass", "user", "username", "auth"}
_MAX_DATABASE = 2**31 - 1


TlsFields: TypeAlias = dict[str, str | bool]
"""How to talk TLS, as the core reads it; ``tls_options`` makes it."""


class Login(NamedTuple):
    """As whom to talk to servers, and whether by TLS."""

    username: str
    password: str
    tls: TlsFields | None
    client_name: str = ""


@dataclass(frozen=True)
class RedisUrl:
    """A store's URL, taken apart; its repr shows no password."""

    layout: Layout
    has_tls: bool
    hosts: tuple[tuple[str, int], ...]
    unix_path: str
    service: str
    database: int
    username: str = field(repr=False)
    password: str = field(repr=False)
    options: dict[str, str] = field(repr=False)

    @classmethod
    def read(cls, url: str, option_names: Collection[str]) -> RedisUrl:
        """Take a URL apart; raise ValueError or TypeError without any part that may belong to a password."""
        scheme, authority, path, query = _parts(url)
        layout, has_tls = _layout(scheme)
        options = known_options(query, ("db", *option_names))
        in_query = options.pop("db", None)
        service, in_path = _service(path) if layout == "sentinel" else ("", path.strip("/"))
        username, _, password = authority.rpartition("@")[0].partition(":")
        return cls(
            layout=layout,
            has_tls=has_tls,
            hosts=_hosts(authority.rpartition("@")[2], layout),
            unix_path=_unix_path(path) if layout == "unix" else "",
            service=service,
            database=_database(in_query, "" if layout == "unix" else in_path, layout),
            username=unquote(username),
            password=unquote(password),
            options=options,
        )

    def location(self, tls: TlsFields | None, sentinel: Login, client_name: str) -> dict[str, Any]:
        """Return the fields of this server, these sentinels or this cluster, as the core reads them.

        The sentinels, if there are any, are talked to by a login of their own.
        """
        login = Login(self.username, self.password, tls, client_name)
        return {
            "layout": self.layout,
            "hosts": self.hosts,
            "service": self.service,
            "server": self._endpoint(login, self.database),
            "sentinel": self._endpoint(sentinel, 0),
        }

    def _endpoint(self, login: Login, database: int) -> dict[str, Any]:
        host, port = self.hosts[0]
        return {
            "host": host,
            "port": port,
            "unix_path": self.unix_path,
            "database": database,
            **login._asdict(),
        }

    def __str__(self) -> str:
        if self.layout == "unix":
            return f"unix://{self.unix_path}?db={self.database}"
        scheme = "rediss" if self.has_tls else "redis"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        if self.layout == "cluster":
            return f"{scheme}+cluster://{hosts}"
        if self.layout == "sentinel":
            return f"{scheme}+sentinel://{hosts}/{self.service}/{self.database}"
        return f"{scheme}://{hosts}/{self.database}"


def _parts(url: str) -> tuple[str, str, str, str]:
    if not isinstance(url, str):
        raise TypeError(
            f"a store's URL must be a str such as 'redis://host:6379/0', not {type(url).__name__}"
        )
    url = url.strip()  # files of secrets end with a line break
    if (control := _CONTROL.search(url)) is not None:
        raise ValueError(f"the store's URL has {control[0]!r} within, which no URL can have: leave it out")
    parts = _URL.fullmatch(url) if is_utf8(url) else None
    if parts is None:
        raise ValueError(_not_a_url(url))
    scheme, authority, path, query = parts.group("scheme", "authority", "path", "query")
    if "@" in url[parts.start("path") :]:
        raise ValueError(
            "user and password in the store's URL must be percent-encoded, as by "
            "urllib.parse.quote(password, safe='')"
        )
    return scheme, authority, path, query or ""


def _not_a_url(text: str) -> str:
    """Say what to write instead of this string, which may hold a password and is not repeated."""
    if text in ("memory", "memory:", "memory:/"):
        return f"a store's URL begins with a scheme and two slashes: write 'memory://', not {text!r}"
    if "://" not in text and text.startswith(("/", "unix:")):
        return "the URL of a unix socket has three slashes: write 'unix:///run/redis.sock'"
    if "://" not in text:
        return (
            "a store's URL begins with a scheme such as redis://, and this one has none: write "
            "'redis://localhost:6379/0', 'postgresql://localhost/mydb', 'sqlite:///limits.db' for a file, "
            "'shm://myapp' for memory that the processes of this host share, or 'memory://' for that of this "
            "process"
        )
    return _not_a_scheme(text.partition("://")[0])


def _not_a_scheme(scheme: str) -> str:
    if scheme == "memory":
        return "the URL of the memory store is 'memory://', with nothing behind it"
    beginning = f"{scheme}://" if _SCHEME.fullmatch(scheme) else "another scheme"
    return (
        "a store's URL must be 'memory://' or look like 'shm://myapp' (memory shared by the processes of a "
        "host), 'sqlite:///limits.db', 'postgresql://host/database', 'redis://host:6379/0', "
        "'valkey://host:6379/0', "
        "'rediss://host:6379/0' (with TLS), 'redis+sentinel://host:26379,host:26379/service/0', "
        f"'redis+cluster://host:6379,host:6379' or 'unix:///path', and this one begins with {beginning}"
    )


def _layout(scheme: str) -> tuple[Layout, bool]:
    if scheme in _UNIX_SCHEMES:
        return "unix", False
    base, plus, name = scheme.partition("+")
    if base not in (*_PLAIN_SCHEMES, *_TLS_SCHEMES) or name not in _LAYOUTS or (plus and not name):
        raise ValueError(_not_a_scheme(scheme))
    return _LAYOUTS[name], base in _TLS_SCHEMES


def query_options(query: str) -> dict[str, str]:
    """Return the options in the query of a store's URL; an empty ``db=`` is left out."""
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ValueError("the query of the store's URL gives an option twice: leave one of them out")
    if not options.get("db"):
        options.pop("db", None)
    return options


def without_option(url: str, name: str) -> str:
    """Return the URL of a store without an option."""
    before, mark, query = url.partition("?")
    query, hash_mark, fragment = query.partition("#")
    kept = [pair for pair in query.split("&") if name not in dict(parse_qsl(pair, keep_blank_values=True))]
    return f"{before}{mark}{'&'.join(kept)}{hash_mark}{fragment}"


def known_options(query: str, known: Collection[str]) -> dict[str, str]:
    """Return the same; raise ValueError for a name that is not known."""
    options = query_options(query)
    for name in sorted(options.keys() - known):
        if name in _CREDENTIALS and "db" in known:
            raise ValueError(
                f"the store's URL has the unknown option {name!r}: write user:password@host, or "
                ":password@host without a user, each percent-encoded"
            )
        wanted = nearest(name, known)
        instead = f"write {wanted}=" if wanted else f"it takes {', '.join(sorted(known))}"
        raise ValueError(f"the store's URL has the unknown option {name!r}: {instead}")
    return options


def _hosts(text: str, layout: Layout) -> tuple[tuple[str, int], ...]:
    if layout == "unix" and text:
        raise ValueError("a unix:// URL has no host: write three slashes, as in unix:///run/redis.sock")
    if layout == "unix" or (layout == "single" and not text):
        return (("localhost", _PORTS[layout]),)
    hosts = text.split(",")
    if layout == "single" and len(hosts) > 1:
        raise ValueError(
            "several hosts in a store's URL are sentinels or nodes of a cluster: begin it with "
            "redis+sentinel:// or redis+cluster://"
        )
    return tuple(_host_port(each, layout) for each in hosts)


def _host_port(text: str, layout: Layout) -> tuple[str, int]:
    default = _PORTS[layout]
    if layout == "single" and text.startswith(":"):
        text = "localhost" + text
    parts = _HOST_PORT.fullmatch(text)
    port = default if parts is None or parts["port"] is None else int(parts["port"])
    if parts is None or not 0 < port < 1 << 16:
        raise ValueError(
            f"a host in the store's URL looks like host:{default} or [::1]:{default}, with a port from 1 to "
            "65535; a password before it must be percent-encoded"
        )
    return (parts["ipv6"] or parts["host"]).lower(), port


def _unix_path(path: str) -> str:
    if not path:
        raise ValueError("a unix:// URL names a path, as in unix:///run/redis.sock")
    return unquote(path)


def _service(path: str) -> tuple[str, str]:
    service, _, database = path.strip("/").partition("/")
    if _SERVICE.fullmatch(service) is None:
        raise ValueError(
            "the URL of sentinels names the service they watch, of A-Z a-z 0-9 . _ -, as in "
            "redis+sentinel://host:26379,host:26379/mymaster/0"
        )
    return service, database


def _database(in_query: str | None, in_path: str, layout: Layout) -> int:
    """Return the database; ``db=`` goes before the path, as in redis-py."""
    path_number = _database_number(in_path or "0")
    number = path_number if in_query is None else _database_number(in_query)
    if layout == "cluster" and number != 0:
        raise ValueError("a cluster has no database but 0: leave it out of the store's URL")
    return number


def _database_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > _MAX_DATABASE:
        raise ValueError(
            "the database in the store's URL must be a number from 0 to 2**31 - 1, as in "
            "redis://host:6379/0 or redis://host:6379?db=0"
        )
    return int(text)
