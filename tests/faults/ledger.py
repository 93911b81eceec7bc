"""What callers know of their calls, to be held against what the server has counted."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from overlimit import Decision, Limiter, StoreError, StoreTimeout, StoreUnavailable
from servers.patience import eventually

from .bounds import LATE, LATEST


class Ledger:
    """The outcomes of calls of cost 1, and how long each took, from any number of threads.

    ``acknowledged`` were admitted by the store; ``unknown`` failed in a way that may have charged them, or
    were answered by someone else than the store; ``failed`` failed without a charge; ``refused`` were.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged = self.refused = self.failed = self.unknown = 0
        self.errors: list[StoreError] = []
        self.seconds: list[float] = []

    def hit(self, limiter: Limiter, *identifiers: str) -> Decision | StoreError:
        """Hit, enter the outcome, and return it."""
        began = time.monotonic()
        try:
            outcome: Decision | StoreError = limiter.hit(*identifiers)
        except StoreError as error:
            outcome = error
        took = time.monotonic() - began
        with self._lock:
            self._enter(outcome)
            self.seconds.append(took)
        return outcome

    def _enter(self, outcome: Decision | StoreError) -> None:
        if isinstance(outcome, StoreError):
            self.errors.append(outcome)
            self.unknown += outcome.maybe_charged
            self.failed += not outcome.maybe_charged
        elif outcome.source != "store":
            self.unknown += 1
        else:
            self.acknowledged += outcome.allowed
            self.refused += not outcome.allowed

    def hit_times(self, times: int, limiter: Limiter, *identifiers: str) -> list[Decision | StoreError]:
        return [self.hit(limiter, *identifiers) for _ in range(times)]

    def hit_from_threads(self, limiters: Sequence[Limiter], *identifiers: str, times: int) -> None:
        """Hit so often on each limiter, each in a thread of its own, all at once."""
        with ThreadPoolExecutor(len(limiters)) as pool:
            for work in [pool.submit(self.hit_times, times, each, *identifiers) for each in limiters]:
                work.result()

    def hit_until_told(self, why: str, limiter: Limiter, *identifiers: str) -> None:
        """Hit three times and until it is told that nothing was charged and ``why``; none may be admitted.

        Some may end as StoreTimeout, because on a busy machine the answer that says why may come too late.
        """
        outcomes = self.hit_times(3, limiter, *identifiers)
        eventually(lambda: outcomes.append(self.hit(limiter, *identifiers)) or why in str(outcomes[-1]))
        told = [each for each in outcomes if not isinstance(each, StoreTimeout)]
        assert all(isinstance(each, StoreUnavailable) and not each.maybe_charged for each in told), told

    def hit_for(self, seconds: float, limiter: Limiter, *identifiers: str) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.hit(limiter, *identifiers)

    @contextmanager
    def hammering(
        self, limiter: Limiter, *identifiers: str, threads: int = 4, pause: float = 0.0
    ) -> Iterator[None]:
        """Hit from so many threads while the block runs, each with this pause in seconds between two hits."""
        over = threading.Event()

        def hammer() -> None:
            while not over.wait(pause):
                self.hit(limiter, *identifiers)

        with ThreadPoolExecutor(threads) as pool:
            work = [pool.submit(hammer) for _ in range(threads)]
            try:
                yield
            finally:
                over.set()
        for each in work:
            each.result()

    @property
    def slowest(self) -> float:
        return max(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def assert_in_time(self, timeout: float) -> None:
        """No call outlasted its timeout by much, and hardly any by more than a machine's noise."""
        assert self.median < timeout + LATE, sorted(self.seconds)[-20:]
        assert self.slowest < timeout + LATEST

    def assert_accounts_for(self, counted: int) -> None:
        """The server charged what it acknowledged, and besides at most what nobody knows of."""
        surplus = counted - self.acknowledged
        assert 0 <= surplus <= self.unknown, (
            f"the server counts {counted}, {self.acknowledged} were acknowledged and {self.unknown} unknown"
        )
