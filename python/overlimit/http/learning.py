"""What a client learns of the limits of servers: never above its own limits, by what they say or refuse.

What a server says of the quota of a limit is the most of it, for as long as its period. Up to that, and where
it says nothing, the number is found by additive increase and multiplicative decrease, as TCP finds how much a
network carries. Source: Dah-Ming Chiu and Raj Jain, "Analysis of the increase and decrease algorithms for
congestion avoidance in computer networks" (1989).
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
from functools import partial
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
class _Number:
    """What is learnt of one limit."""

    ceiling: int
    """What was written."""
    used: float
    """What is in use of it."""
    said: float
    """The most that the server has said, or else the ceiling."""
    old_at: float = 0.0
    """When that is too old to count, by the monotonic clock."""

    def follow(self, quota: int, old_at: float) -> None:
        """Take what a server says: at once, unless refusals have led below what it said before."""
        said = min(quota, self.ceiling)
        self.used = said if self.used >= self.said else min(self.used, said)
        self.said, self.old_at = said, old_at

    def decrease(self) -> None:
        """Take away a part of what is in use, but not below the floor."""
        floor = max(1.0, self.ceiling / STEPS)
        self.used = min(self.used, max(floor, round(self.used * DECREASE, 6)))

    def increase(self, now: float) -> None:
        """Add a step, up to what the server says, or to the ceiling if that is old."""
        most = self.said if now < self.old_at else self.ceiling
        self.used = min(self.used + self.ceiling / STEPS, max(most, self.used))

    def of(self, limit: Limit) -> Limit:
        """Return the limit with the number in use."""
        whole = max(1, math.floor(self.used))
        return limit if whole >= limit.quota else limit.scaled(Fraction(whole, limit.quota))


@dataclass
class _Host:
    limiter: Limiter
    """The one of these limits whose numbers follow what is learnt; it counts where the others do."""
    numbers: tuple[_Number, ...]
    """Of each limit in its place."""
    since: float
    """When the current period began, by the monotonic clock."""
    seen: int
    """How many refusals all processes have met, as far as this one knows."""
    refused: float = 0.0
    """When this process noted the last of them."""
    why: str = "as written"
    used: float = 0.0
    """The largest part of the limit that was in use in this period."""


class Learning:
    """What a limiter learns of each host: thread-safe, and each process by itself.

    The processes that share a store see how often any of them was refused in the count of a policy beside the
    limiter's, which every turn reads. So they decrease together, and one refusal is one, whoever met it.
    """

    def __init__(self, limiter: Limiter, *, of_tokens: bool) -> None:
        self._limiter, self._of_tokens = limiter, of_tokens
        self._fastest = min(limiter.limits, key=lambda limit: limit.per)
        self._place = limiter.limits.index(self._fastest)
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
        return partial(Learning, of_tokens=self._of_tokens), (self._limiter,)

    def limiter_of(self, host: str) -> Limiter:
        """Return the limiter of a host, whose numbers change as more is learnt."""
        with self._lock():
            return self._known(host).limiter

    def stats(self) -> dict[str, LearntStats]:
        """Return what is learnt, by the host."""
        ceiling = self._fastest.quota
        return {
            host: {"number": int(known.numbers[self._place].used), "ceiling": ceiling, "why": known.why}
            for host, known in self._hosts.copy().items()
        }

    def begin(self, host: str, decision: Decision) -> int:
        """Note how much was in use when a request was admitted; return how many refusals there were by then.

        The last of the details is that of ``refusals``.
        """
        *own, last = decision.details or (None,)
        with self._lock():
            known = self._known(host)
            if last is None or last.remaining == 0:  # the store fails, or the lock hides the count
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

    def refused(self, host: str, seen: int, said: Iterable[ServerLimit] = ()) -> bool:
        """Note a refusal of a request that began after so many; return whether others are to count it, too.

        It is not if it was under way when the last refusal was noted, of which it is a part, or if it says
        itself that a quota is used up which the server has told.
        """
        with self._lock():
            known = self._known(host)
            known.since, known.used = time.monotonic(), 0.0
            is_told = any(known.since < number.old_at for number in known.numbers)
            if seen < known.seen or (is_told and any(map(_is_used_up, said))):
                return False
            known.seen, known.refused = seen + 1, known.since
            self._decrease(host, known, "a request was refused")
            return True

    def follow(self, host: str, said: Iterable[ServerLimit]) -> None:
        """Take the quotas that a server tells, if it does: of requests or of tokens, as the limiter's are."""
        quotas = self._quotas(said)
        if quotas:
            with self._lock():
                known, now = self._known(host), time.monotonic()
                for place, quota in quotas.items():
                    lasts = max(self._limiter.limits[place].per, _LONGEST_PERIOD)
                    known.numbers[place].follow(quota, now + lasts)
                self._use(host, known, "the server says so")

    def passed(self, host: str) -> None:
        """Note that a request was not refused."""
        with self._lock():
            known, now = self._known(host), time.monotonic()
            if now - known.since >= self.period:
                if known.used > 0.5:
                    for number in known.numbers:
                        number.increase(now)
                    self._use(host, known, "no request was refused in a period")
                known.since, known.used = now, 0.0

    def _known(self, host: str) -> _Host:
        known = self._hosts.get(host)
        if known is None:
            while len(self._hosts) >= _MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            limits = self._limiter.limits
            own = _derive(weakref.ref(self._limiter), limits)
            numbers = tuple(_Number(each.quota, each.quota, each.quota) for each in limits)
            known = self._hosts[host] = _Host(own, numbers, time.monotonic(), -1)
        return known

    def _quotas(self, said: Iterable[ServerLimit]) -> dict[int, int]:
        """Return the quotas that a server tells, by the places of the limits that they are about."""
        found: dict[int, int] = {}
        limits, unit = self._limiter.limits, "tokens" if self._of_tokens else "requests"
        for told in said:
            if not told.quota or (told.unit or "requests") != unit:
                continue
            for place, limit in enumerate(limits):
                if _are_alike(told, limit.per, is_only=len(limits) == 1):
                    # Of a bucket it is a share of the rate, and as much of what there may be at once.
                    quota = max(1, told.quota * limit.quota // getattr(limit, "rate", limit.quota))
                    found[place] = min(quota, found.get(place, quota))
        return found

    def _decrease(self, host: str, known: _Host, why: str) -> None:
        known.since, known.used = time.monotonic(), 0.0
        for number in known.numbers:
            number.decrease()
        self._use(host, known, why)

    def _use(self, host: str, known: _Host, why: str) -> None:
        """Have a host's limiter go by its numbers, and say so if that changes any."""
        written, number = self._limiter.limits, known.numbers[self._place].used
        limits = tuple(each.of(limit) for each, limit in zip(known.numbers, written, strict=True))
        if limits != known.limiter.limits:
            known.why = why
            known.limiter._change_limits(limits)
            _log.info("%s: %d of %s at most, as %s", host, number, self._fastest.label, why)


def _is_used_up(told: ServerLimit) -> bool:
    return told.remaining == 0 or (told.remaining is None and told.quota is not None)


def _are_alike(told: ServerLimit, per: float, *, is_only: bool) -> bool:
    """Whether what a server says is of a limit of this period; without a window it may be of the only one."""
    if told.window is None:
        return is_only and (told.reset_after or 0.0) <= per * (1 + _ALIKE)
    return abs(told.window - per) <= _ALIKE * per
