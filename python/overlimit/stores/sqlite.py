"""The store in a file of SQLite, for the threads and processes of one host."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from overlimit._core import Step
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._options import timeout_us_given, timeout_us_of
from overlimit.errors import StoreConfigError
from overlimit.stores.fair_lock import FairLock
from overlimit.stores.redis_url import known_options
from overlimit.stores.values import ValueStore, Write

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS overlimit_counts "
    "(key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID"
)
_READ = "SELECT CAST(value AS BLOB) FROM overlimit_counts WHERE key = ?"
_WRITE = (
    "INSERT INTO overlimit_counts VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at"
)
_PAGE = (
    "SELECT key, CAST(value AS BLOB) FROM overlimit_counts WHERE key > ? AND key < ? ORDER BY key LIMIT 256"
)
_NEXT = "SELECT max(key) FROM (SELECT key FROM overlimit_counts WHERE key > ? ORDER BY key LIMIT ?)"
_SWEEP = "DELETE FROM overlimit_counts WHERE key > ? AND key <= ? AND expires_at < ?"

_WRITES_A_SWEEP = 32
_Execute: TypeAlias = Callable[..., sqlite3.Cursor]
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_POLL_MS = 8
"""For how long SQLite itself waits for a lock each time, in milliseconds: it looks at 1, 3 and 8."""


class SQLiteStore(ValueStore):
    """A store in a file of SQLite, which the threads and processes of this host share.

    Counts outlive a restart, and processes that are killed at any moment. What was counted since the file was
    last checkpointed, a thousand pages ago at most, may be lost when the power is cut.

    Parameters
    ----------
    path
        The file, which the first call makes in a directory that is there, on a disk of this host: SQLite
        cannot lock on network file systems. None: in memory, for tests of one process.
    timeout
        How long a call may take, in seconds, and so how long it waits for other processes that write.

    Notes
    -----
    It pickles by its arguments, if it has a path. Thread-safe; a forked child opens the file by itself.
    Raises ValueError or TypeError naming the argument; a file that cannot be used is a StoreConfigError at
    the call.
    """

    _example = "'limits.db'"

    @checks_arguments(synonyms={"file": "path", "filename": "path", "database": "path"})
    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout: float = 5.0) -> None:
        super().__init__()
        self.timeout = timeout_us_given(timeout) / 1e6
        self._path = None if path is None else _checked(path)
        self.is_shared = self._path is not None
        self._writer = _Line(self._open)
        self._reader = self._writer if self._path is None else _Line(self._open)
        self._writes = 0
        self._swept = ""
        self._state_key: Hashable = ("sqlite", self._path or id(self))
        _all_of_them.add(self)

    def transact(self, keys: Sequence[str], step: Step) -> None:
        """Read and write values in one transaction; see ``ValueStore``."""
        line = self._reader if step.reads_only else self._writer
        lock = line.lock
        if not (lock.take_now() or lock.take(step.time_left())):
            raise TimeoutError("other threads of this process kept SQLite busy")
        try:
            cursor = line.cursor or line.open()
            writes = step(_begun(cursor, keys, step))
            if writes is not None:
                self._write(cursor.execute, keys, writes)
            cursor.execute("COMMIT")
        except BaseException as error:
            if line.roll_back() and isinstance(error, sqlite3.Error):
                raise self.NotWritten(str(error)) from error
            raise
        finally:
            lock.give()

    def _write(self, execute: _Execute, keys: Sequence[str], writes: Sequence[Write | None]) -> None:
        now = time.time()
        for key, write in zip(keys, writes, strict=True):
            if write is not None:
                execute(_WRITE, (key, write.value, now + write.expires_in))
                self._writes += 1
        if self._writes >= _WRITES_A_SWEEP:
            self._sweep(execute, now)

    def _sweep(self, execute: _Execute, now: float) -> None:
        """Remove what has expired among the next keys, twice as many as were written, and so all in turn."""
        page, self._writes = 2 * self._writes, 0
        (last,) = execute(_NEXT, (self._swept, page)).fetchone()
        if last is not None:
            execute(_SWEEP, (self._swept, last, now))
        self._swept = last or ""

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that begin so, with their values."""
        last, end = prefix, prefix + "\x7f"
        while page := self._page(last, end):
            yield from page
            last = page[-1][0]

    def _page(self, last: str, end: str) -> list[tuple[str, bytes]]:
        if not self._reader.lock.take(self.timeout):
            raise TimeoutError("other threads of this process kept SQLite busy")
        try:
            return (self._reader.cursor or self._reader.open()).execute(_PAGE, (last, end)).fetchall()
        finally:
            self._reader.lock.give()

    def close(self) -> None:
        """Close the file; a later call opens it again. In memory, nothing is forgotten."""
        if self._path is not None:
            for line in (self._writer, self._reader):
                if line.lock.take(self.timeout):
                    line.close()
                    line.lock.give()

    def create_table(self) -> None:
        """Make the file and its table where there is none."""
        self.ping()

    @property
    def _missing(self) -> str | None:
        return None if self._path is None or os.path.exists(self._path) else self._path

    def _before_fork(self) -> None:
        """Close the file: SQLite's locks belong to a process, and a child believes that it has them."""
        for line in {self._writer, self._reader}:
            line.is_held = line.lock.take(self.timeout)
            if self._path is not None and line.is_held:
                line.close()

    def _after_fork(self, *, in_child: bool) -> None:
        for line in {self._writer, self._reader}:
            if not in_child and line.is_held:
                line.lock.give()
            if in_child:
                line.lock = FairLock()
                if not line.is_held:
                    line.abandon()

    def _open(self) -> sqlite3.Connection:
        try:
            return _opened(self._path or ":memory:", self.timeout)
        except sqlite3.Error as error:
            raise StoreConfigError(f"SQLite cannot use {self._path}: {error}") from error

    def is_same_as(self, other: ValueStore) -> bool:
        """Whether another store keeps its values in the same file."""
        return getattr(other, "_state_key", None) == self._state_key

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without options."""
        return "sqlite://" if self._path is None else f"sqlite:///{quote(self._path)}"

    def __repr__(self) -> str:
        return f"SQLiteStore({'' if self._path is None else repr(self._path)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError("a SQLiteStore in memory cannot be pickled: give it a path")
        return super().__reduce__()

    @classmethod
    def from_url(cls, url: str) -> SQLiteStore:
        """Return the store of ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or ``sqlite://``."""
        rest, _, query = url.strip().removeprefix("sqlite://").partition("?")
        options = known_options(query, ("timeout",))
        if rest and (not rest.startswith("/") or rest == "/"):
            raise ValueError(
                "a URL of SQLite has three slashes before a relative path and four before an absolute one, "
                f"as in 'sqlite:///limits.db' and 'sqlite:////var/lib/limits.db', not {short_repr(url)}"
            )
        timeout = timeout_us_of(options["timeout"]) / 1e6 if "timeout" in options else 5.0
        return cls(unquote(rest[1:]) or None, timeout=timeout)


