"""Who decides in the place of a store that fails: this process, by its share of the limits."""

from __future__ import annotations

import weakref
from fractions import Fraction

from overlimit._arguments import shown
from overlimit.errors import InvalidLimit
from overlimit.limits import Limit
from overlimit.limits.quantities import neat
from overlimit.stores import MemoryStore, Store

__all__ = ["local_limits", "stand_in_for"]

_stand_ins: weakref.WeakKeyDictionary[Store, MemoryStore] = weakref.WeakKeyDictionary()


def stand_in_for(store: Store) -> MemoryStore:
    """Return the one that all limiters of this store share; the core calls this too.

    It keeps its counts from one outage to the next, for as long as the store object lives.
    """
    known = _stand_ins.get(store)
    return known if known is not None else _stand_ins.setdefault(store, MemoryStore())


def local_limits(limits: tuple[Limit, ...], share: Fraction) -> tuple[Limit, ...]:
    """Return what a process grants by itself: the very same limits for a share of 1."""
    if share == 1:
        return limits
    try:
        return tuple(limit.scaled(share) for limit in limits)
    except InvalidLimit as error:
        raise InvalidLimit(
            f"local_share {shown(neat(share))} is too small a part of a limit: {error}"
        ) from None
