"""The store in a table of PostgreSQL."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from zlib import crc32

from overlimit._core import Step
from overlimit._forks import PerProcess
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.optional import needed
from overlimit._messages.texts import short_repr
from overlimit._options import size_of, text_of, timeout_us_given, timeout_us_of, truth_of
from overlimit._steps import Steps, await_calls, run_calls
from overlimit.errors import StoreConfigError, StoreError
from overlimit.stores.redis_url import query_options
from overlimit.stores.values import ValueStore, Write

with needed("overlimit.stores.PostgreSQLStore needs psycopg 3: pip install 'overlimit[postgres]'", "psycopg"):
    import psycopg
from psycopg import conninfo, errors, pq
from psycopg.abc import PQGen

_DEFAULTS: dict[str, Any] = {
    "timeout": 5.0,
    "table": "overlimit_counts",
    "unlogged": False,
    "create": True,
    "max_connections": 10,
}
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
_TABLE_IS = "a name of small letters, digits and _, perhaps with its schema, such as 'limits.counts'"
_WRITES_A_SWEEP = 32
_REFUSED = (errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName, errors.InsufficientPrivilege)

_IN_TRANSACTION = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
_LOST = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
_TO_ROLL_BACK = 0.1
"""For how many seconds the answer to a ROLLBACK is awaited before the connection is closed instead."""
_READ = (
    "(text[]) AS SELECT key, value, date_part('epoch', clock_timestamp()) FROM (VALUES (1)) AS one "
    "LEFT JOIN (SELECT key, value FROM {table} WHERE key = ANY ($1)"
)
_INSERT = (
    "(text[], bytea[], float8[]) AS INSERT INTO {table} (key, value, expires_at) "
    "SELECT * FROM unnest($1, $2, $3) ON CONFLICT (key) DO"
)
_OF_MANY = {
    "read": f"{_READ}) AS held ON true",
    "hold": f"{_READ} ORDER BY key FOR UPDATE) AS held ON true",
    "insert": f"{_INSERT} NOTHING RETURNING key",
    "update": f"{_INSERT} UPDATE SET value = excluded.value, expires_at = excluded.expires_at",
}
_OF_ONE = {
    f"{name}_one": statement.replace("[]", "")
    .replace("ANY ($1)", "$1")
    .replace(" ORDER BY key", "")
    .replace("SELECT * FROM unnest($1, $2, $3)", "VALUES ($1, $2, $3)")
    for name, statement in _OF_MANY.items()
}
_UNPREPARED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What a pooler of transactions gets, whose connections are others each time."""
_SWEEP = """
WITH page AS MATERIALIZED (
  SELECT key, expires_at FROM {table} WHERE key > {last} ORDER BY key LIMIT {page}
), expired AS (
  SELECT key FROM {table} WHERE expires_at < date_part('epoch', clock_timestamp())
  AND key IN (SELECT key FROM page WHERE expires_at < date_part('epoch', clock_timestamp()))
  FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM {table} USING expired WHERE {table}.key = expired.key
)
SELECT max(key) FROM page
"""

RV = TypeVar("RV")
Rows: TypeAlias = list[tuple[Any, ...]]


