"""A bounded walk over what a store keeps, in small steps with pauses, so that calls are hardly delayed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlimit.command_line.operating.endings import FINE, NoAnswer, is_forbidden, message_of, status_of
from overlimit.command_line.operating.key_names import KeyNames
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import Server, servers_of
from overlimit.command_line.operating.tables import be, counted
from overlimit.command_line.operating.value_stores import kept_values, value_and_time
from overlimit.command_line.operating.values import Record, Value, decoded
from overlimit.errors import StoreError, StoreUnavailable
from overlimit.stores import SharedMemoryStore, ValueStore

if TYPE_CHECKING:
    from overlimit._core import _Key

KEYS = 200_000
"""How many keys a walk looks at, unless it is told otherwise."""

_KEYS_A_STEP = 50  # which keeps the server for a tenth of a millisecond
_PAUSE = 0.00025
_MOST_BYTES = 1 << 20
_BUCKETS_A_STEP = 64
_FIRST_BUCKET = 2**62
PART = (
    "The server is a node of a cluster, and keys of other nodes are not seen: begin the URL with "
    "redis+cluster://, or rediss+cluster:// with TLS."
)
"""What is said where the URL names a node of a cluster as a server by itself."""
_HASHED = (
    "Shared memory keeps no identifiers, only hashes of them, which show, lock, unlock and reset take, too; "
    "`overlimit show URL --policy P ID` prints the hash of an identifier."
)


@dataclass(frozen=True)
class Found:
    """A key that was found, as it was at that moment."""

    policy: str
    identifier: str
    value: Value
    now: int
    counted_as: bytes | None = None
    """The identifier as it is counted; None if only its hash is kept."""

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from other keys."""
        return self.policy, self.identifier

    @property
    def counts(self) -> bool:
        """Whether anything is kept under it."""
        return self.value.counts(self.now)


