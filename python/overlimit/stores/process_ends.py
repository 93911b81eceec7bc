"""Stores release what they have leased when their process ends.

Children of multiprocessing, and of billiard, the one of Celery, end without what ``atexit`` knows: they run
finalizers of their own, and forget those of their parent as they begin.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from overlimit import _core

_stores: WeakSet[_core.RedisStore] = WeakSet()
_watched: set[tuple[str, int]] = set()
"""Modules with finalizers that know of this, in which process."""


def close_at_end(store: _core.RedisStore) -> None:
    """Have a store closed when this process ends, and in the children that inherit it when they do."""
    _stores.add(store)
    for util in _utils():
        if (place := (util.__name__, os.getpid())) not in _watched:
            _watched.add(place)
            _finalize(util)
            _finalize_after_start(util)


def leases_anywhere() -> bool:
    """Return whether there is a store in this process that leases."""
    return len(_stores) > 0


@atexit.register
def close_all() -> None:
    """Have every store that leases release what it holds; one that is used later leases again."""
    for store in list(_stores):
        store.close()


def _utils() -> Iterator[Any]:
    """Yield the modules with finalizers that are imported: who starts children has imported one."""
    for name in ("multiprocessing.util", "billiard.util"):
        if name in sys.modules:
            yield sys.modules[name]


def _finalize(util: Any) -> None:
    util.Finalize(None, close_all, exitpriority=0)


def _finalize_after_start(util: Any) -> None:
    """Finalize once a child has forgotten the finalizers of its parent, or of its own imports."""
    util.register_after_fork(util, _finalize)


def _in_child() -> None:
    for util in _utils():
        _finalize_after_start(util)


os.register_at_fork(after_in_child=_in_child)
