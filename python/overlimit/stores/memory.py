"""The store in the memory of one process."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from fractions import Fraction
from typing import SupportsIndex

from overlimit import _core
from overlimit._core import Store
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._options import size_of
from overlimit.errors import InvalidLimit
from overlimit.limits import Limit
from overlimit.limits.quantities import neat
from overlimit.stores.kinds import StoreKind


class MemoryStore(_core.MemoryStore, StoreKind):
    """A store in this process's memory, of bounded size.

    A full store never forgives: identifiers that it does not know then share counts of what all of them
    spend, so some are refused early. Policies that are too many for counts of their own share those of
    others with the same limits.

    Parameters
    ----------
    max_keys
        The most identifiers that are counted one by one, over all policies; at least 1.
    max_bytes
        The most memory for them, in bytes; at least 65,536.

    Notes
    -----
    ``len(store)`` is how many identifiers it counts, and ``bool(store)`` always True. A copy is the store
    itself, and it does not pickle. Thread-safe. Raises TypeError or ValueError naming the argument.
    """

    waits = False
    is_shared = False

    @checks_arguments(synonyms={"size": "max_keys", "maxsize": "max_keys", "max_size": "max_keys"})
    def __init__(self, max_keys: SupportsIndex = 1_000_000, max_bytes: SupportsIndex = 256 << 20) -> None:
        super().__init__(size_of(max_keys, "max_keys"), size_of(max_bytes, "max_bytes"))
        _all_of_them[id(self)] = self

    def _hints(self) -> Iterator[str]:
        yield (
            "memory:// belongs to one process: this command neither sees nor resets the counts of a "
            "running server"
        )


_all_of_them: weakref.WeakValueDictionary[int, MemoryStore] = weakref.WeakValueDictionary()


def memory_stores() -> list[MemoryStore]:
    """Return all memory stores of this process, those behind URLs and local fallbacks too."""
    stores = [reference() for reference in _all_of_them.valuerefs()]
    return [store for store in stores if store is not None]


_fallbacks: weakref.WeakKeyDictionary[Store, MemoryStore] = weakref.WeakKeyDictionary()


def local_fallback_of(store: Store) -> MemoryStore:
    """Return the memory store that decides while this one fails, and lives as long; the core calls this."""
    known = _fallbacks.get(store)
    if known is not None:
        return known
    made = MemoryStore()
    made._when_full = (
        "it is the local fallback of a store that fails, and its size is fixed: exact counts return with "
        "that store, and on_error='allow' or 'deny' needs no counts meanwhile"
    )
    return _fallbacks.setdefault(store, made)


def local_limits(limits: tuple[Limit, ...], share: Fraction) -> tuple[Limit, ...]:
    """Return the limits by which a process decides alone: its share of each, which may be all of it."""
    if share == 1:
        return limits
    try:
        return tuple(limit.scaled(share) for limit in limits)
    except InvalidLimit as error:
        raise InvalidLimit(
            f"local_share {short_repr(neat(share))} is too small a part of a limit: {error}"
        ) from None