class Walk:
    """A walk, and how far it came."""

    def __init__(self, place: Place, policy: str | None = None, most: int = KEYS) -> None:
        self._place = place
        self._policy = policy
        self._most = most
        self.looked_at = 0
        self.foreign = 0
        self.forbidden = 0
        self.forgotten = 0
        self.is_complete = True
        self._is_part = False
        self.unreached: dict[str, Exception] = {}
        self.ever_unreached: dict[str, Exception] = {}
        self._steps_left = 0

    def __iter__(self) -> Iterator[Found]:
        self.looked_at, self.foreign, self.forbidden, self.forgotten = 0, 0, 0, 0
        self.is_complete, self.unreached = True, {}
        for found in self._everything():
            self.forgotten += not found.counts
            yield found

    def _everything(self) -> Iterator[Found]:
        if (values := self._place.values) is not None:
            return self._in_values(values)
        memory = self._place.shared_memory
        return self._in_redis() if memory is None else self._in_shared_memory(memory)

    def lose(self, name: str, error: Exception) -> None:
        """Note that a server did not answer."""
        self.unreached[name] = self.ever_unreached[name] = error

    @property
    def saw_all(self) -> bool:
        """Whether it came to every key."""
        return self.is_complete and not (self.forbidden or self.ever_unreached or self._is_part)

    @property
    def summary(self) -> str:
        """How far it came, in a sentence or a few."""
        told = f"{counted(self.looked_at, 'key')} {be(self.looked_at)} looked at"
        told += "." if self.is_complete else ", which is not all: --keys raises the bound."
        if self._is_part:
            told += f" {PART}"
        if self.foreign:
            told += f" {self.foreign:,} of them {be(self.foreign, 'is', 'are')} not overlimit's."
        if self.forbidden:
            told += f" This user may not read {self.forbidden:,} of them."
        if self.forgotten:
            told += f" In {self.forgotten:,} of them nothing counts any more, as after a reset."
        return f"{told} {_HASHED}" if self._place.shared_memory is not None and self.looked_at else told

    def told(self) -> dict[str, object]:
        """Return the same for JSON, and how it ended."""
        return {
            "status": "unreachable" if self.ever_unreached else "ok",
            "looked_at": self.looked_at,
            "is_complete": self.saw_all,
            "foreign": self.foreign,
            "forgotten": self.forgotten,
            "unreachable": sorted(self.ever_unreached),
            "identifiers_are_hashes": self._place.shared_memory is not None,
        }

    def ended(self) -> int:
        """Return the exit code, or raise NoAnswer if a server was not reached, after all else is printed."""
        if not self.ever_unreached:
            return FINE
        raise NoAnswer(
            "unreachable",
            f"what is kept there is missing: {self.unreached_shown}; "
            "bring it back, or have a replica take its place",
        )

    @property
    def unreached_shown(self) -> str:
        """The servers that were not reached, each with the reason."""
        return "; ".join(
            f"{name} ({message_of(error).rstrip('.')})" for name, error in sorted(self.ever_unreached.items())
        )

    def _in_redis(self) -> Iterator[Found]:
        names = KeyNames(self._place)
        share_a_tag = self._place.hash_tag in ("prefix", "policy" if self._policy else "prefix")
        any_key = names.key(self._policy or "any", "any") if share_a_tag else b""
        servers = servers_of(self._place, any_key)
        self._steps_left = 2 * self._most // _KEYS_A_STEP + len(servers)
        for server in servers:
            try:
                yield from self._at(server, names)
            except StoreError as error:
                if status_of(error) != "unreachable":
                    raise
                self.unreached[server.name] = error
                if len(self.unreached) == len(servers):
                    raise
        self.ever_unreached |= self.unreached

    def _at(self, server: Server, names: KeyNames) -> Iterator[Found]:
        now = server.now()
        self._is_part = not self._place.is_cluster and server.is_node_of_cluster
        denied, may_read = None, False
        for key, value in self._values(server, names.pattern(self._policy)):
            name = names.read(key)
            read = decoded(value) if isinstance(value, bytes) else None
            if name is not None and isinstance(value, StoreError) and is_forbidden(value):
                self.forbidden += 1
                denied = value
                continue
            if name is None or read is None:
                self.foreign += value is not None
                continue
            may_read = True
            yield Found(name.policy, name.shown, read, now, None if name.is_hashed else name.identifier)
        if denied is not None and not may_read:
            raise denied

    def _values(self, server: Server, pattern: str) -> Iterator[tuple[bytes, object]]:
        seen: set[bytes] = set()
        for keys in server.pages(pattern, _KEYS_A_STEP):
            # Keys of others are stepped over, too, and a table may be half empty.
            if self._is_over() or self._steps_left == 0:
                self.is_complete = False
                return
            self._steps_left -= 1
            fresh = [key for key in keys if key not in seen]
            seen.update(fresh)
            self.looked_at += len(fresh)
            yield from zip(fresh, values_of(server, fresh), strict=True)
            time.sleep(_PAUSE)

    def _is_over(self) -> bool:
        if self.looked_at >= self._most:
            self.is_complete = False
        return not self.is_complete

    def _in_values(self, store: ValueStore) -> Iterator[Found]:
        _, now = value_and_time(store)
        for policy, identifier, value in kept_values(store, self._policy):
            if self._is_over():
                return
            self.looked_at += 1
            if value is None:
                self.foreign += 1
            else:
                counted_as = None if identifier.startswith("#") else identifier.encode()
                yield Found(policy, identifier, value, now, counted_as)

    def _in_shared_memory(self, store: SharedMemoryStore) -> Iterator[Found]:
        wanted = None if self._policy is None else policy_digest(store, self._policy)
        for shard in range(store._shards):
            below = _FIRST_BUCKET
            while below > 0 and not self._is_over():
                below, keys = store._keys(shard, below, _BUCKETS_A_STEP)
                self.looked_at += len(keys)
                now = time.time_ns() // 1000
                for key in keys:
                    if wanted in {None, key[1]}:
                        yield found_in(key, self._policy, now)
                time.sleep(_PAUSE)


def policy_digest(store: SharedMemoryStore, policy: str) -> int:
    """Return the hash by which shared memory knows a policy, of its name or of that hash as it is shown."""
    return int(policy[1:], 16) if policy.startswith("#") else store._policy_digest(policy)


def found_in(key: _Key, policy: str | None, now: int) -> Found:
    """Return a key of shared memory, whose policy is known by a hash unless it was asked for."""
    hashed, digest, created_at, is_shared, records = key
    value = Value(created_at, [Record(*record) for record in records])
    shown = "(shared by identifiers without room of their own)" if is_shared else f"#{hashed}"
    return Found(policy or f"#{digest:016x}", shown, value, now)


def values_of(server: Server, keys: list[bytes]) -> list[object]:
    """Return what keys hold, or the error of each of which nothing can be read; None: it is gone."""
    values = server.answers([("GETRANGE", key, "0", str(_MOST_BYTES - 1)) for key in keys])
    if any(is_forbidden(each) for each in values):
        values = server.answers([("GET", key) for key in keys])
    for each in values:
        if isinstance(each, StoreUnavailable):
            raise each
    return [each or None for each in values]
