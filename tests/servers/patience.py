"""Waiting for servers, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 10.0
"""Seconds that a server may take to start or to stop; and the stores' timeout where time is no subject."""


def eventually(is_so: Callable[[], object], *, within: float = PATIENCE, every: float = 0.01) -> float:
    """Ask until it is so and return the seconds that took; AssertionError when it isn't within ``within``.

    It is asked at least once after that time, so that nothing fails because this process was not running.
    """
    began = time.monotonic()
    while True:
        is_last = time.monotonic() - began > within
        if is_so():
            return time.monotonic() - began
        if is_last:
            raise AssertionError(f"not so within {within} s: {getattr(is_so, '__qualname__', is_so)}")
        time.sleep(every)
