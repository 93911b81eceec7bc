"""Switches that a function of the app may turn while it serves, such as one that asks for a feature flag."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from overlimit._forks import PerProcess
from overlimit.clocks import ClockLike, reader_of
from overlimit.http.callables import function_name

_log = logging.getLogger("overlimit")

_EVERY = 1.0
"""Seconds for which an answer holds."""


class Switch:
    """Whether something is on: as it was given, or as a function said that is asked once a second at most."""

    def __init__(
        self, name: str, given: bool | Callable[[], bool], default: bool, clock: ClockLike | None = None
    ) -> None:
        """Take a value, or a function, until whose first answer the default holds."""
        self.function = given if callable(given) else None
        self.on = default if callable(given) else given
        self._name = name
        self._now = time.monotonic if clock is None else reader_of(clock)
        self._asked_at: float | None = None
        self._has_failed = False
        self._asking = PerProcess(threading.Lock)

    def ask_again(self) -> bool:
        """Ask the function, if it is time, and return whether its answer is another.

        A failure changes nothing. Meanwhile others go on with the last answer, except before the first.
        """
        if self.function is None or self._is_fresh():
            return False
        if not self._asking().acquire(blocking=self._asked_at is None):
            return False
        try:
            before = self.on
            if not self._is_fresh():  # another thread may have asked by now
                self.on = self._answer()
                self._asked_at = self._now()
            return self.on is not before
        finally:
            self._asking().release()

    def _is_fresh(self) -> bool:
        return self._asked_at is not None and abs(self._now() - self._asked_at) < _EVERY

    def _answer(self) -> bool:
        assert self.function is not None
        try:
            answer = self.function()
            if not isinstance(answer, bool):
                raise TypeError(f"{function_name(self.function)} must return True or False, not {answer!r}")
        except Exception:
            if not self._has_failed:
                _log.warning("the function of %s failed: it stays %s", self._name, self.on, exc_info=True)
            self._has_failed = True
            return self.on
        self._has_failed = False
        return answer
