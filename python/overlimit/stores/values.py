"""A store of one's own: whatever keeps bytes under keys, and tells whether somebody else was there first."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

from overlimit import _core
from overlimit._core import Step
from overlimit.errors import _STORE_ERRORS, StoreConfigError, StoreError, StoreTimeout, StoreUnavailable
from overlimit.stores.kinds import StoreKind, state_key

_KEY = re.compile(r"[!-~]{1,250}")
_MOST_SCANNED = 4_000_000
_LONGEST_SCAN = 60.0
"""In seconds, unless a hundred times the time of a call is more."""


class Write(NamedTuple):
    """What is to be kept under a key."""

    value: bytes
    expires_in: float
    """In how many seconds it may be removed, and counts as if it were; to keep it longer does no harm."""


class NotWritten(Exception):
    """Raised by ``transact`` when it is certain that nothing was written, mostly ``from`` what went wrong."""


class ValueStore(_core.ValueStore, StoreKind):
    """A store of one's own: a subclass says how values are read and written, and the engine decides.

    One method must be written, ``transact``. All others have defaults.

    Attributes
    ----------
    timeout : float
        The time of one call in seconds, by default 5.0.
    max_keys : int
        How many keys one transaction takes, by default 256. ``hit_many`` is split by it; a single call about
        more raises StoreConfigError.
    waits : bool
        Whether a call may have to wait for somebody, by default True: an ``AsyncLimiter`` then calls it in a
        thread, and ``on_error="local"`` means something.
    is_shared : bool
        Whether other processes count in it too, by default True: policies then need names.

    Notes
    -----
    A subclass with an ``__init__`` calls ``super().__init__()`` in it. A store pickles by its arguments if
    these pickle, and a copy is the store itself. Thread-safe if the subclass is.
    """

    timeout: float = 5.0
    max_keys: int = 256
    NotWritten: ClassVar[type[NotWritten]] = NotWritten
    _keeps_values = True
    _example = "..."
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Keep the arguments, by which it pickles."""
        if cls.transact is ValueStore.transact:
            raise TypeError(
                f"{cls.__name__} needs a method transact(self, keys, step): it has none of its own"
            )
        store = super().__new__(cls)
        store._arguments = (args, kwargs)
        return store

    def __init__(self) -> None:
        super().__init__(self)
        _all_of_them.add(self)

    def transact(self, keys: Sequence[str], step: Step) -> object:
        """Read the values of these keys, call ``step`` with them, and write what it returns, all or nothing.

        Between what ``step`` was given and what is written nobody else may write these keys: by locks in the
        order of the keys, by one writer at a time, or by comparing and swapping in a loop, which calls
        ``step`` again with the newer values. What it returns counts for nothing.

        Parameters
        ----------
        keys : sequence of str
            Sorted, each once, printable ASCII without spaces of at most 250 characters.
        step : Step
            ``step(values, now=None)`` takes a value for each key, bytes or None, and returns what to write:
            None for nothing, or a list with a ``Write`` for each key, or None for one that stays. ``now`` is
            the time at which the values are held, in seconds since the Unix epoch as any number; without
            it, this process's clock. It never waits. ``step.time_left()`` says for how many more seconds it
            may be called: then it raises StoreTimeout, and nothing is charged. ``step.reads_only`` says that
            it will write nothing.

        Raises
        ------
        Exception
            Anything: callers get a StoreTimeout for a TimeoutError, and StoreUnavailable else, with that as
            the cause. It says that something may have been charged (``maybe_charged``) if ``step`` had
            something to write, unless this is ``NotWritten``. A StoreError is raised as it is.
        """
        raise NotImplementedError

    def scan(self, prefix: str) -> Iterable[tuple[str, bytes]]:
        """Return each key that begins with the prefix, taken literally, and its value: for ``reset_all``."""
        raise StoreConfigError(
            f"{type(self).__name__} cannot list its keys, as this needs: give it a method scan(self, prefix)"
        )

    def delete(self, keys: Sequence[str]) -> None:
        """Remove these keys, whose values have expired, as a write of theirs that others notice."""
        raise StoreConfigError(
            f"{type(self).__name__} cannot remove keys, as this needs: give it a method delete(self, keys)"
        )

    def ping(self, timeout: float | None = None) -> float:
        """Read a key that is nobody's, and return the seconds it took; see `Store.ping`."""
        return self._ping(timeout)

    def close(self) -> None:
        """Close what this process has open; a later call opens it again. By default there is nothing."""

    def is_same_as(self, other: ValueStore) -> bool:
        """Whether another store keeps its values in the same place, so that one call may concern both."""
        return state_key(self) == state_key(other)

    def after_fork(self) -> None:
        """Begin anew in a forked child, which must not use the connections of its parent."""

    def _clear(self) -> None:
        """Forget everything that no other process can see, for tests; by default there is nothing such."""

    def __repr__(self) -> str:
        args, kwargs = self._arguments
        return f"{type(self).__name__}({'...' if args or kwargs else ''})"

    def __copy__(self) -> ValueStore:
        return self

    def __deepcopy__(self, memo: object) -> ValueStore:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        args, kwargs = self._arguments
        return partial(type(self), *args, **kwargs), ()