class _Line:
    """A connection that is opened when it is first needed, and those who wait for it."""

    def __init__(self, opened: Callable[[], sqlite3.Connection]) -> None:
        self._opened = opened
        self.cursor: sqlite3.Cursor | None = None
        self.lock = FairLock()
        self.is_held = False

    def open(self) -> sqlite3.Cursor:
        self.cursor = self._opened().cursor()
        return self.cursor

    def roll_back(self) -> bool:
        """Undo the transaction that has failed, and return whether there was one."""
        if self.cursor is None or not self.cursor.connection.in_transaction:
            return False
        try:
            self.cursor.connection.rollback()
        except sqlite3.Error:
            self.close()
        return True

    def close(self) -> None:
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            cursor.connection.close()

    def abandon(self) -> None:
        """Leave the connection to the process that made it, and open another."""
        _abandoned.append(self.cursor)
        self.cursor = None


_abandoned: list[sqlite3.Cursor | None] = []
"""Connections of parents that forked in the middle of a transaction, which nobody may close."""


def _opened(path: str, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError("its file system has no shared memory for a write-ahead log")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
        connection.execute(f"PRAGMA busy_timeout = {_POLL_MS}")
    except BaseException:
        connection.close()
        raise
    return connection


def _begun(cursor: sqlite3.Cursor, keys: Sequence[str], step: Step) -> list[bytes | None]:
    """Begin a transaction and return the values of keys.

    SQLite's own waiting asks ever more seldom, so that whoever has waited longest is served last.
    """
    execute = cursor.execute
    while True:
        try:
            execute("BEGIN" if step.reads_only else "BEGIN IMMEDIATE")
            rows = [execute(_READ, (key,)).fetchone() for key in keys]
            return [row and row[0] for row in rows]
        except sqlite3.OperationalError as error:
            if cursor.connection.in_transaction:
                cursor.connection.rollback()
            if error.sqlite_errorcode & 0xFF not in _BUSY:
                raise
            if step.time_left() <= 0:
                raise TimeoutError("another process kept SQLite busy") from error


def _checked(path: str | os.PathLike[str]) -> str:
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, str):
        raise TypeError(f"path must be a str such as 'limits.db', not {short_repr(path)}")
    if not given or "\0" in given or given == ":memory:":
        raise ValueError(
            f"path must be that of a file, such as 'limits.db', not {given!r}: without one it is in memory"
        )
    if given.startswith("sqlite://"):
        raise ValueError(f"path is that of a file: a URL is for store=, as in store={given!r}")
    return os.path.abspath(given)


_all_of_them: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()


def _around_fork(name: str, **how: bool) -> Callable[[], None]:
    def hook() -> None:
        for store in list(_all_of_them):
            getattr(store, name)(**how)

    return hook


os.register_at_fork(
    before=_around_fork("_before_fork"),
    after_in_parent=_around_fork("_after_fork", in_child=False),
    after_in_child=_around_fork("_after_fork", in_child=True),
)
