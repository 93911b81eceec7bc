"""Clients follow servers whose limits move, in the words of each provider, and in simulated time."""

from __future__ import annotations

import heapq
import itertools
import math
from datetime import UTC, datetime
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from overlimit import Limiter, ManualClock, RateLimitExceeded, SlidingWindow, hit_all
from overlimit.http import client, fields, held_back, learning
from overlimit.http.client import Exchange, Turns, Waiting

START, MINUTE = 1_700_000_040, 60
PHASES = [(300, 72), (480, 24), (420, 48)]
"""For so many seconds the server grants so many requests a minute."""
END = sum(seconds for seconds, _ in PHASES)


def openai(limit, left, reset, _):
    return {
        "x-ratelimit-limit-requests": limit,
        "x-ratelimit-remaining-requests": left,
        "x-ratelimit-reset-requests": f"{reset:.3f}s",
        "x-ratelimit-limit-tokens": 9000,
        "x-ratelimit-remaining-tokens": 8000,
        "x-ratelimit-reset-tokens": "6ms",
    }


def anthropic(limit, left, reset, now):
    at = datetime.fromtimestamp(math.ceil(now + reset), UTC).isoformat().replace("+00:00", "Z")
    return {
        "anthropic-ratelimit-requests-limit": limit,
        "anthropic-ratelimit-requests-remaining": left,
        "anthropic-ratelimit-requests-reset": at,
        "anthropic-ratelimit-tokens-limit": 9000,
        "anthropic-ratelimit-tokens-remaining": 8000,
        "anthropic-ratelimit-tokens-reset": at,
    }


def github(limit, left, reset, now):
    return {
        "x-ratelimit-limit": limit,
        "x-ratelimit-remaining": left,
        "x-ratelimit-reset": math.ceil(now + reset),
    }


def kong(limit, left, reset, _):
    return {
        "X-RateLimit-Limit-Minute": limit,
        "X-RateLimit-Remaining-Minute": left,
        "X-RateLimit-Limit-Hour": 9000,
        "X-RateLimit-Remaining-Hour": 8000,
        "RateLimit-Limit": limit,
        "RateLimit-Remaining": left,
        "RateLimit-Reset": math.ceil(reset),
    }


def draft(limit, left, reset, _):
    return {
        "RateLimit-Policy": f'"default";q={limit};w={MINUTE}',
        "RateLimit": f'"default";r={left};t={math.ceil(reset)}',
    }


def next_draft(limit, left, reset, _):
    return {
        "RateLimit-Policy": f'"default";q={limit};w={MINUTE}',
        "RateLimit": f'"default";a={left};w={math.ceil(reset)};c=1',
    }


class Simulation:
    """Does what the steps of clients ask for, one event after the other."""

    def __init__(self):
        self.clock = ManualClock(START)
        self._events, self._numbers = [], itertools.count()

    @property
    def now(self):
        return self.clock.now() - START

    def later(self, seconds, work, *given):
        heapq.heappush(self._events, (self.now + max(seconds, 1e-6), next(self._numbers), work, given))

    def run(self):
        while self._events:
            at, _, work, given = heapq.heappop(self._events)
            self.clock.advance(max(0.0, at - self.now))
            work(*given)

    def go_on(self, steps, then, answer=None):
        try:
            step = steps.send(answer)
        except StopIteration as end:
            then(end.value)
        else:
            step()(lambda found: self.go_on(steps, then, found))

    def waiting(self):
        """Return how clients wait here: what these return is told what to do with the answer."""
        return Waiting(
            lambda seconds: lambda then: self.later(seconds, then, None),
            lambda charges, timeout: lambda then: self._acquire(charges, self.now + (timeout or 1e9), then),
            lambda method, *given, **named: lambda then: then(method(*given, **named)),
        )

    def _acquire(self, charges, deadline, then):
        decision = hit_all(charges)
        if decision or self.now + decision.retry_after > deadline:
            then(decision)
        else:
            self.later(decision.retry_after, self._acquire, charges, deadline, then)


