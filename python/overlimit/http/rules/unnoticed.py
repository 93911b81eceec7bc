"""Limits that an app without a RateLimit may lose, and what notices such an app."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from overlimit._forks import PerProcess


class Unnoticed:
    """What is decorated so that no call may pass its limits, or is a RateLimit that has no app yet.

    No call passes through a decorator above that of a route, or one on a group, so nobody but the app itself
    can notice them. Having apps notice costs all their requests a little, so it is done only meanwhile.
    """

    def __init__(self, set_up: Callable[..., object], *signals: Any) -> None:
        """Have each app set up, which these signals send when it is to answer a request."""
        self._set_up, self._signals = set_up, signals
        self._decorated: WeakSet[object] = WeakSet()
        self._changing = PerProcess(threading.Lock)

    def add(self, decorated: object) -> None:
        """Note a function, a group or a RateLimit."""
        with self._changing():
            self._decorated.add(decorated)
            for each in self._signals:
                each.connect(self._set_up)

    def discard(self, decorated: Iterable[object]) -> None:
        """Note that limits on these hold: calls pass through them, or they have an app."""
        if not self._decorated:
            return
        with self._changing():
            self._decorated.difference_update(decorated)
            if not self._decorated:
                for each in self._signals:
                    each.disconnect(self._set_up)
