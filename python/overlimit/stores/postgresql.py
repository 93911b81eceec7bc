"""The store in a table of PostgreSQL."""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode
from zlib import crc32

from overlimit._core import Step
from overlimit._forks import PerProcess
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.optional import needed
from overlimit._messages.texts import short_repr
from overlimit._options import size_of, text_of, timeout_us_given, timeout_us_of, truth_of
from overlimit._steps import Steps, await_calls, run_calls
from overlimit.errors import StoreConfigError, StoreError, StoreUnavailable
from overlimit.stores.fair_pool import FairPool, FairPoolOfLoop, until
from overlimit.stores.redis_url import query_options
from overlimit.stores.values import ValueStore, Write, store_failure

with needed("overlimit.stores.PostgreSQLStore needs psycopg 3: pip install 'overlimit[postgres]'", "psycopg"):
    import psycopg
from psycopg import conninfo, errors

from overlimit.stores.postgresql_lines import (
    Again,
    AsyncConnection,
    Connection,
    InDoubt,
    Line,
    Rows,
    repeated,
)

_DEFAULTS: dict[str, Any] = {
    "timeout": 5.0,
    "table": "overlimit_counts",
    "unlogged": False,
    "create": True,
    "max_connections": 10,
}
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
_NUMBER = re.compile(r"[0-9]{1,10}")
_MOST_CONNECTIONS = 262_143
"""The most that a server takes."""
_TABLE_IS = "a name of small letters, digits and _, perhaps with its schema, such as 'limits.counts'"
_WRITES_A_SWEEP = 32
_LONGEST_SWEEP = 0.5
"""In seconds: a decision that is made waits for it, as where the table is locked by now."""
_REFUSED = {
    errors.InsufficientPrivilege: (
        "run `overlimit stores init URL` as a role that may create tables, then "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {} to this role"
    ),
    errors.InvalidSchemaName: "create it, then run `overlimit stores init URL`",
    errors.ReadOnlySqlTransaction: "connect to the server that takes writes: this is a standby, or read-only",
    errors.UndefinedColumn: "{} is a table of something else: name another one by table=",
}
"""What servers refuse until somebody has done this for a table."""

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
_BEGIN = "ROLLBACK; BEGIN; "
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
        self._of_threads = PerProcess(lambda: FairPool(self._lines(Connection)))
        self._of_loops = PerProcess[weakref.WeakKeyDictionary[Any, FairPool[Line]]](weakref.WeakKeyDictionary)
        self._sql_table = ".".join(f'"{each}"' for each in self._table.split("."))
        self._statements = {
            name: each.format(table=self._sql_table) for name, each in (_OF_MANY | _OF_ONE).items()
        }
        self._prefix = f"overlimit_{crc32(self._table.encode()):08x}_"
        self._preparation = [f"PREPARE {self._prefix}{name}{each}" for name, each in self._statements.items()]
        self._prepares = True
        self._writes = 0
        self._swept = ""
        host, port, database, _ = self._where
        self._state_key: Hashable = ("postgresql", host, port or "5432", database, self._table)

    def transact(self, keys: Sequence[str], step: Step) -> None:
        """Read and write values in one transaction; see ``ValueStore``."""
        run_calls(self._transaction(self._of_threads(), keys, step))

    async def transact_async(self, keys: Sequence[str], step: Step) -> None:
        """Do the same on an event loop of asyncio."""
        lines, loop = self._of_loops(), asyncio.get_running_loop()
        if loop not in lines:
            self._close_those_of_closed_loops()
            lines[loop] = FairPoolOfLoop(self._lines(AsyncConnection))
        await await_calls(self._transaction(lines[loop], keys, step))

    def _lines(self, kind: type[Connection] | type[AsyncConnection]) -> list[Line]:
        return [Line(kind, self._conninfo) for _ in range(self._most)]

    def _close_those_of_closed_loops(self) -> None:
        """Close what loops have left open that are closed, and not collected yet."""
        of_loops = self._of_loops()
        for loop in [each() for each in of_loops.keyrefs()]:
            if loop is not None and loop.is_closed() and (lines := of_loops.pop(loop, None)):
                for line in lines.things:
                    line.close()

    def _transaction(self, lines: FairPool[Line], keys: Sequence[str], step: Step) -> Steps[Any, None]:
        try:
            yield from repeated(lines, step.time_left, partial(self._attempt, keys, step))
        except InDoubt as error:
            raise error.cause from error.cause.__cause__
        except StoreError:
            raise
        except tuple(_REFUSED) as error:
            raise self._refused(error) from error
        except (psycopg.Error, TimeoutError) as error:  # also of what was tried again
            raise self.NotWritten(str(error)) from error

    def _attempt(self, keys: Sequence[str], step: Step, line: Line) -> Steps[Any, None]:
        """Decide in one transaction; raise Again if nothing is written, and another may do."""
        begin, name = ("", "read") if step.reads_only else ("BEGIN ISOLATION LEVEL READ COMMITTED; ", "hold")
        milliseconds = line.milliseconds
        read = self._call(name, [_quoted(key) for key in keys])
        rows = yield from self._asked_first(
            line,
            f"{begin}SET LOCAL statement_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}; {read}",
        )
        found: dict[str, bytes] = {key: value for key, value, _ in rows}
        now = rows[-1][2]  # the last row was locked last
        writes = step([found.get(key) for key in keys], now)
        if step.reads_only:
            return
        written = {key: each for key, each in zip(keys, writes or (), strict=False) if each}
        absent = [key for key in keys if key not in found and key not in written] if written else []
        yield from self._write(line, written, found, absent, now)
        yield from self._sweep(line, len(written))

    def _asked_first(self, line: Line, query: str) -> Steps[Any, Rows]:
        """Ask for the first time in a transaction, in which tables and statements may turn out to be gone."""
        try:
            if self._prepares and not line.is_prepared:
                yield from line.prepare(self._preparation)
            return (yield from line.ask(query))
        except errors.UndefinedTable:
            if not self._creates:
                raise StoreConfigError(
                    f"there is no table {self._table}; run `overlimit stores init URL` to make it"
                ) from None
            yield from line.ask_alone(self._creation, None, begin=_BEGIN)
            raise Again from None
        except _UNPREPARED:
            self._prepares = False
            raise Again from None

    def _write(
        self, line: Line, written: dict[str, Write], found: dict[str, bytes], absent: list[str], now: float
    ) -> Steps[Any, None]:
        """Write and commit, unless one of the keys that were not there is there now.

        They cannot be locked, and it is enough to know in the end: who comes second tries again.
        """
        new = {key: each for key, each in written.items() if key not in found}
        held = {key: each for key, each in written.items() if key in found}
        if new and not (held or absent or len(new) > 1):
            if not (yield from line.commit(self._call("insert", *_columns(new, now)), -2)):
                raise Again
            return
        if new and len((yield from line.ask(self._call("insert", *_columns(new, now))))) < len(new):
            raise Again
        if absent and (yield from line.ask(self._call("read", [*map(_quoted, absent)])))[0][0] is not None:
            raise Again
        yield from line.commit(self._call("update", *_columns(held, now)) if held else "", None)

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

    def _sweep(self, line: Line, written: int) -> Steps[Any, None]:
        """Remove what has expired among the next keys, twice as many as were written, and so all in turn."""
        self._writes += written
        if self._writes >= _WRITES_A_SWEEP:
            page, self._writes = 2 * self._writes, 0
            with suppress(psycopg.Error, TimeoutError, StoreError, Again):
                query = _SWEEP.format(table=self._sql_table, last=_quoted(self._swept), page=page)
                ((last,),) = yield from line.ask_alone(query, within=_LONGEST_SWEEP)
                self._swept = last or ""

    @property
    def _creation(self) -> str:
        """What makes the table, once, also if several processes want it at a time."""
        return (
            f"SELECT pg_advisory_xact_lock(hashtext('overlimit'), hashtext({_quoted(self._table)})); "
            f"CREATE {'UNLOGGED ' if self._unlogged else ''}TABLE IF NOT EXISTS {self._sql_table} "
            '(key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, expires_at double precision NOT NULL) '
            "WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05); COMMIT"
        )

    def create_table(self) -> None:
        """Make the table where there is none."""
        self._ask("create_table", self._creation, None, begin=_BEGIN)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove these keys."""
        if keys:
            among = ", ".join(map(_quoted, keys))
            self._ask("delete", f"DELETE FROM {self._sql_table} WHERE key IN ({among})", None)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that begin so, with their values; none where there is no table."""
        begin, end = prefix, _quoted(prefix + "\x7f")
        select = f"SELECT key, value FROM {self._sql_table} WHERE key < {end} AND key >="
        while page := self._ask("scan", f"{select} {_quoted(begin)} ORDER BY key LIMIT 256"):
            yield from page
            begin = page[-1][0] + "\x01"

    def close(self) -> None:
        """Close the connections of this process that nobody uses; a later call opens others."""
        for lines in (self._of_threads(), *self._of_loops().values()):
            free: list[Line] = []
            try:
                while lines.take_now(free):
                    free[-1].close()
            finally:
                lines.free.extend(free)
                lines.tell()

    def _ask(self, method: str, query: str, wanted: int | None = -1, *, begin: str = "") -> Rows:
        def ask(line: Line) -> Steps[Any, Rows]:
            return line.ask_alone(query, wanted, begin=begin)

        try:
            return run_calls(repeated(self._of_threads(), until(self.timeout), ask))
        except errors.UndefinedTable:
            return []
        except tuple(_REFUSED) as error:
            raise self._refused(error) from error
        except (psycopg.Error, TimeoutError) as error:
            raise store_failure(self, error, has_written=False, method=method) from error

    def _refused(self, error: psycopg.Error) -> StoreError:
        """Return what the server says, and what to do."""
        to_do = next(text for kind, text in _REFUSED.items() if isinstance(error, kind))
        kind = StoreUnavailable if isinstance(error, errors.ReadOnlySqlTransaction) else StoreConfigError
        return kind(f"{error.diag.message_primary}; {to_do.format(self._table)}")

    @property
    def _missing(self) -> str | None:
        ((found,),) = self._ask("ping", f"SELECT to_regclass({_quoted(self._sql_table)})")
        return None if found else f"table {self._table}"

    @property
    def _where(self) -> tuple[str, str, str, str]:
        """The host or the directory of its socket, the port, the database and the role; "" if not given."""
        given = conninfo.conninfo_to_dict(self._conninfo)
        host, port, role = (str(given.get(name) or "") for name in ("host", "port", "user"))
        return host or "localhost", port, str(given.get("dbname") or role), role

    @property
    def endpoint(self) -> str:
        """Where it is, and as which role, as a URL without password and options."""
        host, port, database, role = self._where
        at, to = f"{quote(role, safe='')}@" if role else "", f":{port}" if port else ""
        if host.startswith("/"):
            return f"postgresql://{at}{to}/{database}?host={host}"
        return f"postgresql://{at}{_bracketed(host)}{to}/{database}"

    def __repr__(self) -> str:
        unusual = [f"{name}={value!r}" for name, value in self._given.items() if value != _DEFAULTS[name]]
        return f"PostgreSQLStore({', '.join([repr(self.endpoint), *unusual])})"


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
    if "max_connections" in own:
        own["max_connections"] = _number("max_connections", own["max_connections"], _MOST_CONNECTIONS)
    for name in {"unlogged", "create"} & own.keys():
        own[name] = truth_of(name, own[name])
    rest = f"{base}?{urlencode(options, quote_via=quote)}" if options else base
    try:
        ports = str(conninfo.conninfo_to_dict(rest).get("port", ""))
    except psycopg.ProgrammingError as error:
        raise ValueError(f"libpq cannot read the store's URL: {str(error).strip()}") from None
    for port in filter(None, ports.split(",")):
        _number("a port in the store's URL", port, 65535)
    return rest, own


def _number(name: str, text: str, most: int) -> int:
    """Return a number in the URL; raise ValueError if it is none, or none from 1 to so many."""
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most}, not {short_repr(text)}")
    return int(text)


def _bracketed(hosts: str) -> str:
    """Return hosts as a URL has them, where addresses of IPv6 are in brackets."""
    return ",".join(f"[{each}]" if ":" in each else each for each in hosts.split(","))