class Server:
    """Grants what its phases say in each minute, or in the last 60 seconds; says what is left."""

    def __init__(self, simulation, says, has_windows):
        self._time, self._says, self._has_windows = simulation, says, has_windows
        self._granted = []
        self.passed, self.refused = [], []
        self.used_up = {}
        """Until when nothing is left, as it has said, by the instant at which it did."""

    def answer(self):
        now = self._time.now
        ends = itertools.accumulate(seconds for seconds, _ in PHASES)
        limit = next((limit for end, (_, limit) in zip(ends, PHASES, strict=True) if now < end), 48)
        begin = now // MINUTE * MINUTE if self._has_windows else now - MINUTE
        self._granted = [at for at in self._granted if at > begin - self._has_windows * 1e-6]
        passes = len(self._granted) < limit
        self._granted += [now] * passes
        (self.passed if passes else self.refused).append(now)
        left = limit - len(self._granted)
        until = (begin if self._has_windows else self._granted[max(0, -left)]) + MINUTE
        if left <= 0:
            self.used_up[now] = until
        said = self._says(limit, max(0, left), until - now, now + START)
        headers = {"Date": formatdate(now + START, usegmt=True)} | {
            key: str(value) for key, value in said.items()
        }
        refusal = 403 if self._says is github else 429
        return SimpleNamespace(status_code=200 if passes else refusal, headers=headers)


@pytest.fixture
def simulation(monkeypatch):
    made = Simulation()
    time = SimpleNamespace(monotonic=lambda: made.now + 1000.0, time=made.clock.now)
    for module in (client, held_back, learning, fields):
        monkeypatch.setattr(module, "time", time)
    return made


@pytest.fixture(params=[False, True], ids=["last minute", "each minute"])
def ask_until_the_end(request, simulation):
    """Return a function that has so many workers ask a server, one request after the other."""

    def ask(says, workers, most, **options):
        server = Server(simulation, says, request.param)
        limiter = Limiter(SlidingWindow(most, per=MINUTE), clock=simulation.clock, name="api")
        turns = Turns("a test", limiter, lambda given: given, statuses=[403, 429], max_wait=90, **options)

        def go(_=None):
            if simulation.now < END:
                simulation.go_on(turns.sending(exchange(simulation, server)), go)

        for worker in range(workers):
            simulation.later(worker / workers, go)
        simulation.run()
        return server

    return ask


def exchange(simulation, server):
    return Exchange(
        SimpleNamespace(url="http://a/", method="GET"),
        can_repeat=True,
        send=lambda: lambda then: simulation.later(0.05, lambda: then(server.answer())),
        close=lambda _: lambda then: then(None),
        record=None,
        waiting=simulation.waiting(),
        error=RateLimitExceeded,
    )


def free(most):
    """Return how many requests the server grants whoever sends at most so many in a minute."""
    return sum(min(limit, most) * seconds / MINUTE for seconds, limit in PHASES)


EACH = pytest.mark.parametrize("says", [openai, anthropic, github, kong, draft, next_draft])


@EACH
def test_who_learns_is_hardly_refused_and_uses_most(ask_until_the_end, says):
    server = ask_until_the_end(says, workers=8, most=60, learn=True, retries=0)
    assert len(server.refused) < 0.02 * (len(server.passed) + len(server.refused))
    assert 0.85 * free(60) < len(server.passed) <= 1.03 * free(60)


@EACH
def test_a_host_is_held_back_until_the_time_that_it_says_and_no_longer(ask_until_the_end, says):
    """Whole seconds are later by up to a second, and a ``Date`` before an instant earlier by another."""
    server = ask_until_the_end(says, workers=1, most=10_000)
    asked = sorted(server.passed + server.refused)
    late = [
        (min(at for at in asked if at > said), until)
        for said, until in server.used_up.items()
        if until < END - 3
    ]
    assert len(server.used_up) >= 15
    assert all(until - 0.001 <= at <= until + 2.2 for at, until in late)
    assert len(server.refused) <= 2
    assert 0.85 * free(72) < len(server.passed) <= 1.03 * free(72) + 72
