"""One identifier in one policy: as it is counted, or by the hash that a store shows of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from overlimit import _core
from overlimit.command_line.failures import WrongUsage
from overlimit.command_line.operating.key_names import KeyNames, as_bytes, from_terminal
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import servers_of
from overlimit.command_line.operating.value_stores import ByHashes, key_of, read_value, value_and_time
from overlimit.command_line.operating.values import Value, decoded
from overlimit.command_line.operating.walking import found_in, policy_digest, values_of
from overlimit.errors import StoreConfigError
from overlimit.limiter import Limiter
from overlimit.limits.quantities import micros
from overlimit.stores import SharedMemoryStore, ValueStore

_ANY_LIMIT = "100/second"  # of so much that a store which leases does not warn
"""A lock and a reset concern all limits of an identifier, whichever the limiter has."""
_HASH_OF_REDIS = re.compile("#[0-9a-f]{64}")
_HASH_OF_SHARED_MEMORY = re.compile("#[0-9a-f]{24}")


@dataclass(frozen=True)
class Kept:
    """The name of a key, what is kept under it, if anything is, and the time."""

    key: str
    value: Value | None
    now: int


@dataclass(frozen=True)
class Target:
    """Whom a command is about. A hash is taken as `overlimit top` shows it, with its number sign."""

    place: Place
    policy: str
    identifier: str | bytes

    @property
    def is_hash(self) -> bool:
        """Whether the identifier is the hash of one."""
        shape = _HASH_OF_SHARED_MEMORY if self.place.shared_memory is not None else _HASH_OF_REDIS
        return isinstance(self.identifier, str) and shape.fullmatch(self.identifier) is not None

    def kept(self) -> Kept:
        """Return what is kept; raise StoreConfigError for what no limiter has written."""
        if self.place.values is not None:
            return self._kept_among(self.place.values)
        store = self.place.shared_memory
        return self._kept_on_redis() if store is None else self._kept_in(store)

    def lock(self, seconds: float) -> None:
        """Refuse all calls for so long."""
        store = self._known_by_hash()
        if store is None:
            limiter, identifier = self._limiter()
            limiter.lock(identifier, seconds)
        elif self.kept().value is None:
            raise WrongUsage(f"nothing is kept of {self.identifier!r} in {self.policy}: name whom to lock")
        else:
            store._lock_at(self._digits, micros(seconds, "seconds"))

    def unlock(self) -> None:
        """Lift the lock."""
        store = self._known_by_hash()
        if store is None:
            limiter, identifier = self._limiter()
            limiter.unlock(identifier)
        elif self.kept().value is not None:
            store._unlock_at(self._digits)

    def reset(self) -> None:
        """Forget all that is kept."""
        store = self._known_by_hash()
        if store is None:
            asked, identifier = self._asked
            _core._reset(asked, self.policy, (identifier,))
        elif self.kept().value is not None:
            store._reset_at(self._digits)

    @property
    def _digits(self) -> str:
        return str(self.identifier)[1:]

    @property
    def _asked(self) -> tuple[_core.Store, str | bytes]:
        """The store to ask, and the identifier as that takes it."""
        if self.is_hash and self.place.values is not None:
            return ByHashes(self.place.values), self._digits
        if self.is_hash:
            return self.place.by_hashes, self._digits
        given = self.identifier
        return self.place.store, from_terminal(given) if isinstance(given, str) else given

    def _limiter(self) -> tuple[Limiter, str | bytes]:
        store, identifier = self._asked
        return Limiter(_ANY_LIMIT, name=self.policy, store=store), identifier

    def _known_by_hash(self) -> SharedMemoryStore | None:
        """Return the shared memory in which the key is found by its hash, if that was given."""
        return self.place.shared_memory if self.is_hash else None

    def _kept_in(self, store: SharedMemoryStore) -> Kept:
        now = time.time_ns() // 1000
        digest = policy_digest(store, self.policy)
        if self.is_hash:
            held = store._key_at(self._digits)
        else:
            held = store._key(self.policy, as_bytes(self.identifier))
        if held is None or held[1] != digest:
            return Kept("", None, now)
        found = found_in(held, self.policy, now)
        return _counted(found.identifier, found.value, now)

    def _kept_among(self, store: ValueStore) -> Kept:
        named = f"{self.policy}{self.identifier!s}"
        key = named if self.is_hash else key_of(self.policy, as_bytes(self.identifier))
        stored, now = value_and_time(store, key)
        value = None if stored is None else read_value(stored)
        if value is None and stored is not None:
            raise StoreConfigError(_foreign(key))
        return _counted(key, value, now)

    def _kept_on_redis(self) -> Kept:
        key = KeyNames(self.place).key(
            self.policy, self._digits if self.is_hash else self.identifier, self.is_hash
        )
        (server,) = servers_of(self.place, key)
        (held,) = values_of(server, [key])
        if isinstance(held, StoreConfigError):
            raise held
        name = key.decode("utf-8", "backslashreplace")
        value = decoded(held) if isinstance(held, bytes) else None
        if value is None and held is not None:
            raise StoreConfigError(_foreign(name))
        return _counted(name, value, server.now())


def _foreign(key: str) -> str:
    return f"the key {key} holds what overlimit has not written; a hit replaces it"


def _counted(key: str, value: Value | None, now: int) -> Kept:
    return Kept(key, value if value is not None and value.counts(now) else None, now)
