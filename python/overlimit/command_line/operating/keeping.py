"""What is kept of an identifier or in a policy, which no answer of a limiter says."""

from __future__ import annotations

import time
from dataclasses import dataclass

from overlimit import _core
from overlimit.command_line.operating.endings import status_of
from overlimit.command_line.operating.key_names import KeyNames, as_bytes
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import server_of
from overlimit.command_line.operating.values import Value, decoded
from overlimit.command_line.operating.walking import KEYS, Walk, found_in, values_of
from overlimit.errors import StoreConfigError


@dataclass(frozen=True)
class Kept:
    """The name of a key, what is kept under it, if anything is, and the time."""

    key: str
    value: Value | None
    now: int


def kept_of(place: Place, policy: str, identifier: str) -> Kept:
    """Return what is kept of an identifier; raise StoreConfigError for what no limiter has written."""
    store = place.shared_memory
    if store is not None:
        now = time.time_ns() // 1000
        held = store._key(policy, as_bytes(identifier))
        found = None if held is None else found_in(held, policy, now)
        return _counted(found.identifier, found.value, now) if found else Kept("", None, now)
    key = KeyNames(place).key(policy, identifier)
    with server_of(place, key) as server:
        (bytes_held,) = values_of(server, [key])
        name = key.decode("utf-8", "backslashreplace")
        value = decoded(bytes_held) if isinstance(bytes_held, bytes) else None
        if value is None and bytes_held is not None:
            raise StoreConfigError(f"the key {name} holds what overlimit has not written; a hit replaces it")
        return _counted(name, value, server.now())


def _counted(key: str, value: Value | None, now: int) -> Kept:
    return Kept(key, value if value is not None and value.counts(now) else None, now)


def keeps(place: Place, policy: str, identifier: str | None, most: int = KEYS) -> bool | None:
    """Whether anything is kept of an identifier, or of anybody; None where that is not seen.

    For anybody, at most so many keys are looked at.
    """
    try:
        if not _core.is_key_name(policy):
            return None
        if identifier is None:
            return _keeps_any(place, policy, most)
        return kept_of(place, policy, identifier).value is not None
    except Exception as error:
        if _matters(error):
            raise
        return None


def holds_lock(place: Place, policy: str, identifier: str) -> bool | None:
    """Whether an identifier is locked; None where that is not seen."""
    try:
        if not _core.is_key_name(policy):
            return None
        kept = kept_of(place, policy, identifier)
        return kept.value is not None and kept.value.locked_for(kept.now) > 0
    except Exception as error:
        if _matters(error):
            raise
        return None


def _matters(error: Exception) -> bool:
    """Whether it is no error of a server, which the command itself meets, or may not meet."""
    return status_of(error) is None and not isinstance(error, ImportError)


def _keeps_any(place: Place, policy: str, most: int) -> bool | None:
    walk = Walk(place, policy, most)
    if any(found.counts for found in walk) or walk.foreign:
        return True
    return False if walk.is_complete else None
