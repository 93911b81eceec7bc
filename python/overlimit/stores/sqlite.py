"""The store in a file of SQLite, for the threads and processes of one host."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from overlimit._core import Step
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._options import timeout_us_given, timeout_us_of
from overlimit._steps import run_calls
from overlimit.errors import StoreConfigError
from overlimit.stores.fair_pool import FairPool, until
from overlimit.stores.redis_url import known_options
from overlimit.stores.values import ValueStore, Write

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS overlimit_counts "
    "(key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID"
)
_FIND = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'overlimit_counts'"
_READ = "SELECT CAST(value AS BLOB) FROM overlimit_counts WHERE key = ?"
_WRITE = (
    "INSERT INTO overlimit_counts (key, value, expires_at) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at"
)
_PAGE = (
    "SELECT key, CAST(value AS BLOB) FROM overlimit_counts WHERE key >= ? AND key < ? ORDER BY key LIMIT 256"
)
_NEXT = "SELECT max(key) FROM (SELECT key FROM overlimit_counts WHERE key > ? ORDER BY key LIMIT ?)"
_SWEEP = "DELETE FROM overlimit_counts WHERE key > ? AND key <= ? AND expires_at < ?"
_DELETE = "DELETE FROM overlimit_counts WHERE key = ?"

_WRITES_A_SWEEP = 32
_LOOK = 1.0
"""After how many seconds it is seen that the file is another one now."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNDONE = (sqlite3.SQLITE_FULL,)
"""What has SQLite itself roll back, also where COMMIT is what fails."""
_TO_WRITE = "; this user has to be able to write the file, and others beside it in its directory"
_TO_DO = {
    sqlite3.SQLITE_NOTADB: "; it is of something else: give the store another path",
    sqlite3.SQLITE_CORRUPT: "; restore a copy, or move it away: counts begin anew in a new file",
    sqlite3.SQLITE_READONLY: _TO_WRITE,
    sqlite3.SQLITE_CANTOPEN: _TO_WRITE,
    sqlite3.SQLITE_PERM: _TO_WRITE,
}
_POLL = 0.008
"""For how many seconds SQLite itself waits for a lock each time: it looks at 1, 3 and 8 milliseconds."""

R = TypeVar("R")
_Execute: TypeAlias = Callable[..., sqlite3.Cursor]

_log = logging.getLogger("overlimit")


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
    It pickles by its arguments, if it has a path, and keeps its file. Thread-safe; a forked child opens the
    file by itself. Raises ValueError or TypeError naming the argument; a file that cannot be used is a
    StoreConfigError at the call.
    """

    _example = "'limits.db'"

    @checks_arguments(synonyms={"file": "path", "filename": "path", "database": "path"})
    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout: float = 5.0) -> None:
        super().__init__()
        self.timeout = timeout_us_given(timeout) / 1e6
        self._writes = 0
        self._swept = ""
        self._keep_in(None if path is None else _checked(path))
        _all_of_them.add(self)

    def _keep_in(self, path: str | None) -> None:
        self._path = path
        self.is_shared = path is not None
        self._writer = FairPool([_Connection(path)])
        self._reader = self._writer if path is None else FairPool([_Connection(path)])
        where = id(self) if path is None else os.path.realpath(path)
        self._state_key: Hashable = ("sqlite", where)

    def transact(self, keys: Sequence[str], step: Step) -> None:
        """Read and write values in one transaction; see ``ValueStore``."""
        pool = self._reader if step.reads_only else self._writer
        pool.using(step.time_left, partial(self._decide, keys, step))

    def _decide(self, keys: Sequence[str], step: Step, connection: _Connection) -> None:
        try:
            begin = "BEGIN" if step.reads_only else "BEGIN IMMEDIATE"
            writes = step(connection.tried(partial(_read, begin, keys), step.time_left))
            if writes is not None:
                self._write(connection.cursor.execute, keys, writes)
            connection.cursor.execute("COMMIT")
        except BaseException as error:
            is_undone = connection.roll_back() or _code(error) in _UNDONE
            if _code(error) == sqlite3.SQLITE_READONLY:
                connection.close()  # which stays so, even if the file becomes writable
                raise _unusable(self._path, error) from error
            if is_undone and isinstance(error, sqlite3.Error):
                raise self.NotWritten(str(error)) from error
            raise

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
        begin = prefix
        while page := self._use(self._reader, partial(_page, begin, prefix + "\x7f")):
            yield from page
            begin = page[-1][0] + "\x01"

    def delete(self, keys: Sequence[str]) -> None:
        """Remove these keys."""
        self._use(self._writer, lambda execute: [execute(_DELETE, (key,)) for key in keys])

    def _use(self, pool: FairPool[_Connection], ask: Callable[[_Execute], Any]) -> Any:
        left = until(self.timeout)
        return pool.using(left, lambda connection: connection.tried(ask, left))

    def close(self) -> None:
        """Close the file; a later call opens it again. In memory, nothing is forgotten."""
        for pool in (self._writer, self._reader):
            with suppress(TimeoutError):
                pool.using(until(self.timeout), _Connection.close)

    def _clear(self) -> None:
        if self._path is None:
            self._use(self._writer, lambda execute: execute("DELETE FROM overlimit_counts"))

    def create_table(self) -> None:
        """Make the file and its table where there is none."""
        self.ping()

    @property
    def _missing(self) -> str | None:
        if self._path is None:
            return None
        if not os.path.exists(self._path):
            return f"file {self._path}"
        return None if _has_table(self._path, self.timeout) else f"table overlimit_counts in {self._path}"

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without options."""
        return "sqlite://" if self._path is None else f"sqlite:///{quote(self._path)}"

    def __repr__(self) -> str:
        return f"SQLiteStore({'' if self._path is None else repr(self._path)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError("a SQLiteStore in memory cannot be pickled: give it a path")
        return *super().__reduce__(), self._path

    def __setstate__(self, path: str) -> None:
        """Keep counts in the file of the store that was pickled, in whatever directory this process is."""
        self._keep_in(path)

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


