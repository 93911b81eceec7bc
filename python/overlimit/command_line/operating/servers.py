"""Connections to the servers of a store on Redis, to ask what no limiter asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from overlimit._options import truth_of
from overlimit.command_line.operating.places import Place
from overlimit.errors import StoreUnavailable
from overlimit.stores.redis import _OPTIONS
from overlimit.stores.redis_url import RedisUrl
from overlimit.stores.sentinels import SENTINEL_DEFAULTS
from overlimit.stores.tls import TLS_DEFAULTS

_TIMEOUT = 2.0


@dataclass(frozen=True)
class Server:
    """A server, and the slots that are its own in a cluster."""

    name: str
    client: Any  # of redis-py, whose commands have no types
    slots: tuple[tuple[int, int], ...] = ()

    def ask(self, *words: str | bytes | int) -> Any:
        """Send a command, and return the reply as it comes."""
        return self.client.execute_command(*words)

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The certificate that the server has shown; nothing without TLS, or if it is not verified."""
        pool = self.client.connection_pool
        connection = pool.get_connection()
        try:
            shown: Mapping[str, Any] = getattr(connection._sock, "getpeercert", dict)() or {}
        finally:
            pool.release(connection)
        return shown

    @property
    def is_node_of_cluster(self) -> bool:
        """Whether it is one, as HELLO says, which every user may ask."""
        told = self.ask("HELLO")
        return told[told.index(b"mode") + 1] == b"cluster" if b"mode" in told else False

    def now(self) -> int:
        """Return the server's time in microseconds."""
        seconds, microseconds = map(int, self.ask("TIME"))
        return seconds * 1_000_000 + microseconds


@dataclass(frozen=True)
class Master:
    """A server to which nothing is connected yet, and which may be down."""

    name: str
    slots: tuple[tuple[int, int], ...]
    connected: Callable[[], Server]


@contextmanager
def masters_of(place: Place) -> Iterator[list[Master]]:
    """Find the server of a store, or each master of its cluster; close in the end what was connected."""
    with ExitStack() as opened:
        yield list(_Connections(place, opened).masters())


@contextmanager
def server_of(place: Place, key: bytes) -> Iterator[Server]:
    """Connect to the server on which a key is, and to no other."""
    with masters_of(place) as masters:
        yield master_with(masters, key).connected()


def master_with(masters: list[Master], key: bytes) -> Master:
    """Return the one of a cluster that serves a key; raise StoreUnavailable if none does."""
    if len(masters) == 1 and not masters[0].slots:
        return masters[0]
    from redis.crc import key_slot

    slot = key_slot(key)
    for master in masters:
        if any(first <= slot <= last for first, last in master.slots):
            return master
    raise StoreUnavailable(f"no node of the cluster serves slot {slot}")


def _no_retry() -> Any:
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Retry(NoBackoff(), 0)


def _tls_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a URL as redis-py takes them."""
    given = {name: options.get(name, value) for name, value in TLS_DEFAULTS.items()}
    checks = truth_of("ssl_check_hostname", given["ssl_check_hostname"])
    return {"ssl": True, **given, "ssl_check_hostname": checks and given["ssl_cert_reqs"] != "none"}


class _Connections:
    def __init__(self, place: Place, opened: ExitStack) -> None:
        self._where = RedisUrl.read(place.url, _OPTIONS)
        self._opened = opened
        given = self._where.options
        self._tls = _tls_of(given) if self._where.has_tls else {}
        own = {name.removeprefix("sentinel_"): given[name] for name in SENTINEL_DEFAULTS if name in given}
        has_tls = truth_of("sentinel_ssl", own.get("ssl", self._where.has_tls))
        self._tls_of_sentinels = _tls_of({**given, **own}) if has_tls else {}

    def masters(self) -> Iterator[Master]:
        if self._where.layout == "cluster":
            yield from self._of_cluster()
        elif self._where.layout == "unix":
            yield Master(self._where.unix_path, (), self._local)
        elif self._where.layout == "sentinel":
            yield self._master(*self._announced())
        else:
            yield self._master(*self._where.hosts[0])

    def _master(self, host: str, port: int, slots: tuple[tuple[int, int], ...] = ()) -> Master:
        return Master(f"{host}:{port}", slots, partial(self._server, host, port, slots))

    def _local(self) -> Server:
        path = self._where.unix_path
        return Server(path, self._client(unix_socket_path=path))

    def _server(self, host: str, port: int, slots: tuple[tuple[int, int], ...] = ()) -> Server:
        return Server(f"{host}:{port}", self._client(host=host, port=port, **self._tls), slots)

    def _client(self, **where: Any) -> Any:
        import redis

        client = redis.Redis(
            **where,
            db=self._where.database,
            username=self._where.username or None,
            password=self._where.password or None,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            retry=_no_retry(),
            protocol=2,
        )
        client.response_callbacks.clear()
        self._opened.callback(client.close)
        # Or a database that is not there would look like an answer to each command.
        client.connection_pool.release(client.connection_pool.get_connection())
        return client

    def _announced(self) -> tuple[str, int]:
        """Return where the sentinels say that the master is."""
        from redis import sentinel

        make: Any = sentinel.Sentinel
        given = self._where.options
        options = {
            "socket_timeout": _TIMEOUT,
            "retry": _no_retry(),
            "username": given.get("sentinel_username"),
            "password": given.get("sentinel_password"),
            **self._tls_of_sentinels,
        }
        sentinels = make(self._where.hosts, sentinel_kwargs=options)
        for client in sentinels.sentinels:
            self._opened.callback(client.close)
        host, port = sentinels.discover_master(self._where.service)
        return str(host), int(port)

    def _of_cluster(self) -> Iterator[Master]:
        owned: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for first, last, (host, port, *_), *_ in self._slots():
            owned.setdefault((host.decode(), port), []).append((first, last))
        for (host, port), slots in sorted(owned.items()):
            yield self._master(host, port, tuple(slots))

    def _slots(self) -> list[Any]:
        """Return the slots as the first node says that answers."""
        from redis.exceptions import ConnectionError, TimeoutError

        for number, (host, port) in enumerate(self._where.hosts, 1):
            try:
                slots: list[Any] = self._server(host, port).ask("CLUSTER", "SLOTS")
                return slots
            except (ConnectionError, TimeoutError):
                if number == len(self._where.hosts):
                    raise
        return []
