"""What a client learns of the limits of servers: never above its own limits, by what they say or refuse.

If a server says its quota, that is the number. Else it is found by additive increase and multiplicative
decrease, as TCP finds how much a network carries. Source: Dah-Ming Chiu and Raj Jain, "Analysis of the
increase and decrease algorithms for congestion avoidance in computer networks" (1989).
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypedDict

from overlimit._core import Decision
from overlimit._forks import PerProcess
from overlimit.http.fields import ServerLimit
from overlimit.limiter import Limiter, _derive
from overlimit.limits import FixedWindow, Limit

DECREASE = 0.7
STEPS = 20
"""How many increases lead from nothing to the ceiling; one of them is the floor."""
_LONGEST_PERIOD = 10.0
_ALIKE = 0.01
"""By what part a window that a server names may differ from that of a limit."""
_MANY = 10**9
_DAY = 86400
_UNDER_WAY = 60.0
"""Seconds after which what this process has added to a count is in it; if it is less, a new day has begun."""
_MOST_HOSTS = 1024

_log = logging.getLogger("overlimit")


class LearntStats(TypedDict):
    """What is learnt of one host."""

    number: int
    """What is in use of the limit with the shortest period."""
    ceiling: int
    """What was written."""
    why: str
    """Why it changed the last time."""


@dataclass
class _Host:
    limiter: Limiter
    """The one of these limits whose numbers follow what is learnt; it counts where the others do."""
    number: float
    since: float
    """When the current period began, by the monotonic clock."""
    seen: int
    """How many refusals all processes have met, as far as this one knows."""
    refused: float = 0.0
    """When this process noted the last of them."""
    why: str = "as written"
    used: float = 0.0
    """The largest part of the limit that was in use in this period."""
    is_told: bool = False
    """Whether the server says its quota."""


class Learning:
    """What a limiter learns of each host: thread-safe, and each process by itself.

    The processes that share a store see how often any of them was refused in the count of a policy beside the
    limiter's, which every turn reads. So they decrease together, and one refusal is one, whoever met it.
    """

    def __init__(self, limiter: Limiter, *, of_tokens: bool) -> None:
        self._limiter, self._of_tokens = limiter, of_tokens
        self._fastest = min(limiter.limits, key=lambda limit: limit.per)
        self.period = min(self._fastest.per, _LONGEST_PERIOD)
        """Seconds after which there is an increase if nothing was refused."""
        self.refusals = Limiter(
            FixedWindow(_MANY, per=_DAY),
            name=None if limiter.name is None else f"{limiter.name}.refusals",
            store=limiter.store,
            clock=limiter.clock,
            on_error=limiter.on_error,
        )
        """Counts the refusals by each host, and is locked while a host wants no requests."""
        self._hosts: dict[str, _Host] = {}
        self._lock = PerProcess(threading.Lock)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._limiter, self._of_tokens)

    def limiter_of(self, host: str) -> Limiter:
        """Return the limiter of a host, whose numbers change as more is learnt."""
        with self._lock():
            return self._known(host).limiter

    def stats(self) -> dict[str, LearntStats]:
        """Return what is learnt, by the host."""
        ceiling = self._fastest.quota
        return {
            host: {"number": int(known.number), "ceiling": ceiling, "why": known.why}
            for host, known in self._hosts.copy().items()
        }

    def begin(self, host: str, decision: Decision) -> int:
        """Note how much was in use when a request was admitted; return how many refusals there were by then.

        The last of the details is that of ``refusals``.
        """
        *own, last = decision.details or (None,)
        with self._lock():
            known = self._known(host)
            if last is None:  # the store fails, and nothing was counted
                return known.seen
            seen = self.count_in(decision)
            if seen > known.seen >= 0:
                self._decrease(host, known, "a request of another process was refused")
            if seen > known.seen or time.monotonic() - known.refused > _UNDER_WAY:
                known.seen = seen
            limits = known.limiter.limits
            shares = [1 - row.remaining / row.limit.quota for row in own if row.limit in limits]
            known.used = max(known.used, *shares, 0.0)
            return known.seen

    @staticmethod
    def count_in(decision: Decision) -> int:
        """Return how many refusals there were, by a decision whose last details are those of ``refusals``."""
        return _MANY - decision.details[-1].remaining

    def refused(self, host: str, seen: int) -> bool:
        """Note a refusal of a request that began after so many; return whether others are to count it, too.

        It is not if it was under way when the last refusal was noted, of which it is a part.
        """
        with self._lock():
            known = self._known(host)
            known.since, known.used = time.monotonic(), 0.0
            if seen < known.seen:
                return False
            known.seen, known.refused = seen + 1, known.since
            self._decrease(host, known, "a request was refused")
            return True

    def follow(self, host: str, said: Iterable[ServerLimit]) -> None:
        """Take the quotas that a server tells, if it does."""
        quotas = self._quotas(said)
        if not quotas:
            return
        written = self._limiter.limits
        limits = tuple(
            _of(limit, Fraction(quotas[place], limit.quota)) if place in quotas else limit
            for place, limit in enumerate(written)
        )
        with self._lock():
            known = self._known(host)
            known.is_told = True
            if limits != known.limiter.limits:
                number = limits[written.index(self._fastest)].quota
                self._set(host, known, number, "the server says so", limits)

    def passed(self, host: str) -> None:
        """Note that a request was not refused."""
        with self._lock():
            known = self._known(host)
            if not known.is_told and time.monotonic() - known.since >= self.period:
                if known.used > 0.5 and known.number < self._fastest.quota:
                    number = min(known.number + self._fastest.quota / STEPS, self._fastest.quota)
                    self._change(host, known, number, "no request was refused in a period")
                known.since, known.used = time.monotonic(), 0.0

    def _known(self, host: str) -> _Host:
        known = self._hosts.get(host)
        if known is None:
            while len(self._hosts) >= _MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            own = _derive(weakref.ref(self._limiter), self._limiter.limits)
            known = self._hosts[host] = _Host(own, self._fastest.quota, time.monotonic(), -1)
        return known

    def _quotas(self, said: Iterable[ServerLimit]) -> dict[int, int]:
        """Return the quotas that a server tells, by the places of the limits that they are about."""
        found: dict[int, int] = {}
        limits = self._limiter.limits
        for told in said:
            is_of_tokens = (told.name or "").endswith("tokens")
            if not told.quota or is_of_tokens != self._of_tokens:
                continue
            for place, limit in enumerate(limits):
                if _are_alike(told.window, limit.per) or (told.window is None and len(limits) == 1):
                    found[place] = min(told.quota, found.get(place, limit.quota))
        return found

    def _decrease(self, host: str, known: _Host, why: str) -> None:
        known.since, known.used = time.monotonic(), 0.0
        floor = max(1.0, self._fastest.quota / STEPS)
        if not known.is_told and known.number > floor:
            self._change(host, known, max(floor, known.number * DECREASE), why)

    def _change(self, host: str, known: _Host, number: float, why: str) -> None:
        share = Fraction(max(1, math.floor(number)), self._fastest.quota)
        limits = tuple(_of(limit, share) for limit in self._limiter.limits)
        self._set(host, known, number, why, limits)

    def _set(self, host: str, known: _Host, number: float, why: str, limits: tuple[Limit, ...]) -> None:
        known.number, known.why = number, why
        known.limiter._change_limits(limits)
        _log.info("%s: %d of %s at most, as %s", host, number, self._fastest.label, why)


def _of(limit: Limit, share: Fraction) -> Limit:
    return limit if share >= 1 else limit.scaled(share)


def _are_alike(window: float | None, per: float) -> bool:
    return window is not None and abs(window - per) <= _ALIKE * per


def _made(limiter: Limiter, of_tokens: bool) -> Learning:
    return Learning(limiter, of_tokens=of_tokens)
