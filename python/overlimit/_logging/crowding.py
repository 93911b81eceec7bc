"""The warning that a memory store is full."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from overlimit import _core
from overlimit.stores.local_fallback import is_local_fallback

if TYPE_CHECKING:
    from overlimit._core import Store

_log = logging.getLogger("overlimit")

_ADVICE = "a store with a larger max_keys or max_bytes has room for more"
_ADVICE_FOR_SHARED_MEMORY = (
    "remove it with unlink(), and restart all processes that use it with a larger max_keys or max_bytes"
)
_ADVICE_FOR_FALLBACK = (
    "it is the local fallback of a store that fails, and its size is fixed: exact counts return with that "
    "store, and on_error='allow' or 'deny' needs no counts meanwhile"
)

_warned_stores: weakref.WeakKeyDictionary[Store, object] = weakref.WeakKeyDictionary()


def warn_of_crowded_store(store: Store) -> None:
    """Warn, once per store object, that a full store makes identifiers share counts; the core calls this."""
    mine = object()
    if _warned_stores.setdefault(store, mine) is mine:
        _log.warning(
            "%r is full: identifiers that find no room in it share counts, so some of them are refused "
            "early; %s",
            store,
            _advice_for(store),
        )


def _advice_for(store: Store) -> str:
    if isinstance(store, _core.SharedMemoryStore):
        return _ADVICE_FOR_SHARED_MEMORY
    return _ADVICE_FOR_FALLBACK if is_local_fallback(store) else _ADVICE
