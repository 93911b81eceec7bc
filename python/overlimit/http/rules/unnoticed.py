"""Limits that an app without a RateLimit may lose, and what notices such an app."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from weakref import WeakSet

from overlimit._forks import PerProcess


class _Lasting:
    """Stands for what is decorated but cannot be in a set of weak references."""


_LASTING = _Lasting()


class Unnoticed:
    """What is decorated so that no call may pass its limits, or is a RateLimit that has no app yet.

    No call passes through a decorator above that of a route, or one on a group, so nobody but the app itself
    can notice them. Having apps notice costs all their requests a little, so it is done only meanwhile.
    """

    def __init__(self, watch: Callable[[], object], leave: Callable[[], object]) -> None:
        """Have each app set up at its first request by ``watch``, until ``leave`` ends that."""
        self._watch, self._leave = watch, leave
        self._decorated: WeakSet[object] = WeakSet()
        self._changing = PerProcess(threading.Lock)

    def add(self, decorated: object) -> None:
        """Note a function, a group or a RateLimit."""
        with self._changing():
            try:
                self._decorated.add(decorated)
            except TypeError:
                self._decorated.add(_LASTING)
            self._watch()

    def discard(self, decorated: Iterable[object]) -> None:
        """Note that limits on these hold: calls pass through them, or they have an app."""
        if not self._decorated:
            return
        with self._changing():
            self._decorated.difference_update(decorated)
            if not self._decorated:
                self._leave()