_all_of_them: WeakSet[ValueStore] = WeakSet()


def value_stores() -> list[ValueStore]:
    """Return all stores of values of this process."""
    return list(_all_of_them)


def _tell_of_fork() -> None:
    for store in value_stores():
        try:
            store.after_fork()
        except Exception:  # the others are to be told, too
            logging.getLogger("overlimit").exception("%r.after_fork failed", store)


os.register_at_fork(after_in_child=_tell_of_fork)


def store_failure(
    store: ValueStore, error: Exception, has_written: bool, method: str = "transact"
) -> StoreError:
    """Return the StoreError for what ``transact`` has raised; the core calls this."""
    if isinstance(error, StoreError):
        return error
    cause: BaseException = error
    if is_unwritten := isinstance(error, NotWritten):
        cause = error.__cause__ or error
    kind = StoreTimeout if isinstance(cause, TimeoutError) else StoreUnavailable
    failure = kind(f"{type(store).__name__}.{method} failed: {type(cause).__name__}: {cause}")
    failure.__cause__ = cause
    failure.maybe_charged = has_written and not is_unwritten
    return failure


def told_of_store_error(error: BaseException) -> tuple[str, str, bool, int] | None:
    """Return the kind, the message, maybe_charged and retry_after in microseconds; None for another error.

    The core calls this.
    """
    if not isinstance(error, StoreError):
        return None
    kinds = [kind for kind, known in _STORE_ERRORS.items() if isinstance(error, known)]
    kind = kinds[0] if kinds else "unavailable"
    return kind, str(error), bool(error.maybe_charged), round(min(max(error.retry_after, 0.0), 9e9) * 1e6)


def scanned(store: ValueStore, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield what a scan finds whose key may be a limiter's and begins so, each once.

    Raises StoreTimeout where nothing new comes for the time of a call, or the scan takes longer than a minute
    and than a hundred times that, and StoreConfigError for too many keys.
    """
    seen: set[str] = set()
    try:
        seconds = float(store.timeout)
        quiet_since = begun_at = time.monotonic()
        longest = max(_LONGEST_SCAN, 100 * seconds)
        for key, value in store.scan(prefix):
            if is_new := key.startswith(prefix) and key not in seen and bool(_KEY.fullmatch(key)):
                seen.add(key)
                yield key, value
            now = time.monotonic()
            if not is_new and now - quiet_since > seconds:
                raise TimeoutError("it goes on, and finds no more keys")
            if now - begun_at > longest:
                raise TimeoutError(f"it has no end within {longest:g} seconds")
            if len(seen) > _MOST_SCANNED:
                raise StoreConfigError(
                    f"a scan found more than {_MOST_SCANNED:,} keys: remove what has expired, or give the "
                    "policy a new name, under which it counts from 0"
                )
            quiet_since = now if is_new else quiet_since
    except Exception as error:
        raise store_failure(store, error, has_written=False, method="scan") from error


def scanned_keys(store: ValueStore, prefix: str) -> tuple[str, ...]:
    """Return the keys of a scan; the core calls this."""
    return tuple(sorted(key for key, _ in scanned(store, prefix)))
