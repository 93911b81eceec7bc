"""What the log says of a memory store that has run out of room."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit._core import Store

__all__ = ["warn_of_crowded_store"]

_log = logging.getLogger("overlimit")

_warned_stores: weakref.WeakKeyDictionary[Store, object] = weakref.WeakKeyDictionary()


def warn_of_crowded_store(store: Store) -> None:
    """Warn, once per store object, that identifiers share counts in it; the core calls this."""
    mine = object()
    if _warned_stores.setdefault(store, mine) is mine:
        _log.warning(
            "%r is full: identifiers that find no room in it share counts, so some of them are refused "
            "early; a MemoryStore with a larger max_keys or max_bytes has room for more",
            store,
        )