class PostgreSQLStore(ValueStore):
    """A store in a table of PostgreSQL 12 or newer, for all processes that reach it.

    Parameters
    ----------
    url
        ``postgresql://[user[:password]@][host][:port][/database]``, with the options of libpq, such as
        ``sslmode``, and the keywords below as query options.
    timeout
        How long a call may take, in seconds.
    table
        The table, in lower case, perhaps with its schema: ``"limits.counts"``.
    unlogged
        Whether it is made as an unlogged table, which is faster, and which a crash of the server empties.
    create
        Whether the first call makes the table where there is none; ``overlimit stores init URL`` makes it,
        too.
    max_connections
        The most connections of a process, or of one of its event loops, at a time; at least 1.

    Notes
    -----
    The server's clock decides. Building a store connects to nothing, and never fails because a server is
    down. It pickles by its arguments. Thread-safe; a forked child opens connections of its own. Raises
    ValueError or TypeError naming the argument, and ModuleNotFoundError without psycopg.
    """

    _example = "'postgresql://user@localhost/database'"

    @checks_arguments(synonyms={"dsn": "url", "conninfo": "url", "max_size": "max_connections"})
    def __init__(
        self,
        url: str,
        *,
        timeout: float = 5.0,
        table: str = "overlimit_counts",
        unlogged: bool = False,
        create: bool = True,
        max_connections: int = 10,
    ) -> None:
        self._conninfo, in_url = _split(url)
        given: dict[str, Any] = {
            "timeout": timeout_us_given(timeout) / 1e6,
            "table": table,
            "unlogged": unlogged,
            "create": create,
            "max_connections": max_connections,
        } | in_url
        super().__init__()
        self.timeout = given["timeout"]
        self._given = given
        self._table = text_of("table", given["table"], _TABLE, "'overlimit_counts'", _TABLE_IS)
        self._unlogged = truth_of("unlogged", given["unlogged"])
        self._creates = truth_of("create", given["create"])
        self._most = size_of(given["max_connections"], "max_connections")
        if self._most < 1:
            raise ValueError(f"max_connections must be at least 1, not {self._most}")
        self._of_threads = PerProcess(partial(_Pool, self._conninfo, self._most))
        self._of_loops = PerProcess[weakref.WeakKeyDictionary[Any, _AsyncPool]](weakref.WeakKeyDictionary)
        self._statements = {
            name: each.format(table=self._table) for name, each in (_OF_MANY | _OF_ONE).items()
        }
        self._prefix = f"overlimit_{crc32(self._table.encode()):08x}_"
        self._prepares = True
        self._writes = 0
        self._swept = ""
        self._state_key: Hashable = ("postgresql", self.endpoint, self._table)

    def transact(self, keys: Sequence[str], step: Step) -> None:
        """Read and write values in one transaction; see ``ValueStore``."""
        run_calls(self._transaction(self._of_threads(), keys, step))

    async def transact_async(self, keys: Sequence[str], step: Step) -> None:
        """Do the same on an event loop of asyncio."""
        pools, loop = self._of_loops(), asyncio.get_running_loop()
        if loop not in pools:
            pools[loop] = _AsyncPool(self._conninfo, self._most)
        await await_calls(self._transaction(pools[loop], keys, step))

    def _transaction(self, pool: _Pool | _AsyncPool, keys: Sequence[str], step: Step) -> Steps[Any, None]:
        while True:
            talk = _Talk(pool, step.time_left)
            yield from talk.begin()
            try:
                if (yield from self._attempt(talk, keys, step)):
                    return
            except Exception as error:
                yield from talk.roll_back()
                talk.connection.is_prepared = False
                if isinstance(error, _UNPREPARED):
                    self._prepares = False
                elif isinstance(error, errors.UndefinedTable):
                    yield from self._make(talk)
                else:
                    raise
            finally:
                talk.end()

    def _attempt(self, talk: _Talk, keys: Sequence[str], step: Step) -> Steps[Any, bool]:
        """Decide in one transaction; return False if it has to be tried again, as nothing is written."""
        begin, name = ("", "read") if step.reads_only else ("BEGIN ISOLATION LEVEL READ COMMITTED; ", "hold")
        milliseconds = max(1, int(step.time_left() * 1000))
        read = self._call(name, [_quoted(key) for key in keys])
        rows = yield from talk.ask_first(
            f"{begin}{self._preparation(talk)}SET LOCAL statement_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}; {read}"
        )
        if rows is None:
            return False
        found: dict[str, bytes] = {key: value for key, value, _ in rows}
        now = rows[-1][2]  # the last row was locked last
        writes = step([found.get(key) for key in keys], now)
        if step.reads_only:
            return True
        written = {key: each for key, each in zip(keys, writes or (), strict=False) if each}
        absent = [key for key in keys if key not in found and key not in written] if written else []
        try:
            if not (yield from self._write(talk, written, found, absent, now)):
                return False
        except (psycopg.Error, TimeoutError) as error:
            if talk.is_lost:  # a commit may have arrived
                raise
            raise self.NotWritten(str(error)) from error
        yield from self._sweep(talk, len(written))
        return True

    def _write(
        self, talk: _Talk, written: dict[str, Write], found: dict[str, bytes], absent: list[str], now: float
    ) -> Steps[Any, bool]:
        """Write and commit; return False if one of the keys that were not there is there now.

        They cannot be locked, and it is enough to know in the end: who comes second tries again.
        """
        new = {key: each for key, each in written.items() if key not in found}
        held = {key: each for key, each in written.items() if key in found}
        if new:
            is_all = not (held or absent or len(new) > 1)
            insert = self._call("insert", *_columns(new, now))
            made = yield from (talk.ask(f"{insert}; COMMIT", -2) if is_all else talk.ask(insert))
            if is_all or len(made) < len(new):
                yield from talk.roll_back()
                return len(made) == len(new)
        if (
            absent
            and (yield from talk.ask(self._call("read", [_quoted(key) for key in absent])))[0][0] is not None
        ):
            yield from talk.roll_back()
            return False
        update = f"{self._call('update', *_columns(held, now))}; " if held else ""
        yield from talk.ask(f"{update}COMMIT", None)
        return True

    def _call(self, name: str, *columns: list[str]) -> str:
        """Return a call of a statement, by its name if the connection has prepared it."""
        if len(columns[0]) == 1:
            name, arguments = f"{name}_one", [each for (each,) in columns]
        else:
            arguments = [f"ARRAY[{', '.join(each)}]" for each in columns]
        if self._prepares:
            return f"EXECUTE {self._prefix}{name}({', '.join(arguments)})"
        types, _, statement = self._statements[name].partition(" AS ")
        for number, (each, kind) in enumerate(zip(arguments, types.strip("()").split(", "), strict=True), 1):
            statement = statement.replace(f"${number}", f"{each}::{kind}")
        return statement

    def _preparation(self, talk: _Talk) -> str:
        """Return what prepares the statements on a connection that is new."""
        if talk.connection.is_prepared or not self._prepares:
            return ""
        prepare = [f"PREPARE {self._prefix}{name}{each}; " for name, each in self._statements.items()]
        talk.connection.is_prepared = True
        return "".join(prepare)

    def _sweep(self, talk: _Talk, written: int) -> Steps[Any, None]:
        """Remove what has expired among the next keys, twice as many as were written, and so all in turn."""
        self._writes += written
        if self._writes >= _WRITES_A_SWEEP:
            page, self._writes = 2 * self._writes, 0
            with suppress(psycopg.Error, TimeoutError, StoreError):
                query = _SWEEP.format(table=self._table, last=_quoted(self._swept), page=page)
                ((last,),) = yield from talk.ask(query)
                self._swept = last or ""

    def _make(self, talk: _Talk) -> Steps[Any, None]:
        if not self._creates:
            raise StoreConfigError(f"there is no table {self._table}: `overlimit stores init URL` makes it")
        yield from talk.ask(self._creation, None)

    @property
    def _creation(self) -> str:
        """What makes the table, once, also if several processes want it at a time."""
        return (
            f"BEGIN; SELECT pg_advisory_xact_lock(hashtext('overlimit'), hashtext({_quoted(self._table)})); "
            f"CREATE {'UNLOGGED ' if self._unlogged else ''}TABLE IF NOT EXISTS {self._table} "
            '(key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, expires_at double precision NOT NULL) '
            "WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05); COMMIT"
        )

    def create_table(self) -> None:
        """Make the table where there is none."""
        self._ask(self._creation, None)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that begin so, with their values; none where there is no table."""
        last, end = prefix, _quoted(prefix + "\x7f")
        select = f"SELECT key, value FROM {self._table} WHERE key < {end} AND key >"
        with suppress(errors.UndefinedTable):
            while page := self._ask(f"{select} {_quoted(last)} ORDER BY key LIMIT 256"):
                yield from page
                last = page[-1][0]

    def is_same_as(self, other: ValueStore) -> bool:
        """Whether another store keeps its values in the same table."""
        return getattr(other, "_state_key", None) == self._state_key

    def close(self) -> None:
        """Close the connections of this process that nobody uses; a later call opens others."""
        self._of_threads().clear()
        for pool in self._of_loops().values():
            pool.clear()

    def _ask(self, query: str, wanted: int | None = -1) -> Rows:
        ends_at = time.monotonic() + self.timeout
        rows: Rows = run_calls(_asked(self._of_threads(), lambda: ends_at - time.monotonic(), query, wanted))
        return rows

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without credentials and options."""
        given = conninfo.conninfo_to_dict(self._conninfo)
        host, port = str(given.get("host", "localhost")), given.get("port", 5432)
        database = given.get("dbname", given.get("user", ""))
        if host.startswith("/"):
            return f"postgresql://:{port}/{database}?host={host}"
        return f"postgresql://{host}:{port}/{database}"

    def __repr__(self) -> str:
        unusual = [f"{name}={value!r}" for name, value in self._given.items() if value != _DEFAULTS[name]]
        return f"PostgreSQLStore({', '.join([repr(self.endpoint), *unusual])})"


