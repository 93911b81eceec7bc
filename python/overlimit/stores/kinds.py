"""What code asks a store about itself, instead of which class it is, and where it keeps its state."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlimit._core import Store


class StoreKind:
    """What may be asked of any store; what is said here holds for a store that others use, too."""

    __slots__ = ()

    waits: bool = True
    """Whether a call may have to wait, for a server or another process: an ``AsyncLimiter`` awaits it."""
    is_shared: bool = True
    """Whether other processes may count in it."""
    _has_connections: bool = False
    """Whether an event loop can wait for it, as for a server; else it is swept in a thread."""
    _keeps_values: bool = False
    """Whether it keeps bytes under keys, on which the engine decides, as a ``ValueStore`` does."""
    _longest_lease: float = 0.0
    """For how many seconds units may be leased; 0.0: never."""
    _longest_stale: float = 0.0
    """Within how many seconds whatever another process does is noticed."""
    _shown: Mapping[str, Any] = MappingProxyType({})
    """Its options, by name."""
    _when_full: str = "a store with a larger max_keys or max_bytes has room for more"
    """What to do where identifiers share counts, as there is no room for their own."""
    _example: str = ""
    """The arguments of an example, as a message shows it."""

    @property
    def _why_unleased(self) -> str | None:
        """Why nothing of any limits is leased; None if something may be."""
        return "the store is not a RedisStore"

    @property
    def _missing(self) -> str | None:
        """What its first call will make, and where; None: it is there, or need not be made."""
        return None

    def _hints(self) -> Iterator[str]:
        """Yield why somebody who asks it in another process may not find what is counted."""
        yield from ()


def state_key(store: Store) -> Hashable:
    """Return what is equal for stores that keep their state in one place, while both live."""
    key: Hashable = getattr(store, "_state_key", id(store))
    return key
