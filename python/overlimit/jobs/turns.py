"""When it is a job's turn: whether it runs now, or is put back, and for how long."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from overlimit._core import Decision
from overlimit._messages.texts import short_repr
from overlimit._steps import Steps
from overlimit.aio import AsyncLimiter
from overlimit.errors import RateLimitExceeded
from overlimit.limiter import Limiter
from overlimit.limits import LeakyBucket, Limit
from overlimit.waiting.throttled_calls import check_cost, check_identifier

Do: TypeAlias = Callable[..., Any]

_SLEEP = 0.05  # seconds that a worker may sleep for a turn
_LONGEST = 600.0  # a job is put back for that long, and then for the rest: brokers repeat what takes hours
_PLACES, _LEAST = 1_000_000, Fraction(1, 1_000_000)  # of a line of refused jobs, and a second's least part


class Turn(NamedTuple):
    """When a job that was put back comes again, at which try of its framework, and whether it may run."""

    at: float = 0.0
    attempt: Any = None
    is_granted: bool = False

    @property
    def delay(self) -> float:
        """Seconds for which to put it back."""
        return max(0.0, min(self.at - time.time(), _LONGEST))


class Job(NamedTuple):
    """A job that a framework is running."""

    attempt: Any
    """What a retry by its framework changes, so that this takes another turn."""
    came: Do
    """Returns what it was put back with, as a list; None if it was not."""
    put_back: Do
    """Puts it back until a turn, and raises or returns what ends it here."""
    late: float = 1.0
    """Seconds by which its framework may bring it late; after that its turn has passed, since the jobs of a
    worker that died come back all at once."""


class JobLimit(NamedTuple):
    """What a job spends of which limiter; each may be a function of its arguments."""

    limiter: Any
    identifiers: Any
    cost: Any

    def checked(self) -> JobLimit:
        """Return it; raise TypeError or ValueError if something is wrong."""
        if not callable(self.limiter):
            _limiter(self.limiter)
        for identifier in _several(self.identifiers) or ("",):
            check_identifier(identifier)
        check_cost(self.cost)
        return self

    def asking(self, job: Job, hit: Do, sleep: Do, /, *given: Any, **named: Any) -> Steps[Do, Any]:
        """Return None once it is the job's turn, or else what ``put_back`` has returned."""
        limiter, identifiers, cost = (each(*given, **named) if callable(each) else each for each in self)
        limiter, came, now = _limiter(limiter), Turn(*((yield job.came) or ())), time.time()
        early = max(0.0, came.at - now) if came.attempt == job.attempt else 0.0
        if early > _SLEEP:
            return (yield partial(job.put_back, came))
        yield partial(sleep, early)
        is_granted = came.is_granted and came.attempt == job.attempt
        if is_granted and now - came.at < max(job.late, *_spaces(limiter, cost)):
            return None
        subjects = (each(*given, **named) if callable(each) else each for each in _several(identifiers))
        ask, left = partial(hit, limiter, *subjects, cost=cost), _SLEEP - early
        decision = yield ask
        if not decision and decision.retry_after <= left:
            yield partial(sleep, decision.retry_after)
            decision, left = (yield ask), left - decision.retry_after
        if decision and decision.delay <= left:
            return (yield partial(sleep, decision.delay))
        if decision.retry_after == math.inf:
            raise RateLimitExceeded(decision)
        wait = decision.delay or decision.retry_after + (yield from _place(limiter, decision, hit))
        return (yield partial(job.put_back, Turn(time.time() + wait, job.attempt, bool(decision))))


def _several(identifiers: Any) -> tuple[Any, ...]:
    return tuple(identifiers) if isinstance(identifiers, (list, tuple)) else (identifiers,)


def _spaces(limiter: Limiter, cost: int) -> list[float]:
    """Return for how long a turn keeps others from having theirs, beginning with 0."""
    queues = (each for each in limiter.limits if isinstance(each, LeakyBucket))
    return [0.0, *(float(cost * each.per / each.rate) for each in queues)]


def _limiter(given: Any) -> Limiter:
    found = given._limiter if isinstance(given, AsyncLimiter) else given
    if not isinstance(found, Limiter):
        raise TypeError(f"limiter must be a Limiter, or a function that returns one, not {short_repr(given)}")
    return found


def _place(limiter: Limiter, refused: Decision, hit: Do) -> Steps[Do, float]:
    """Return the seconds in which those that were refused before come back, as fast as the limit admits."""
    if refused.limit is None or refused.identifier is None:  # the store has failed
        return random.uniform(0, 1 + refused.retry_after)
    line = _line(limiter, refused.limit)
    place = yield partial(hit, line, refused.identifier, cost=refused.cost)
    return place.delay if place and place.limit else random.uniform(0, line.limits[0].window)


@lru_cache
def _line(limiter: Limiter, limit: Limit) -> Limiter:
    """Return where those wait whom a limit has refused: a queue that drains as fast as it admits."""
    name = None if limiter.name is None else f"{limiter.name[:59]}.line"
    pace = LeakyBucket(1, max(_LEAST, Fraction(limit.window) / limit.quota), capacity=_PLACES)
    return Limiter(pace, name=name, store=limiter.store, on_error="allow")