class _Talk:
    """A connection, for as long as it takes to decide; what is waited for is done by threads or tasks."""

    def __init__(self, pool: _Pool | _AsyncPool, time_left: Callable[[], float]) -> None:
        self._pool = pool
        self._time_left = time_left

    def begin(self) -> Steps[Any, None]:
        """Take a connection, or open one."""
        left = max(0.0, self._time_left())
        if not (yield partial(self._pool.take_slot, left)):
            raise TimeoutError(f"all {self._pool.most} connections are in use")
        try:
            idle = self._pool.pop_idle()
            self._is_new = idle is None
            self.connection = (yield partial(self._pool.connect, left)) if idle is None else idle
        except BaseException:
            self._pool.slots.release()
            raise
        self.connection.ends_at = time.monotonic() + left

    def ask(self, query: str, wanted: int | None = -1) -> Steps[Any, Rows]:
        """Ask, and return the rows of one of the statements, by default of the last."""
        try:
            rows: Rows = yield partial(self.connection.ask, query, wanted)
            return rows
        except _REFUSED as error:
            raise StoreConfigError(str(error)) from error
        except errors.QueryCanceled as error:
            raise TimeoutError(str(error)) from error

    def ask_first(self, query: str, wanted: int | None = -1) -> Steps[Any, Rows | None]:
        """Ask; return None if the connection was lost while nobody used it, as when a server restarts."""
        try:
            return (yield from self.ask(query, wanted))
        except psycopg.OperationalError:
            if self._is_new or not self.connection.closed:
                raise
            self._pool.clear()
            return None

    @property
    def is_lost(self) -> bool:
        """Whether nobody knows what has become of the last question."""
        return self.connection.pgconn.transaction_status in _LOST

    def roll_back(self) -> Steps[Any, None]:
        """Undo what a living connection has not committed."""
        if self.connection.pgconn.transaction_status in _IN_TRANSACTION:
            ends_at, self.connection.ends_at = self.connection.ends_at, time.monotonic() + _TO_ROLL_BACK
            with suppress(psycopg.Error, TimeoutError):
                yield partial(self.connection.ask, "ROLLBACK", None)
            self.connection.ends_at = ends_at

    def end(self) -> None:
        """Give the connection back; one that is in the middle of something is closed, which undoes it."""
        if self.connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            self._pool.idle.append(self.connection)
        else:
            self.connection.pgconn.finish()
        self._pool.slots.release()


