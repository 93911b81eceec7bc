"""Stores that keep values in a database: how their keys are named, and what is kept under them."""

from __future__ import annotations

import hashlib
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import click

from overlimit import _core
from overlimit._core import Store
from overlimit.command_line.failures import WrongUsage
from overlimit.command_line.operating.endings import asks_store, done
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.values import Value, decoded
from overlimit.errors import StoreConfigError
from overlimit.stores import Step, ValueStore
from overlimit.stores.values import scanned, store_failure

_FORMAT_VERSION = 1
_LONGEST = 250
_PLAIN = re.compile(rb"[!-~]*")
_KEY = re.compile(r"(?P<policy>[A-Za-z0-9_.-]{1,64})(?P<kind>[:#])(?P<identifier>.*)", re.DOTALL)
_NOBODY = "~clock"
"""A key that no policy has, read for the time that a store tells."""


class _Look:
    """Reads values and writes nothing; see ``ValueStore.transact``."""

    reads_only = True

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self.values: Sequence[bytes | None] = ()
        self.now = 0

    def __call__(self, values: Sequence[bytes | None], now: Any = None) -> None:
        self.values = values
        self.now = time.time_ns() // 1000 if now is None else int(now * 1_000_000)

    def time_left(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())


class ByHashes(ValueStore):
    """A store for identifiers that are named by the hashes in their keys."""

    def __init__(self, store: ValueStore) -> None:
        super().__init__()
        self._store = store
        self.timeout = store.timeout

    def transact(self, keys: Sequence[str], step: Step) -> object:
        """Read and write the values of hashes; see ``ValueStore``."""
        return self._store.transact([key.replace(":", "#", 1) for key in keys], step)


def value_and_time(store: ValueStore, key: str = _NOBODY) -> tuple[bytes | None, int]:
    """Return what is kept under a key, and the time in microseconds."""
    look: Any = _Look(store.timeout)
    try:
        store.transact([key], look)
    except Exception as error:
        raise store_failure(store, error, has_written=False) from error
    return look.values[0], look.now


def key_of(policy: str, identifier: bytes) -> str:
    """Return the key of an identifier in a policy."""
    if len(policy) + 1 + len(identifier) <= _LONGEST and _PLAIN.fullmatch(identifier):
        return f"{policy}:{identifier.decode()}"
    return f"{policy}#{hashlib.sha256(identifier).hexdigest()}"


def forget(store: Store, policy: str, identifiers: Sequence[str]) -> None:
    """Forget identifiers, and leave nothing in a database that says so, as a reset otherwise does."""
    _core._reset(store, policy, tuple(identifiers))
    values = cast("ValueStore", store)
    if values._keeps_values:
        with suppress(StoreConfigError):
            values.delete([key_of(policy, each.encode()) for each in identifiers])


def read_value(stored: bytes) -> Value | None:
    """Read what is kept; None for what no limiter has written, or is damaged."""
    covered, crc = stored[:-4], stored[-4:]
    if covered[:1] != bytes([_FORMAT_VERSION]) or zlib.crc32(covered) != int.from_bytes(crc, "little"):
        return None
    return decoded(covered[1:])


def kept_values(store: ValueStore, policy: str | None) -> Iterator[tuple[str, str, Value | None]]:
    """Yield the policy, the identifier or ``#`` and its hash, and what is kept, of a policy or of all."""
    for prefix in ("",) if policy is None else (f"{policy}:", f"{policy}#"):
        for key, stored in scanned(store, prefix):
            name = _KEY.fullmatch(key)
            if name is None:
                yield "", key, None
            else:
                identifier = f"{name['kind']}{name['identifier']}".removeprefix(":")
                yield name["policy"], identifier, read_value(bytes(stored))


@click.group(short_help="Make the tables of stores.")
def stores() -> None:
    """Make the tables in which stores keep counts."""


@stores.command(short_help="Make the table of a store where there is none.")
@url_argument
@asks_store
def init(place: Place, as_json: bool) -> int:
    """Make the table of the store at URL, in PostgreSQL or a file of SQLite, where there is none.

    Run it as a user who may make tables: those who count need no more than SELECT, INSERT, UPDATE and DELETE.
    """
    make = getattr(place.store, "create_table", None)
    if make is None:
        raise WrongUsage("this store has no table: there is nothing to make")
    make()
    next(scanned(cast("ValueStore", place.store), _NOBODY), None)  # raises if it is a table of something else
    return done(f"{place.store.endpoint} has its table.", as_json)
