"""Where stores keep their state, so that two store objects of one place can be told from others."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit._core import Store


def state_key(store: Store) -> Hashable:
    """Return what is equal for stores that keep their state in one place, while both live."""
    key: Hashable = getattr(store, "_state_key", id(store))
    return key
