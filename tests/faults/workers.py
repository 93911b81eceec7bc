"""The processes of a storm, which work until they are killed, and are stopped for a moment now and then."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from random import Random


class Workers:
    """So many at a time; ``new`` returns what the next of them does, for ever."""

    def __init__(self, count: int, new: Callable[[], Callable[[], None]]) -> None:
        self.count, self.new, self.killed = count, new, 0
        self.pids: set[int] = set()
        self._stopped: dict[int, float] = {}

    def fill(self) -> None:
        """Start those that are missing."""
        while len(self.pids) < self.count:
            work = self.new()
            pid = os.fork()
            if pid == 0:
                try:
                    work()
                finally:
                    traceback.print_exc()
                    os._exit(1)
            self.pids.add(pid)

    def choose(self, random: Random) -> int:
        return random.choice(sorted(self.pids))

    def stop(self, pid: int, seconds: float) -> None:
        """Stop one, or another process, unless it is stopped."""
        if pid not in self._stopped:
            os.kill(pid, signal.SIGSTOP)
            self._stopped[pid] = time.monotonic() + seconds

    def go_on(self) -> None:
        """Let those go on that were stopped for long enough."""
        for pid, until in list(self._stopped.items()):
            if time.monotonic() >= until:
                del self._stopped[pid]
                os.kill(pid, signal.SIGCONT)

    def kill(self, *pids: int) -> None:
        """Kill some; RuntimeError if one had ended by itself."""
        ended = []
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            ended.append(os.waitpid(pid, 0)[1])
            self.pids.remove(pid)
            self._stopped.pop(pid, None)
            self.killed += 1
        if any(os.WIFEXITED(status) for status in ended):
            raise RuntimeError("a worker ended by itself: see what it wrote")
