"""``on_error="local"``: a memory store of this process decides while the limiter's own store fails."""

from __future__ import annotations

import weakref
from fractions import Fraction

from overlimit._core import Store
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits import Limit
from overlimit.limits.quantities import neat
from overlimit.stores.memory import MemoryStore

_fallbacks: weakref.WeakKeyDictionary[Store, MemoryStore] = weakref.WeakKeyDictionary()


def local_fallback_of(store: Store) -> MemoryStore:
    """Return the memory store that decides for all limiters of a store while it fails; the core calls this.

    It keeps its counts from one outage to the next, for as long as the store object lives.
    """
    known = _fallbacks.get(store)
    return known if known is not None else _fallbacks.setdefault(store, MemoryStore())


def is_local_fallback(store: Store) -> bool:
    """Whether a store is one that ``local_fallback_of`` has made."""
    return any(fallback is store for fallback in _fallbacks.copy().values())


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
