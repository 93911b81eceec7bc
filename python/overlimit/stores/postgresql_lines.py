"""Lines to a server of PostgreSQL, on which threads or tasks ask within a time, whatever the server does."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo, errors, pq
from psycopg.abc import ConnDict, PQGen

from overlimit._steps import Steps
from overlimit.errors import StoreConfigError
from overlimit.stores.fair_pool import FairPool

_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
_TOO_LATE = (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout, errors.ConnectionTimeout)
_MISCONFIGURED = re.compile(
    "does not exist|authentication failed|no password supplied|pg_hba.conf|not permitted|permission denied"
)
"""What servers say who let nobody in, whatever is done but another configuration."""
_TO_DO = "Look at the user, the password and the database in the store's URL, and at who may log in there"

_IDLE = (pq.TransactionStatus.IDLE,)
_IN_TRANSACTION = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
_LOST = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
_GRACE = 0.1
"""For how many seconds more the answer to a COMMIT or a ROLLBACK is awaited: then nobody knows it."""

RV = TypeVar("RV")
Rows: TypeAlias = list[tuple[Any, ...]]


class Again(Exception):
    """Nothing is written, and it may succeed next time."""


class InDoubt(Exception):
    """A commit was sent, and nobody knows what has become of it."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


def repeated(
    lines: FairPool[Line], time_left: Callable[[], float], ask: Callable[[Line], Steps[Any, RV]]
) -> Steps[Any, RV]:
    """Ask on a line of these, until something is answered or the time is over."""
    while True:
        taken: list[Line] = []
        try:
            if not lines.take_now(taken):
                yield from lines.take(taken, time_left)
            return (yield from taken[0].used(time_left(), ask))
        except Again:
            continue
        finally:
            lines.free.extend(taken)
            lines.tell()


class Line:
    """A line to the server, connected when it is needed; what is waited for is done by threads or tasks.

    Its connection ends with it, as it does with its event loop: nothing of the connection refers back to it.

    psycopg's own pool connects in the background: who asks a server that is down would wait until the end of
    its timeout to hear so, and a forked child would lack the threads that connect.
    """

    def __init__(self, kind: type[Connection] | type[AsyncConnection], url: str) -> None:
        self._kind = kind
        self._url = url
        self._connection: Any = None
        self._cursor: Any = None
        self.is_prepared = False

    def used(self, left: float, ask: Callable[[Line], Steps[Any, RV]]) -> Steps[Any, RV]:
        """Ask in a transaction that is undone if it fails; within so many seconds."""
        if left <= 0:
            raise TimeoutError("others were there first until the time was over")
        try:
            yield from self._begin(time.monotonic() + left)
            return (yield from ask(self))
        except Exception:
            yield from self._roll_back()
            raise
        finally:
            if not self._is(_IDLE):  # the server undoes it
                self.close()

    def _begin(self, ends_at: float) -> Steps[Any, None]:
        if not self._is(_IDLE):
            self.close()
        self._is_new = self._connection is None
        try:
            if self._is_new:
                self._connection = yield from self._connected(ends_at)
                self._cursor = self._connection.cursor()
        except errors.ConnectionTimeout as error:
            raise TimeoutError(str(error)) from error
        except psycopg.OperationalError as error:
            text = " ".join(str(error).split())
            if _MISCONFIGURED.search(text):
                raise StoreConfigError(f"{text}. {_TO_DO}") from error
            raise
        self._connection.ends_at = ends_at

    def _connected(self, ends_at: float) -> Steps[Any, Any]:
        """Connect to the first that lets us in of the addresses of all hosts, which share the time."""
        failed: list[psycopg.OperationalError] = []
        attempts: list[ConnDict] = yield partial(self._kind.attempts, self._url)
        for number, attempt in enumerate(attempts):
            _to_connect.set((ends_at - time.monotonic()) / (len(attempts) - number))
            try:
                return (
                    yield partial(self._kind.connect, conninfo.make_conninfo("", **attempt), autocommit=True)
                )
            except psycopg.OperationalError as error:
                failed.append(error)
        raise type(failed[-1])("; ".join(map(str, failed)))

    @property
    def milliseconds(self) -> int:
        """For how long the server may still work on what it is asked; at least 1."""
        return max(1, int((self._connection.ends_at - time.monotonic()) * 1000))

    def ask(self, query: str, wanted: int | None = -1) -> Steps[Any, Rows]:
        """Ask, and return the rows of one of the statements, by default of the last.

        Raises Again if it may succeed next time, as where the connection had been open before this call and
        was lost since, mostly while nobody used it, as when a server restarts, or leads to one that takes no
        writes.
        """
        try:
            return (yield from self._ask(query, wanted))
        except psycopg.OperationalError as error:
            if self._is_new or not self._connection.closed:
                raise
            raise Again from error
        except errors.ReadOnlySqlTransaction as error:
            self.close()  # a new one may lead to a server that takes writes by now
            if self._is_new:
                raise
            raise Again from error

    def ask_alone(
        self, query: str, wanted: int | None = -1, *, begin: str = "", within: float = math.inf
    ) -> Steps[Any, Rows]:
        """Ask in a transaction of its own, which the server gives up, too, once the time is over."""
        self._connection.ends_at = min(self._connection.ends_at, time.monotonic() + within)
        limit = f"SET LOCAL statement_timeout = {self.milliseconds}"
        return (yield from self.ask(f"{begin}{limit}; {query}", wanted))

    def prepare(self, statements: Sequence[str]) -> Steps[Any, None]:
        """Prepare statements, once for each connection."""
        try:
            yield from self.ask_alone("; ".join(statements), None)
        except TimeoutError:
            self.close()  # it may have some of them
            raise
        self.is_prepared = True

    def commit(self, query: str, wanted: int | None) -> Steps[Any, Rows]:
        """Ask and commit, and return the rows of one of the statements."""
        self._connection.ends_at += _GRACE
        try:
            return (yield from self._ask(f"{query}; COMMIT", wanted))
        except (psycopg.Error, TimeoutError) as error:
            ended_before = isinstance(error.__cause__, errors.IdleInTransactionSessionTimeout)
            if self._is(_LOST) and not ended_before:
                raise InDoubt(error) from error
            raise

    def _ask(self, query: str, wanted: int | None) -> Steps[Any, Rows]:
        try:
            rows: Rows = yield partial(self._connection.ask, self._cursor, query, wanted)
            return rows
        except _CONFLICTS as error:
            raise Again from error
        except _TOO_LATE as error:
            raise TimeoutError(str(error)) from error

    def _roll_back(self) -> Steps[Any, None]:
        if self._is(_IN_TRANSACTION):
            self._connection.ends_at = time.monotonic() + _GRACE
            with suppress(psycopg.Error):
                yield partial(self._connection.ask, self._cursor, "ROLLBACK", None)

    def _is(self, status: tuple[pq.TransactionStatus, ...]) -> bool:
        return self._connection is not None and self._connection.pgconn.transaction_status in status

    def close(self) -> None:
        """Close it; it is connected anew when it is needed."""
        connection, self._connection, self._cursor, self.is_prepared = self._connection, None, None, False
        if connection is not None:
            connection.pgconn.finish()


