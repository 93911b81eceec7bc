"""Until when servers want no requests, and how requests are taken up again after that."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from overlimit._forks import PerProcess

_MOST_HOSTS = 1024
_LONGEST_CARE = 10.0
"""Seconds after a time that a host has named: a slow response holds nobody up for longer."""
_LONGEST_GUESS = 60.0
_POLL = 0.05
"""Seconds between the attempts of a request to begin while others find out whether the host takes any."""


@dataclass
class _Host:
    until: float
    """When it takes requests again, by the monotonic clock."""
    careful_until: float
    """When it is no longer to be asked with care."""
    at_once: int = 1
    """How many requests there may be at once until then."""
    guessed: float = 0.0
    """For how long it was held back the last time, if nobody had said for how long."""
    asking: set[object] = field(default_factory=set)
    """The requests that there are."""


class HeldBack:
    """The hosts that want no requests for now: so many at most, those that are held back the longest.

    When the time of a host is over, all that have waited for it would come at once and be refused again. So
    for as long again, up to ten seconds, one request asks it at a time, or as many as its last response has
    said that are left.
    """

    def __init__(self, most: int = _MOST_HOSTS) -> None:
        self._most = most
        self._hosts: dict[str, _Host] = {}
        self._lock = PerProcess(threading.Lock)

    def __len__(self) -> int:
        return len(self._hosts)

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldBack, (self._most,)

    def guess(self, host: str) -> float:
        """Return for how long to hold a host back that does not say it: a second, doubled up to a minute.

        Refusals of requests that were under way when it was held back count as that one.
        """
        known = self._hosts.get(host)
        if known is None or not known.guessed:
            return 1.0
        if time.monotonic() < known.until:
            return known.guessed
        return min(2 * known.guessed, _LONGEST_GUESS)

    def hold(self, host: str, seconds: float, guessed: float = 0.0) -> None:
        """Hold a host back for so long from now, or longer if it is held back already."""
        until = time.monotonic() + seconds
        careful_until = until + min(seconds, _LONGEST_CARE)
        with self._lock():
            known = self._hosts.setdefault(host, _Host(until, careful_until))
            known.until = max(until, known.until)
            known.careful_until = max(careful_until, known.careful_until)
            known.at_once, known.guessed = 1, guessed
            if len(self._hosts) > self._most:
                self._forget_some()

    def seconds_left(self, host: str) -> float:
        """Return for how much longer a host is held back."""
        known = self._hosts.get(host)
        return 0.0 if known is None else max(0.0, known.until - time.monotonic())

    def begin(self, host: str, request: object) -> float:
        """Let a request begin and return 0, or return after how many seconds it is to ask again."""
        if host not in self._hosts:
            return 0.0
        now = time.monotonic()
        with self._lock():
            known = self._hosts.get(host)
            if known is None or now >= known.careful_until:
                self._hosts.pop(host, None)
                return 0.0
            if now < known.until:
                return known.until - now
            if len(known.asking) >= known.at_once:
                return min(_POLL, known.careful_until - now)
            known.asking.add(request)
            return 0.0

    def end(self, host: str, request: object) -> None:
        """Let the next one begin in the place of a request, whatever has become of it."""
        if host in self._hosts:
            with self._lock():
                known = self._hosts.get(host)
                if known is not None:
                    known.asking.discard(request)

    def allow(self, host: str, at_once: int) -> None:
        """Note that a host takes requests again, and how many more if it says so; 0: it does not."""
        if host in self._hosts:
            with self._lock():
                known = self._hosts.get(host)
                if known is not None and known.until <= time.monotonic():
                    known.at_once, known.guessed = at_once or known.at_once, 0.0

    def _forget_some(self) -> None:
        """Forget those whose time is over, or else the one whose time is over first."""
        by_end = sorted(self._hosts.items(), key=lambda each: each[1].until)
        now = time.monotonic()
        over = [host for host, known in by_end if known.until <= now]
        for host in over or [by_end[0][0]]:
            del self._hosts[host]