class _Connection:
    """A connection that is opened when it is first needed, and again when what it has opened is gone."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self.cursor: Any = None
        self._file: tuple[int, int] | None = None
        self._looks_at = math.inf

    def tried(self, ask: Callable[[_Execute], R], time_left: Callable[[], float]) -> R:
        """Ask, as often as others keep the file locked, and once more if it or its table has gone.

        SQLite's own waiting asks ever more seldom, so that whoever has waited longest is served last.
        """
        while True:
            is_new = self.cursor is None
            try:
                return ask(self.opened())
            except sqlite3.Error as error:
                self.roll_back()
                if _code(error) in _BUSY:
                    if time_left() <= 0:
                        raise TimeoutError("another process kept SQLite busy") from error
                    if self.cursor is None:  # which SQLite itself does not always wait for
                        time.sleep(_POLL)
                elif is_new or self._path is None:
                    raise _unusable(self._path, error) from error
                else:
                    self.close()

    def opened(self) -> _Execute:
        """Return what executes a statement."""
        if self.cursor is None or time.monotonic() > self._looks_at:
            self._open()
        execute: _Execute = self.cursor.execute
        return execute

    def _open(self) -> None:
        if self.cursor is not None and _file(self._path) != self._file:
            _log.warning(
                "%s was removed or replaced: counts begin anew in the file that is there", self._path
            )
            self.close()
        if self.cursor is None:
            self.cursor = _opened(self._path or ":memory:").cursor()
            self._file = _file(self._path)
        self._looks_at = math.inf if self._path is None else time.monotonic() + _LOOK

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
        """Close the file; memory stays."""
        if self._path is not None and self.cursor is not None:
            cursor, self.cursor = self.cursor, None
            cursor.connection.close()

    def leave_to_parent(self) -> None:
        """Open another: the parent forked in the middle of a transaction of this one."""
        _of_parents.append(self.cursor)
        self.cursor = None


_of_parents: list[Any] = []
"""What a child must not close."""


def _unusable(path: str | None, error: BaseException) -> StoreConfigError:
    """Return what is wrong with a file, and what to do."""
    folder = os.path.dirname(path or "")
    if folder and not os.path.isdir(folder):
        return StoreConfigError(f"SQLite cannot use {path}: there is no directory {folder}")
    is_of_others = "no such column" in str(error)
    to_do = _TO_DO.get(sqlite3.SQLITE_NOTADB if is_of_others else _code(error), "")
    return StoreConfigError(f"SQLite cannot use {path}: {error}{to_do}")


def _code(error: BaseException) -> int:
    """Return the code of SQLite without what it adds to it; 0 for another error."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _file(path: str | None) -> tuple[int, int] | None:
    """Return which file is there."""
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_POLL, isolation_level=None, check_same_thread=False)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError("its file system has no shared memory for a write-ahead log")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_table(path: str, timeout: float) -> bool:
    """Whether a file has the table, or cannot be looked into: then a call says why. Nothing is written."""
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", timeout=timeout, uri=True)) as connection:
            return connection.execute(_FIND).fetchone() is not None
    except sqlite3.Error:
        return True


def _read(begin: str, keys: Sequence[str], execute: _Execute) -> list[bytes | None]:
    """Begin a transaction and return the values of keys."""
    execute(begin)
    rows = [execute(_READ, (key,)).fetchone() for key in keys]
    return [row and row[0] for row in rows]


def _page(begin: str, end: str, execute: _Execute) -> list[tuple[str, bytes]]:
    return execute(_PAGE, (begin, end)).fetchall()


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
_Held: TypeAlias = list[tuple[FairPool[_Connection], list[_Connection]]]
_forking: dict[int, _Held] = {}
"""The connections that a thread which forks holds meanwhile, by thread."""


def _before_fork() -> None:
    """Close files: SQLite's locks belong to a process, and a child believes that it has them."""
    held = _forking[threading.get_ident()] = []
    for store in list(_all_of_them):
        for pool in {store._writer, store._reader}:
            taken: list[_Connection] = []
            held.append((pool, taken))
            with suppress(TimeoutError):
                run_calls(pool.take(taken, until(store.timeout)))
            for connection in taken:
                connection.close()


def _in_parent() -> None:
    for pool, taken in _forking.pop(threading.get_ident(), ()):
        pool.free.extend(taken)
        pool.tell()


def _in_child() -> None:
    held = _forking.pop(threading.get_ident(), [])
    _forking.clear()
    for pool, taken in held:
        for connection in {*pool.things} - {*taken}:
            connection.leave_to_parent()
        pool.begin_anew()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