_to_connect = ContextVar("_to_connect", default=math.inf)
"""For how many seconds an address may take a connection; psycopg has whole ones, from 2 on."""


class _UntilDeadline:
    """A connection that waits for no answer longer than until then, whatever the server does."""

    ends_at = math.inf

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Any:
        connecting = super()._connect_gen(*args, **kwargs)  # type: ignore[misc]
        ends_at = time.monotonic() + _to_connect.get()
        return _bounded(connecting, lambda: ends_at)

    def _try_cancel(self, **_: Any) -> Any:
        """Have the server stop, where a wait is interrupted; whoever did that does not wait for long."""
        self.ends_at = min(self.ends_at, time.monotonic() + _GRACE)
        return super()._try_cancel(timeout=_GRACE)  # type: ignore[misc]

    def _ends_at(self) -> float:
        return self.ends_at

    def __del__(self, *_: Any) -> None:
        """Close it without a warning, in the process that has opened it: libpq's own object does."""


class Connection(_UntilDeadline, psycopg.Connection[Any]):
    """One for threads."""

    @staticmethod
    def attempts(url: str) -> list[ConnDict]:
        """Return what is to be tried in turn: each address of each host."""
        return conninfo.conninfo_attempts(_encoded(url))

    def wait(self, gen: PQGen[RV], *_: Any, **__: Any) -> RV:
        """Wait for what psycopg waits for, until the time is over."""
        return super().wait(_bounded(gen, self._ends_at), interval=_interval(self.ends_at))

    def ask(self, cursor: psycopg.Cursor[Any], query: str, wanted: int | None) -> Rows:
        """Ask, and return the rows of one of the statements; none if none is wanted."""
        cursor.execute(query, prepare=False)
        return [] if wanted is None else cursor.set_result(wanted).fetchall()


class AsyncConnection(_UntilDeadline, psycopg.AsyncConnection[Any]):
    """One for an event loop."""

    @staticmethod
    async def attempts(url: str) -> list[ConnDict]:
        """Return what is to be tried in turn: each address of each host."""
        return await conninfo.conninfo_attempts_async(_encoded(url))

    async def wait(self, gen: PQGen[RV], *_: Any, **__: Any) -> RV:
        """Wait for what psycopg waits for, until the time is over."""
        return await super().wait(_bounded(gen, self._ends_at), interval=_interval(self.ends_at))

    async def ask(self, cursor: psycopg.AsyncCursor[Any], query: str, wanted: int | None) -> Rows:
        """Ask, and return the rows of one of the statements; none if none is wanted."""
        await cursor.execute(query, prepare=False)
        return [] if wanted is None else await (await cursor.set_result(wanted)).fetchall()


def _encoded(url: str) -> ConnDict:
    return conninfo.conninfo_to_dict(url, client_encoding="utf8")


def _bounded(gen: PQGen[RV], ends_at: Callable[[], float]) -> PQGen[RV]:
    """Wait for what ``gen`` waits for, until then; a waiter tells now and then that nothing came."""
    try:
        ready = yield next(gen)
        while ready or time.monotonic() < ends_at():
            ready = yield gen.send(ready)
    except StopIteration as end:
        result: RV = end.value
        return result
    raise errors.ConnectionTimeout("the server did not answer in time")


def _interval(ends_at: float) -> float:
    return min(0.1, max(0.001, ends_at - time.monotonic()))
