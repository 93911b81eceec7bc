"""A lock whose waiters get it in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A lock that is handed to whoever has waited longest, so that nobody waits for ever.

    ``threading.Lock`` goes to whoever asks at the right moment, which a busy thread does again and again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def take_now(self) -> bool:
        """Take it if nobody has it and nobody waits for it, and return whether that was so."""
        return not self._waiting and self._lock.acquire(blocking=False)

    def take(self, timeout: float) -> bool:
        """Wait for it for at most so many seconds, and return whether this thread has it now."""
        turn = threading.Lock()
        turn.acquire()
        with self._guard:
            self._waiting.append(turn)
        try:
            self._hand_over_if_free()
            return turn.acquire(timeout=max(0.0, timeout)) or not self._leave(turn)
        except BaseException:  # Ctrl-C
            if not self._leave(turn):
                self.give()
            raise

    def give(self) -> None:
        """Let the next one have it."""
        if not self._handed_over():
            self._lock.release()
            if self._waiting:  # who came in between
                self._hand_over_if_free()

    def _hand_over_if_free(self) -> None:
        if self._lock.acquire(blocking=False) and not self._handed_over():
            self._lock.release()

    def _handed_over(self) -> bool:
        if not self._waiting:
            return False
        with self._guard:
            if not self._waiting:
                return False
            self._waiting.popleft().release()
            return True

    def _leave(self, turn: threading.Lock) -> bool:
        """Wait no longer, and return whether that was in time: the lock may just have been handed over."""
        with self._guard:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True
