"""Two copies of a key live, lease and merge on the server as the oracle's do (``docs/semantics.md``)."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import FixedWindow, Limiter, ManualClock, Penalty, SlidingWindow, TokenBucket
from overlimit.command_line.operating.values import LOCK_TAG, decoded

from .all_algorithms import of_each_algorithm
from .answers import answer_of, expected_of
from .leasing import Leased, Leasing
from .oracle import Oracle, OracleDecision, Records
from .oracle.penalty import Lock
from .oracle.records import Record
from .restoring import Restoring
from .strategies import (
    LAST_US,
    START_US,
    durations_of,
    examples,
    limits,
    moves,
    penalties,
    rates,
    renumbered,
    short_period,
)

pytestmark = pytest.mark.longer_in_prove

LIVES = [1, 3, 999, 1_000, 50_000, 1_000_000, 10_000_000]


@dataclass(frozen=True)
class Step:
    """Move the clock, then do something to a copy."""

    kind: str  # hit | charge | lease | refund | give_back | lock | unlock | copy | restore
    side: int
    cost: int
    extra: int
    life: int
    move_us: int
    version: int

    @property
    def is_noted(self) -> bool:
        """Whether a lock is that of a process which remembers."""
        return self.extra > 0


large_buckets = st.builds(TokenBucket, rates, short_period, burst=st.integers(5, 200))
"""Which hold what is leased."""


@st.composite
def histories(draw: Any) -> tuple[list[tuple[Any, ...]], Any, list[Step]]:
    """Two versions of a policy, its penalty, and what happens to two copies of a key."""
    policy = (draw(limits | large_buckets), *draw(st.lists(limits, max_size=1)))
    other = tuple(draw(renumbered(limit)) for limit in policy) if draw(st.booleans()) else policy
    moves_us = moves(durations_of(policy))
    kinds = ["hit"] * 8 + ["lease"] * 6 + ["refund", "give_back", "restore"] * 3
    kinds += ["charge", "lock", "unlock", "copy"]
    step = st.builds(
        Step,
        st.sampled_from(kinds),
        st.integers(0, 1),
        st.sampled_from([1, 1, 1, 2, 3]),
        st.sampled_from([1, 2, 9, 0]),
        st.sampled_from(LIVES),
        st.just(0) | st.just(0) | moves_us.map(abs),
        st.integers(0, 1),
    )
    runs = draw(st.lists(st.lists(step, min_size=1), min_size=1, max_size=6))
    penalty = draw(penalties) if draw(st.integers(0, 3)) == 3 else None
    return [policy, other], penalty, [step for run in runs for step in run]


@st.composite
def histories_of_locks(draw: Any) -> tuple[list[tuple[Any, ...]], Any, list[Step]]:
    """The same of a limit that is soon exceeded, by who is punished, locked and unlocked meanwhile."""
    kinds = ["hit"] * 4 + ["lock", "unlock", "unlock", "copy", "restore", "restore"]
    step = st.builds(
        Step,
        st.sampled_from(kinds),
        st.integers(0, 1),
        st.just(1),
        st.sampled_from([0, 1, 1]),
        st.just(0),
        st.sampled_from([0, 1, 300_000, 1_000_000, 2_500_000]),
        st.just(0),
    )
    penalty = Penalty([2, 5], forget_after=draw(st.sampled_from([None, 1])))
    return [(FixedWindow(1, 100),)] * 2, penalty, draw(st.lists(step, min_size=6, max_size=20))


class Copies:
    """Two copies of one key, each with its oracle: on the server they are two identifiers."""

    names = map("copies-{}".format, itertools.count())

    def __init__(
        self, policies: list[tuple[Any, ...]], penalty: Any, store: Any, raw: Any, prefix: str
    ) -> None:
        self.name, self.raw = next(self.names), raw
        self.now, self.clock = START_US, ManualClock(start=START_US / 1e6)
        self.keys = [f"{prefix}1:{self.name}:{side}" for side in "ab"]
        self.limiters = [
            Limiter(list(policy), name=self.name, store=store, clock=self.clock, penalty=penalty)
            for policy in policies
        ]
        created: itertools.count[int] = itertools.count()  # of both copies, as by one server's clock
        self.records = [Records(created=created), Records(created=created)]
        self.policies, self.penalty = policies, penalty
        self.restoring = [Restoring(raw, policy) for policy in policies]
        self.leasing = [[Leasing(raw, key, policy, penalty) for policy in policies] for key in self.keys]
        self.charged: list[list[tuple[int, Any, OracleDecision]]] = [[], []]
        self.leased: list[list[tuple[int, Leased, OracleDecision]]] = [[], []]
        self.seen: Counter[str] = Counter()

    def oracle(self, step: Step) -> Oracle:
        return Oracle(self.policies[step.version], self.name, self.records[step.side], self.penalty)

    def go_on(self, step: Step) -> None:
        self.now = min(self.now + step.move_us, LAST_US)
        self.clock.set(self.now / 1e6)
        getattr(self, step.kind)(step)
        self.check(step.side)

    def check(self, side: int) -> None:
        for version, limiter in enumerate(self.limiters):
            oracle = Oracle(self.policies[version], self.name, self.records[side], self.penalty)
            for cost in (0, 1, 3):
                expected = oracle.peek(self.now, ["ab"[side]], cost)
                assert answer_of(limiter.peek("ab"[side], cost=cost)) == expected_of(expected)
            _, lock = oracle.lock_of(self.now, "ab"[side])
            assert self.lock_of(side) == lock

    def lock_of(self, side: int) -> Record | None:
        value = decoded(self.raw.get(self.keys[side]) or b"")
        for record in [] if value is None else value.records:
            if record.tag == LOCK_TAG and record.expires_at > self.now:
                start, end, mark = record.state
                return Record(
                    record.expires_at, Lock(start, end, mark // 2 - 1 if mark > 1 else None, mark % 2 == 1)
                )
        return None

    def has_locks(self) -> bool:
        return any(self.lock_of(side) is not None for side in (0, 1))

    def hit(self, step: Step) -> None:
        who = "ab"[step.side]
        expected = getattr(self.oracle(step), step.kind)(self.now, [who], step.cost)
        decision = getattr(self.limiters[step.version], step.kind)(who, cost=step.cost)
        assert answer_of(decision) == expected_of(expected)
        self.charged[step.side].append((step.version, decision, expected))

    charge = hit

    def lease(self, step: Step) -> None:
        oracle = self.oracle(step)
        has_calendar = any(getattr(limit, "start", None) == "calendar" for limit in oracle.limits)
        if has_calendar or self.penalty is not None:
            return  # none is asked for
        expected, extra = oracle.lease(self.now, "ab"[step.side], step.cost, step.extra, step.life)
        leased = self.leasing[step.side][step.version].lease(self.now, step.cost, step.extra, step.life)
        assert (leased.extra if leased else None) == (extra if expected.allowed else None)
        if leased is not None:
            written = [pair.record for pair in oracle.pairs_of(self.now, "ab"[step.side], 0)]
            assert sorted(leased.expiries) == sorted(record.expires_at for record in written)
            self.leased[step.side].append((step.version, leased, expected))
            self.seen["leased"] += extra > 0

    def refund(self, step: Step) -> None:
        if self.charged[step.side]:
            version, decision, expected = self.charged[step.side].pop()
            self.limiters[version].refund(decision)
            self.oracle(step).refund(self.now, expected)

    def give_back(self, step: Step) -> None:
        """Some units of what was leased, perhaps more than once: nobody keeps account here."""
        if self.leased[step.side]:
            version, leased, expected = self.leased[step.side][-1]
            self.leasing[step.side][version].give_back(self.now, leased, step.cost)
            once = replace(expected, receipts=list(expected.receipts))
            self.oracle(step).refund(self.now, once, step.cost)

    def lock(self, step: Step) -> None:
        length = {"lock": step.cost * 1_000_000, "unlock": 0}[step.kind]
        who, oracle = "ab"[step.side], self.oracle(step)
        if step.is_noted:
            self.restoring[0].lock(self.keys[step.side], self.now, length)
            oracle.lock(self.now, who, length, noted=True)
        elif length:
            self.limiters[0].lock(who, length / 1e6)
            oracle.lock(self.now, who, length)
        else:
            self.limiters[0].unlock(who)
            if oracle.lock_of(self.now, who)[1] is not None:
                oracle.lock(self.now, who, 0)

    unlock = lock

    def copy(self, step: Step) -> None:
        """Make one copy what the other is, as a replica that has caught up; receipts are those of both."""
        here, there = self.keys[step.side], self.keys[1 - step.side]
        self.raw.delete(here)
        if (value := self.raw.get(there)) is not None:
            self.raw.set(here, value, px=3_600_000)
        self.records[step.side] = renamed(self.records[1 - step.side], "ab"[step.side])
        self.charged[step.side], self.leased[step.side] = [], []

    def restore(self, step: Step) -> None:
        """Tell one copy of the other."""
        value = self.raw.get(self.keys[1 - step.side]) or b""
        told = renamed(self.records[1 - step.side], "ab"[step.side])
        before = [self.used(side, step.version) for side in (step.side, 1 - step.side)]
        had_locks = self.has_locks()  # while there is one, nothing is left
        self.oracle(step).restore(self.now, "ab"[step.side], told)
        once = self.restoring[step.version].restore(self.keys[step.side], value, self.now)
        assert self.restoring[step.version].restore(self.keys[step.side], value, self.now) == once
        if self.penalty is None and not had_locks and not self.has_locks():
            for own, other, both in zip(*before, self.used(step.side, step.version), strict=True):
                assert max(own, other) <= both <= own + other
        self.seen["restored"] += bool(value)

    def used(self, side: int, version: int) -> list[int]:
        """What is used of each limit of a copy."""
        none = self.limiters[version].peek("nobody", cost=0).details
        rows = self.limiters[version].peek("ab"[side], cost=0).details
        return [most.remaining - row.remaining for most, row in zip(none, rows, strict=True)]


def renamed(records: Records, identifier: str) -> Records:
    """The records of one identifier as those of another."""
    other = Records(created=records.created)
    for key, record in records.written.items():
        other.written[(key[0], identifier.encode(), *key[2:])] = copy.deepcopy(record)
    for owner, creation in records.creations.items():
        other.creations[(owner[0], identifier.encode())] = creation
    return other


@pytest.fixture
def live(redis_store: Any, raw: Any, prefix: str) -> Callable[..., Counter[str]]:
    """Return a function that has copies live through histories, and counts what happened."""

    def live(count: int, histories: Any) -> Counter[str]:
        seen: Counter[str] = Counter()

        @examples(count)
        @given(history=histories)
        def go_on(history: Any) -> None:
            policies, penalty, steps = history
            copies = Copies(policies, penalty, redis_store, raw, prefix)
            for step in steps:
                copies.go_on(step)
            seen.update(copies.seen)

        go_on()
        return seen

    return live


def test_copies_live_and_merge_as_those_of_the_oracle(live):
    seen = live(70, histories())
    assert seen["restored"] > 60, seen
    assert seen["leased"] > 30, seen


def test_locks_merge_as_those_of_the_oracle(live):
    seen = live(70, histories_of_locks())
    assert seen["restored"] > 60, seen


class TestTheScript:
    """Whatever it is given: no error, no lock-out, and never less than the key had."""

    KINDS = of_each_algorithm(9, 10) | {"debt": TokenBucket(9, 10, debt=3)}
    POLICY = (SlidingWindow(9, 10), TokenBucket(9, 10), FixedWindow(9, 10))

    @pytest.fixture
    def key(self, prefix: str) -> str:
        return f"{prefix}1:hostile:a"

    @pytest.fixture
    def limiter_for(self, redis_store: Any, clock: ManualClock) -> Callable[..., Limiter]:
        clock.set(START_US / 1e6)
        return lambda *limits: Limiter(list(limits), name="hostile", store=redis_store, clock=clock)

    def left(self, limiter: Limiter) -> list[int]:
        return [row.remaining for row in limiter.peek("a", cost=0).details]

    @pytest.mark.parametrize("kind", KINDS)
    def test_never_admits_more_by_what_is_damaged(self, raw, key, limiter_for, clock, kind):
        limit = self.KINDS[kind]
        limiter, restoring = limiter_for(limit), Restoring(raw, (limit,))
        for _ in range(2):
            limiter.hit("a")
            clock.advance(0.7)
        told = raw.get(key)
        limiter.hit("a", cost=2)
        now = START_US + 1_400_000
        own, before = raw.get(key), self.left(limiter)
        for value in damaged(told):
            raw.set(key, own, px=60_000)
            restoring.restore(key, value, now)
            assert self.left(limiter) <= before, value
            for cost in (1, 99):
                assert limiter.peek("a", cost=cost).status in {"ok", "over", "never"}
            raw.set(key, value, px=60_000)
            restoring.restore(key, own, now)  # whatever was there, what is told counts
            assert self.left(limiter) <= before, value

    def test_takes_nothing_of_another_type_or_another_encoding(self, raw, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(raw, self.POLICY)
        limiter.hit("a", cost=4)
        value = raw.get(key)
        for told in (b"", b"x", b"\0" * 8, value[:-1], value + b"\0", value + b"\0" * 4096, b"\xff" * 60):
            assert restoring.restore(key, told, START_US) == value
        raw.delete(key)
        raw.rpush(key, "list")
        assert restoring.restore(key, value, START_US)[8:] == value[8:]
        assert self.left(limiter) == [5, 5, 5]

    def test_keeps_what_it_does_not_know(self, raw, key, limiter_for):
        own, other = (FixedWindow(9, 10, name="own"),), (FixedWindow(9, 10, name="other"),)
        first, second = limiter_for(*own), limiter_for(*other)
        first.hit("a", cost=2)
        told = raw.get(key)
        raw.delete(key)
        second.hit("a", cost=3)
        Restoring(raw, other).restore(key, told, START_US)
        assert (self.left(first), self.left(second)) == ([7], [6])
        raw.delete(key)
        first.hit("a", cost=5)
        Restoring(raw, other).restore(key, told, START_US)  # which it cannot merge
        assert self.left(first) == [4]

    @pytest.mark.parametrize("kind", KINDS)
    def test_drops_what_is_still_to_come(self, raw, key, limiter_for, clock, kind):
        limit = self.KINDS[kind]
        limiter, restoring = limiter_for(limit), Restoring(raw, (limit,))
        clock.advance(50_000)
        limiter.hit("a", cost=9)
        told = raw.get(key)
        raw.delete(key)
        clock.set(START_US / 1e6)
        assert restoring.restore(key, told, START_US) == b""
        assert self.left(limiter) == [9]

    def test_drops_what_was_told_long_ago(self, raw, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(raw, self.POLICY)
        limiter.hit("a")
        told = raw.get(key)
        raw.delete(key)
        assert restoring.restore(key, told, START_US, START_US - 3_600_000_001) == b""
        assert restoring.restore(key, told, START_US, START_US - 3_600_000_000)[8:] == told[8:]

    def test_drops_what_was_told_before_a_reset(self, raw, key, limiter_for, clock):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(raw, self.POLICY)
        limiter.hit("a", cost=5)
        told = raw.get(key)
        restoring.reset(key, START_US + 5)
        assert 3_600_000 < raw.pttl(key) <= 3_600_000 + 3_600_000
        clock.set((START_US + 6) / 1e6)
        assert self.left(limiter) == [9, 9, 9]
        assert limiter.hit("a").remaining == 8
        for at in (0, 5):
            restoring.restore(key, told, START_US + 6, START_US + at)
            assert self.left(limiter) == [8, 8, 8]
        # What was told after that says so, whatever the clock that told it showed.
        after = raw.get(key)
        raw.delete(key)
        restoring.reset(key, START_US + 5)
        restoring.restore(key, after, START_US + 6, START_US + 1)
        assert self.left(limiter) == [8, 8, 8]
        clock.advance(3_601)
        limiter.hit("a")
        assert b"reset\0\0\0" not in raw.get(key)

    def test_keeps_the_older_birth_and_marks_what_was_lost(self, raw, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(raw, self.POLICY)
        decision = limiter.hit("a")
        told = raw.get(key)
        raw.delete(key)
        limiter.hit("a")
        newer = raw.get(key)
        once = restoring.restore(key, told, START_US)
        assert born(told) == born(once) < born(newer)
        assert once[:8] != told[:8]
        assert restoring.restore(key, told, START_US) == once  # it is not lost again
        assert restoring.restore(key, newer, START_US)[:8] == once[:8]
        limiter.refund(decision)
        assert self.left(limiter) == [9, 9, 9]


def born(value: bytes) -> int:
    return int.from_bytes(value[:8], "little") % 2**53


def damaged(value: bytes) -> Iterator[bytes]:
    """Yield the value with each byte behind the first eight in turn changed in some ways."""
    for place in range(8, len(value)):
        for other in sorted({value[place] ^ 1, 0x00, 0x7F, 0xFF} - {value[place]}):
            yield value[:place] + bytes([other]) + value[place + 1 :]
