"""What ``restore`` makes of two copies of a key: a join, and the oracle's (``docs/semantics.md``)."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import FixedWindow, Limiter, ManualClock, Penalty, SlidingWindow, TokenBucket
from overlimit.command_line.operating.values import LOCK_TAG, decoded

from .all_algorithms import CALENDAR, of_each_algorithm
from .answers import answer_of, expected_of
from .leasing import Leasing
from .oracle import Oracle, OracleDecision, Records
from .oracle.penalty import Lock
from .oracle.records import Record
from .restoring import Restoring
from .strategies import (
    LAST_US,
    ROUNDS,
    START_US,
    durations_of,
    examples,
    limits,
    moves,
    penalties,
    renumbered,
)

pytestmark = pytest.mark.longer_in_prove

LIVES = [1_000, 1_000_000, 10_000_000]


@pytest.fixture
def client(redis_server):
    with closing(redis_server.client()) as client:
        yield client


@dataclass(frozen=True)
class Step:
    """Move the clock, then do something to a copy."""

    kind: str  # hit | charge | lease | refund | lock | unlock | copy | restore
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


@st.composite
def histories(draw: Any) -> tuple[list[tuple[Any, ...]], Any, list[Step]]:
    """Two versions of a policy, its penalty, and what happens to two copies of a key."""
    policy = tuple(draw(st.lists(limits, min_size=1, max_size=2)))
    other = tuple(draw(renumbered(limit)) for limit in policy) if draw(st.booleans()) else policy
    moves_us = moves(durations_of(policy))
    kinds = ["hit"] * 8 + ["lease"] * 5 + ["charge", "refund", "lock", "unlock", "copy"] + ["restore"] * 4
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
        self, policies: list[tuple[Any, ...]], penalty: Any, store: Any, client: Any, prefix: str
    ) -> None:
        self.name, self.client = next(self.names), client
        self.now, self.clock = START_US, ManualClock(start=START_US / 1e6)
        self.keys = [f"{prefix}1:{self.name}:{side}" for side in "ab"]
        self.limiters = [
            Limiter(list(policy), name=self.name, store=store, clock=self.clock, penalty=penalty)
            for policy in policies
        ]
        created: itertools.count[int] = itertools.count()  # of both copies, as by one server's clock
        self.records = [Records(created=created), Records(created=created)]
        self.policies, self.penalty = policies, penalty
        self.restoring = [Restoring(client, policy) for policy in policies]
        self.leasing = [[Leasing(client, key, policy, penalty) for policy in policies] for key in self.keys]
        self.charged: list[list[tuple[int, Any, OracleDecision]]] = [[], []]
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
        value = decoded(self.client.get(self.keys[side]) or b"")
        for record in [] if value is None else value.records:
            if record.tag == LOCK_TAG and record.expires_at > self.now:
                start, end, mark = record.state
                return Record(
                    record.expires_at, Lock(start, end, mark // 2 - 1 if mark > 1 else None, mark % 2 == 1)
                )
        return None

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
        self.seen["leased"] += extra

    def refund(self, step: Step) -> None:
        if self.charged[step.side]:
            version, decision, expected = self.charged[step.side].pop()
            self.limiters[version].refund(decision)
            self.oracle(step).refund(self.now, expected)

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
        self.client.delete(here)
        if (value := self.client.get(there)) is not None:
            self.client.set(here, value, px=3_600_000)
        self.records[step.side] = renamed(self.records[1 - step.side], "ab"[step.side])
        self.charged[step.side] = []

    def restore(self, step: Step) -> None:
        """Tell one copy of the other."""
        value = self.client.get(self.keys[1 - step.side]) or b""
        told = renamed(self.records[1 - step.side], "ab"[step.side])
        self.oracle(step).restore(self.now, "ab"[step.side], told)
        self.restoring[step.version].restore(self.keys[step.side], value, self.now)
        self.seen["restored"] += bool(value)


def renamed(records: Records, identifier: str) -> Records:
    """The records of one identifier as those of another."""
    other = Records(created=records.created)
    for key, record in records.written.items():
        other.written[(key[0], identifier.encode(), *key[2:])] = copy.deepcopy(record)
    for owner, creation in records.creations.items():
        other.creations[(owner[0], identifier.encode())] = creation
    return other


@pytest.fixture
def live(redis_store: Any, client: Any, prefix: str) -> Callable[..., Counter[str]]:
    """Return a function that has copies live through histories, and counts what happened."""

    def live(count: int, histories: Any) -> Counter[str]:
        seen: Counter[str] = Counter()

        @examples(count)
        @given(history=histories)
        def go_on(history: Any) -> None:
            policies, penalty, steps = history
            copies = Copies(policies, penalty, redis_store, client, prefix)
            for step in steps:
                copies.go_on(step)
            seen.update(copies.seen)

        go_on()
        return seen

    return live


def test_the_script_merges_as_the_oracle_does(live):
    seen = live(70, histories())
    assert seen["restored"] > 60, seen
    assert seen["leased"] > 30, seen


def test_the_script_merges_locks_as_the_oracle_does(live):
    seen = live(50, histories_of_locks())
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
    def test_never_admits_more_by_what_is_damaged(self, client, key, limiter_for, clock, kind):
        limit = self.KINDS[kind]
        limiter, restoring = limiter_for(limit), Restoring(client, (limit,))
        for _ in range(2):
            limiter.hit("a")
            clock.advance(0.7)
        told = client.get(key)
        limiter.hit("a", cost=2)
        now = START_US + 1_400_000
        own, before = client.get(key), self.left(limiter)
        for value in damaged(told):
            client.set(key, own, px=60_000)
            restoring.restore(key, value, now)
            assert self.left(limiter) <= before, value
            for cost in (1, 99):
                assert limiter.peek("a", cost=cost).status in {"ok", "over", "never"}
            client.set(key, value, px=60_000)
            restoring.restore(key, own, now)  # whatever was there, what is told counts
            assert self.left(limiter) <= before, value

    def test_takes_nothing_of_another_type_or_another_encoding(self, client, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(client, self.POLICY)
        limiter.hit("a", cost=4)
        value = client.get(key)
        for told in (b"", b"x", b"\0" * 8, value[:-1], value + b"\0", value + b"\0" * 4096, b"\xff" * 60):
            assert restoring.restore(key, told, START_US) == value
        client.delete(key)
        client.rpush(key, "list")
        assert restoring.restore(key, value, START_US)[8:] == value[8:]
        assert self.left(limiter) == [5, 5, 5]

    def test_keeps_what_it_does_not_know(self, client, key, limiter_for):
        own, other = (FixedWindow(9, 10, name="own"),), (FixedWindow(9, 10, name="other"),)
        first, second = limiter_for(*own), limiter_for(*other)
        first.hit("a", cost=2)
        told = client.get(key)
        client.delete(key)
        second.hit("a", cost=3)
        Restoring(client, other).restore(key, told, START_US)
        assert (self.left(first), self.left(second)) == ([7], [6])
        client.delete(key)
        first.hit("a", cost=5)
        Restoring(client, other).restore(key, told, START_US)  # which it cannot merge
        assert self.left(first) == [4]

    @pytest.mark.parametrize("kind", KINDS)
    def test_drops_what_is_still_to_come(self, client, key, limiter_for, clock, kind):
        limit = self.KINDS[kind]
        limiter, restoring = limiter_for(limit), Restoring(client, (limit,))
        clock.advance(50_000)
        limiter.hit("a", cost=9)
        told = client.get(key)
        client.delete(key)
        clock.set(START_US / 1e6)
        assert restoring.restore(key, told, START_US) == b""
        assert self.left(limiter) == [9]

    def test_drops_what_was_told_long_ago(self, client, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(client, self.POLICY)
        limiter.hit("a")
        told = client.get(key)
        client.delete(key)
        assert restoring.restore(key, told, START_US, START_US - 3_600_000_001) == b""
        assert restoring.restore(key, told, START_US, START_US - 3_600_000_000)[8:] == told[8:]

    def test_drops_what_was_told_before_a_reset(self, client, key, limiter_for, clock):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(client, self.POLICY)
        limiter.hit("a", cost=5)
        told = client.get(key)
        restoring.reset(key, START_US + 5)
        assert 3_600_000 < client.pttl(key) <= 3_600_000 + 3_600_000
        clock.set((START_US + 6) / 1e6)
        assert self.left(limiter) == [9, 9, 9]
        assert limiter.hit("a").remaining == 8
        for at in (0, 5):
            restoring.restore(key, told, START_US + 6, START_US + at)
            assert self.left(limiter) == [8, 8, 8]
        # What was told after that says so, whatever the clock that told it showed.
        after = client.get(key)
        client.delete(key)
        restoring.reset(key, START_US + 5)
        restoring.restore(key, after, START_US + 6, START_US + 1)
        assert self.left(limiter) == [8, 8, 8]
        clock.advance(3_601)
        limiter.hit("a")
        assert b"reset\0\0\0" not in client.get(key)

    def test_keeps_the_older_birth_and_marks_what_was_lost(self, client, key, limiter_for):
        limiter, restoring = limiter_for(*self.POLICY), Restoring(client, self.POLICY)
        decision = limiter.hit("a")
        told = client.get(key)
        client.delete(key)
        limiter.hit("a")
        newer = client.get(key)
        once = restoring.restore(key, told, START_US)
        assert born(told) == born(once) < born(newer)
        assert once[:8] != told[:8]
        assert restoring.restore(key, told, START_US) == once  # it is not lost again
        assert restoring.restore(key, newer, START_US)[:8] == once[:8]
        limiter.refund(decision)
        assert self.left(limiter) == [9, 9, 9]

    def test_the_key_lives_as_long_as_what_was_told(self, client, key, limiter_for):
        limit = (FixedWindow(9, 5000),)
        limiter = limiter_for(*limit)
        limiter.hit("a")
        told = client.get(key)
        client.delete(key)
        Restoring(client, limit).restore(key, told, START_US + 1_000_000)
        assert 4_900_000 <= client.pttl(key) - 3_600_000 <= 5_000_000


def born(value: bytes) -> int:
    return int.from_bytes(value[:8], "little") % 2**53


def damaged(value: bytes) -> Iterator[bytes]:
    """Yield the value with each byte behind the first eight in turn changed in some ways."""
    for place in range(8, len(value)):
        for other in sorted({value[place] ^ 1, 0x00, 0x7F, 0xFF} - {value[place]}):
            yield value[:place] + bytes([other]) + value[place + 1 :]


class TestAJoin:
    """Of the oracle, which the script equals: copies that lived apart after a while together."""

    WHO = "a"
    KINDS = of_each_algorithm(20, 10) | CALENDAR

    @pytest.fixture(params=KINDS)
    def kind(self, request: pytest.FixtureRequest) -> Any:
        return self.KINDS[request.param]

    def copies(self, limit: Any, seed: int) -> tuple[int, list[Oracle]]:
        """Three copies, and a time at which none of them knows of a later one."""
        random = Random(seed)
        now = START_US
        together = Oracle((limit,), "p")
        now = self.lived(together, now, random, random.randrange(4))
        copies = [
            Oracle((limit,), "p", copy.deepcopy(together.records), Penalty(3) if seed % 5 == 0 else None)
            for _ in range(3)
        ]
        return max(self.lived(each, now, random, random.randrange(5)) for each in copies), copies

    def lived(self, oracle: Oracle, now: int, random: Random, calls: int) -> int:
        made: list[OracleDecision] = []
        for _ in range(calls):
            now += random.choice((0, 1, 300_000, 1_000_000, 4_000_000, 11_000_000))
            what = random.randrange(8)
            if what == 0 and made:
                oracle.refund(now, made.pop())
            elif what == 1 and oracle.penalty is not None:
                oracle.lock(now, self.WHO, random.choice((0, 5_000_000)), noted=random.random() < 0.5)
            elif what == 2:
                oracle.lease(now, self.WHO, 1, 1, 3_000_000)
            else:
                made.append(oracle.hit(now, [self.WHO], random.choice((1, 1, 2))))
        return now

    def joined(self, now: int, one: Oracle, other: Oracle) -> Oracle:
        joined = Oracle(one.limits, one.name, copy.deepcopy(one.records), one.penalty)
        joined.restore(now, self.WHO, copy.deepcopy(other.records))
        return joined

    def times(self, now: int) -> Iterator[int]:
        yield from (now + each for each in (0, 1, 500_000, 999_999, 2_500_000, 7_000_000, 10_000_000))

    def shown(self, now: int, oracle: Oracle) -> list[Any]:
        peeks = [oracle.peek(at, [self.WHO], cost) for at in self.times(now) for cost in (0, 1, 3)]
        answers = [(each.status, each.remaining, each.retry_after, each.reset_after) for each in peeks]
        return [*answers, oracle.lock_of(now, self.WHO)]

    def used(self, at: int, oracle: Oracle) -> int:
        most = Oracle(oracle.limits).peek(at, [self.WHO], 0).remaining
        return most - oracle.peek(at, [self.WHO], 0).remaining

    def test_is_idempotent_commutative_and_associative(self, kind: Any) -> None:
        for seed in range(12 * ROUNDS):
            now, (a, b, c) = self.copies(kind, seed)
            once = self.joined(now, a, b)
            assert self.shown(now, self.joined(now, once, b)) == self.shown(now, once)
            assert self.shown(now, self.joined(now, a, a)) == self.shown(now, a)
            assert self.shown(now, self.joined(now, b, a)) == self.shown(now, once)
            left, right = self.joined(now, once, c), self.joined(now, a, self.joined(now, b, c))
            assert self.shown(now, left) == self.shown(now, right)
            births = [each.records.creations.get(("p", b"a")) for each in (a, b, left)]
            assert births[2] is None or births[2] <= min(birth for birth in births if birth is not None)

    def test_refuses_what_either_refuses_and_no_more_than_both_have_counted(self, kind: Any) -> None:
        strict = 0
        for seed in range(25 * ROUNDS):
            now, (a, b, _) = self.copies(kind, seed)
            if a.penalty is not None:
                continue
            both = self.joined(now, a, b)
            for at in self.times(now):
                sides = [self.used(at, a), self.used(at, b)]
                used = self.used(at, both)
                if at == now or kind.algorithm != "fixed_window":  # the one that opened later is forgotten
                    assert used >= max(sides)
                assert used <= sum(sides) + self.of_one_interval(at - now, kind)
                strict += used > max(sides)
        assert strict or kind.algorithm not in {"sliding_window", "sliding_log"}

    def of_one_interval(self, later: int, kind: Any) -> int:
        """How much more counts as the later phase is taken."""
        if later and (kind.algorithm == "leaky_bucket" or getattr(kind, "refill", "") == "interval"):
            return int(kind._numbers[0])
        return 0