def _asked(pool: _Pool, time_left: Callable[[], float], query: str, wanted: int | None) -> Steps[Any, Rows]:
    while True:
        talk = _Talk(pool, time_left)
        yield from talk.begin()
        try:
            if (results := (yield from talk.ask_first(query, wanted))) is not None:
                return results
        finally:
            talk.end()


class _Pool:
    """The connections of a process.

    psycopg's own pool connects in the background: who asks a server that is down would wait until the end of
    its timeout to hear so, and a forked child would lack the threads that connect.
    """

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self.most = most
        self.idle: list[Any] = []
        self.slots: Any = threading.Semaphore(most)

    def take_slot(self, timeout: float) -> bool:
        return bool(self.slots.acquire(timeout=timeout))

    def connect(self, timeout: float) -> Any:
        return _Connection.connect(
            self._url, autocommit=True, connect_timeout=max(2, int(timeout)), client_encoding="utf8"
        )

    def pop_idle(self) -> Any:
        try:
            return self.idle.pop()
        except IndexError:
            return None

    def clear(self) -> None:
        while (connection := self.pop_idle()) is not None:
            connection.pgconn.finish()


class _AsyncPool(_Pool):
    """The connections of an event loop."""

    def __init__(self, url: str, most: int) -> None:
        super().__init__(url, most)
        self.slots = asyncio.Semaphore(most)

    async def take_slot(self, timeout: float) -> bool:  # type: ignore[override]
        try:
            return await asyncio.wait_for(self.slots.acquire(), timeout)
        except TimeoutError:
            return False

    async def connect(self, timeout: float) -> Any:
        seconds = max(2, int(timeout))
        return await _AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=seconds, client_encoding="utf8"
        )


