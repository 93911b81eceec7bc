"""Whether anything is kept of an identifier or in a policy, which no answer of a limiter says."""

from __future__ import annotations

import time

from overlimit import _core
from overlimit.command_line.operating.endings import status_of
from overlimit.command_line.operating.key_names import KeyNames, as_bytes
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import server_of
from overlimit.command_line.operating.values import Value, decoded
from overlimit.command_line.operating.walking import KEYS, Walk, found_in, values_of


def keeps(place: Place, policy: str, identifier: str | None, most: int = KEYS) -> bool | None:
    """Whether anything that counts is kept of an identifier, or of anybody; None where that is not seen.

    For anybody, at most so many keys are looked at.
    """
    try:
        if not _core.is_key_name(policy):
            return None
        return (
            _keeps_any(place, policy, most)
            if identifier is None
            else _counts(_kept(place, policy, identifier))
        )
    except Exception as error:
        if _matters(error):
            raise
        return None


def holds_lock(place: Place, policy: str, identifier: str) -> bool | None:
    """Whether an identifier is locked; None where that is not seen."""
    try:
        if not _core.is_key_name(policy):
            return None
        value, now = _kept(place, policy, identifier)
        return value is not None and value.locked_for(now) > 0
    except Exception as error:
        if _matters(error):
            raise
        return None


class _Foreign(Exception):
    """What is kept was not written by a limiter, or cannot be read by this user."""


def _matters(error: Exception) -> bool:
    """Whether it is no error of a server, which the command itself meets, or may not meet."""
    return status_of(error) is None and not isinstance(error, (_Foreign, ImportError))


def _kept(place: Place, policy: str, identifier: str) -> tuple[Value | None, int]:
    """Return what is kept of an identifier, and the time."""
    store = place.shared_memory
    if store is not None:
        now = time.time_ns() // 1000
        kept = store._key(policy, as_bytes(identifier))
        return (None if kept is None else found_in(kept, policy, now).value), now
    key = KeyNames(place).key(policy, identifier)
    with server_of(place, key) as server:
        (held,) = values_of(server, [key])
        value = decoded(held) if isinstance(held, bytes) else None
        if value is None and held is not None:
            raise _Foreign
        return value, server.now()


def _counts(kept: tuple[Value | None, int]) -> bool:
    value, now = kept
    return value is not None and any(record.expires_at > now for record in value.records)


def _keeps_any(place: Place, policy: str, most: int) -> bool | None:
    walk = Walk(place, policy, most)
    if any(_counts((found.value, found.now)) for found in walk) or walk.foreign:
        return True
    return False if walk.is_complete else None