class _Connection(psycopg.Connection[Any]):
    """A connection that waits for no answer longer than until its deadline, whatever the server does."""

    ends_at = math.inf
    is_prepared = False

    def wait(self, gen: PQGen[RV], *_: Any, **__: Any) -> RV:
        return super().wait(_bounded(gen, self.ends_at), interval=_interval(self.ends_at))

    def ask(self, query: str, wanted: int | None) -> Rows:
        cursor = self._cursor
        cursor.execute(query, prepare=False)
        return [] if wanted is None else cursor.set_result(wanted).fetchall()

    @cached_property
    def _cursor(self) -> psycopg.Cursor[Any]:
        return self.cursor()

    def __del__(self, *_: Any) -> None:
        """Close it without a warning, in the process that has opened it: libpq's own object does."""


class _AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same on an event loop."""

    ends_at = math.inf
    is_prepared = False

    async def wait(self, gen: PQGen[RV], *_: Any, **__: Any) -> RV:
        return await super().wait(_bounded(gen, self.ends_at), interval=_interval(self.ends_at))

    async def ask(self, query: str, wanted: int | None) -> Rows:
        cursor = self._cursor
        await cursor.execute(query, prepare=False)
        return [] if wanted is None else await (await cursor.set_result(wanted)).fetchall()

    @cached_property
    def _cursor(self) -> psycopg.AsyncCursor[Any]:
        return self.cursor()

    def __del__(self, *_: Any) -> None:
        """Close it without a warning, as the other."""


def _bounded(gen: PQGen[RV], ends_at: float) -> PQGen[RV]:
    """Wait for what ``gen`` waits for, until then; a waiter tells now and then that nothing came."""
    try:
        ready = yield next(gen)
        while ready or time.monotonic() < ends_at:
            ready = yield gen.send(ready)
    except StopIteration as end:
        result: RV = end.value
        return result
    raise TimeoutError("the server did not answer in time")


def _interval(ends_at: float) -> float:
    return min(0.1, max(0.001, ends_at - time.monotonic()))


def _columns(written: Mapping[str, Write], now: float) -> tuple[list[str], list[str], list[str]]:
    """Return keys, values, and when these expire, as literals."""
    return (
        [_quoted(key) for key in written],
        [f"E'\\\\x{each.value.hex()}'::bytea" for each in written.values()],
        [repr(now + each.expires_in) for each in written.values()],
    )


def _quoted(text: str) -> str:
    """Return a literal that means the same whatever ``standard_conforming_strings`` says."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _split(url: str) -> tuple[str, dict[str, Any]]:
    """Return the URL as libpq takes it, and the options that are not libpq's."""
    if not isinstance(url, str):
        raise TypeError(f"url must be a str such as 'postgresql://user@localhost/db', not {short_repr(url)}")
    base, _, query = url.strip().partition("?")
    if not base.startswith(("postgresql://", "postgres://")):
        raise ValueError(
            "the URL of PostgreSQL begins with postgresql://, as in 'postgresql://user@localhost/db'"
        )
    if base.count("@") > 1:
        raise ValueError(
            "user and password in the store's URL must be percent-encoded, as by "
            "urllib.parse.quote(password, safe='')"
        )
    options = query_options(query)
    own: dict[str, Any] = {name: options.pop(name) for name in _DEFAULTS if name in options}
    if "timeout" in own:
        own["timeout"] = timeout_us_of(own["timeout"]) / 1e6
    if "max_connections" in own and own["max_connections"].isdecimal():
        own["max_connections"] = int(own["max_connections"])
    for name in {"unlogged", "create"} & own.keys():
        own[name] = truth_of(name, own[name])
    rest = f"{base}?{urlencode(options, quote_via=quote)}" if options else base
    try:
        conninfo.conninfo_to_dict(rest)
    except psycopg.ProgrammingError as error:
        raise ValueError(f"libpq cannot read the store's URL: {str(error).strip()}") from None
    return rest, own
