"""The script ``lease``, and what records hold for it: Lua, C++ and the oracle answer alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import LeakyBucket, Limiter, Penalty, SlidingLog, SlidingWindow, TokenBucket

from .answers import answer_of, expected_of
from .leasing import FOUND, GRANTED, WRITTEN, Leased, Leasing
from .oracle import OracleDecision
from .strategies import START_US, durations_of, examples, limits, moves, rates, renumbered, short_period
from .test_differential import Together

LIVES = [1, 2, 3, 10, 999, 1_000, 50_000, 1_000_000, 10_000_000]


@pytest.fixture
def client(redis_server):
    with closing(redis_server.client()) as client:
        yield client


class TestTheScript:
    @pytest.fixture
    def leasing(self, client, prefix):
        def leasing(*limits: Any, name: str = "a", **options: Any) -> Leasing:
            return Leasing(client, f"{prefix}:{name}", limits, **options)

        return leasing

    def test_charges_all_that_is_wanted_if_four_times_as_many_would_fit(self, leasing):
        policy = leasing(TokenBucket(1, per=1, burst=41))
        leased = policy.lease(START_US, 1, 10, 1000)
        assert (leased.extra, leased.states[0][0]) == (10, 11_000_000)

    @pytest.mark.parametrize(("wanted", "granted"), [(10, 5), (11, 5), (7, 7), (29, 7), (8, 8), (1, 1)])
    def test_halves_it_until_they_do(self, leasing, wanted, granted):
        policy = leasing(SlidingWindow(100, per=60), TokenBucket(1, per=1, burst=34))
        assert policy.lease(START_US, 1, wanted, 1000).extra == granted

    def test_charges_the_call_alone_when_little_is_left(self, leasing):
        policy = leasing(TokenBucket(1, per=1, burst=4))
        leased = policy.lease(START_US, 1, 10, 1000)
        assert (leased.extra, leased.sizes) == (0, [24])

    def test_leases_of_a_queue_only_what_goes_at_once(self, leasing):
        policy = leasing(LeakyBucket(9, per=1, capacity=100))
        assert [policy.lease(START_US, 1, 50, 1000).extra for _ in range(8)] == [1, 1, 1, 0, 0, 0, 0, 0]

    def test_holds_nothing_of_a_bucket_that_refills_by_the_interval(self, leasing):
        policy = leasing(TokenBucket(100, per=1, refill="interval"))
        leased = policy.lease(START_US, 1, 10, 1000)
        assert (leased.extra, leased.sizes) == (10, [24])

    def test_holds_the_extra_units_up_to_the_grid(self, leasing, client):
        policy = leasing(TokenBucket(1, per=1, burst=100))
        at = START_US + 300
        leased = policy.lease(at, 1, 4, 1000)
        assert leased.sizes == [24 + 32]
        cells = client.get(policy.key)[-32:]
        assert unpacked(cells) == [0, -1_000_000, START_US + 1_500, 4_000_000]
        assert policy.lease(at + 100, 1, 4, 1000).sizes == [24 + 32], (
            "one that ends then as well is the same hold"
        )
        assert policy.lease(at + 300, 1, 4, 1000).sizes == [24 + 48]

    def test_makes_one_of_the_two_oldest_holds_if_there_are_too_many(self, leasing, client):
        policy = leasing(TokenBucket(1, per=1, burst=1000))
        lives = [1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 16_000, 20_000, 25_000, 32_000]
        for extra, life in enumerate(lives, 1):
            policy.lease(START_US, 1, extra, life)
        ends = [START_US + life for life in lives[2:]]
        tokens = [1 + 2 + 3, *range(4, 11)]
        held = unpacked(client.get(policy.key))[-16:]
        assert held[0::2] == ends
        assert held[1::2] == [1_000_000 * each for each in tokens]

    @pytest.mark.parametrize("penalty", [None, Penalty(5), Penalty([1, 2], extend=True)])
    def test_refuses_exactly_as_a_decision_does(self, leasing, client, penalty):
        decided, leased = (
            leasing(TokenBucket(1, per=9, burst=2), SlidingLog(9, per=60), name=name, penalty=penalty)
            for name in ("decided", "leased")
        )
        for step in range(9):
            now = START_US + step * 700_000
            replies = decided.decide(now, 2), leased.ask(now, 2, 1, 1000)
            assert told(replies[0]) == told(replies[1])
            assert client.get(decided.key)[8:] == client.get(leased.key)[8:]

    def test_writes_nothing_when_it_refuses(self, leasing, client):
        policy = leasing(TokenBucket(1, per=1, burst=2))
        assert policy.lease(START_US, 2, 1, 1000).extra == 0
        before = client.get(policy.key)
        assert policy.ask(START_US, 1, 1000, 1000) == bytes([FOUND]) + START_US.to_bytes(8, "little") + before
        assert client.get(policy.key) == before


class TestDamaged:
    """Whatever a record with holds was damaged to: no error, no lock-out, never more than the burst."""

    @pytest.fixture
    def policy(self, build_limiter, client, prefix):
        limit = TokenBucket(2, per=1, burst=12)
        return build_limiter(limit), Leasing(client, f"{prefix}1:damaged:a", (limit,))

    @pytest.fixture
    def build_limiter(self, redis_store, clock):
        clock.set(START_US / 1e6)
        return lambda limit: Limiter(limit, name="damaged", store=redis_store, clock=clock)

    def test_one_damaged_byte_is_never_an_error_and_never_admits_more(self, policy, client, clock):
        limiter, leasing = policy
        for life in (1_000_000, 2_000_000):
            assert leasing.lease(START_US, 1, 1, life).extra == 1
        whole = client.get(leasing.key)
        for value in damaged(whole, after=8 + 20 + 24):
            clock.set(START_US / 1e6)
            client.set(leasing.key, value)
            for _ in range(3):
                foretold = answer_of(limiter.peek("a"))
                decision = answer_of(limiter.hit("a"))
                assert [foretold[name] for name in TOLD] == [decision[name] for name in TOLD], value
            leasing.lease(START_US, 1, 3, 1_000_000)
            assert limiter.peek("a", cost=0).remaining <= 12 - 3
            clock.advance(60)
            assert limiter.hit("a", cost=8), value
            assert limiter.peek("a", cost=0).remaining <= 4


TOLD = ("status", "remaining", "retry_after")


def damaged(value: bytes, after: int) -> Iterator[bytes]:
    """Yield the value with each later byte in turn flipped in one bit, in all bits, and set to extremes."""
    for place in range(after, len(value)):
        for other in sorted({value[place] ^ 1, value[place] ^ 0xFF, 0x00, 0x7F, 0x80} - {value[place]}):
            yield value[:place] + bytes([other]) + value[place + 1 :]


@dataclass(frozen=True)
class Step:
    """Move the clock, then call."""

    kind: str  # hit | charge | lease | refund | give_back
    cost: int
    extra: int
    life: int
    move_us: int
    version: int  # which of the policies calls
    chosen: int  # of the charges that can be refunded


Life = tuple[list[tuple[Any, ...]], list[Step]]

buckets = st.builds(TokenBucket, rates, short_period, burst=st.integers(5, 200))
plain = limits.filter(lambda limit: getattr(limit, "start", None) != "calendar")


@st.composite
def lives(draw: Any) -> Life:
    """Two versions of one policy, with a bucket that holds what is leased, and calls of either."""
    policy = (draw(buckets), *draw(st.lists(plain, max_size=1)))
    other = tuple(draw(renumbered(limit)) for limit in policy) if draw(st.booleans()) else policy
    own = draw(st.sampled_from(LIVES))
    moves_us = moves([*durations_of(policy), own, own, (own + 1) // 2])
    step = st.builds(
        Step,
        st.sampled_from(["hit"] * 3 + ["lease"] * 5 + ["charge"] + ["refund", "give_back"] * 2),
        st.sampled_from([1, 1, 1, 1, 2, 3]),
        st.sampled_from([0, 1, 1, 2, 3, 4, 9, 2**53]),
        st.sampled_from([own, own, own, *LIVES]),
        st.just(0) | (moves_us if other == policy else moves_us.map(abs)),
        st.integers(0, 1),
        st.integers(0, 9),
    )
    runs = draw(st.lists(st.lists(step, min_size=1), min_size=1, max_size=8))
    return [policy, other], [step for run in runs for step in run]


class Leases(Together):
    """A policy in two versions, of which units are leased too."""

    def __init__(self, policies: list[tuple[Any, ...]], store: Any, client: Any, prefix: str) -> None:
        super().__init__(policies, [store])
        key = f"{prefix}1:{self.oracles[0].name}:a"
        self.leasing = [Leasing(client, key, policy) for policy in policies]
        self.charged: list[tuple[int, Any, OracleDecision]] = []
        self.leased: list[tuple[int, Leased, OracleDecision]] = []
        self.seen: Counter[str] = Counter()

    def go_on(self, step: Step) -> None:
        self.move_to(self.now + step.move_us)
        getattr(self, step.kind)(step)
        for oracle, (limiter,) in zip(self.oracles, self.limiters, strict=True):
            for cost in (0, step.cost):
                shown = limiter.peek("a", cost=cost)
                assert answer_of(shown) == expected_of(oracle.peek(self.now, ["a"], cost))

    def hit(self, step: Step) -> None:
        (limiter,) = self.limiters[step.version]
        expected = getattr(self.oracles[step.version], step.kind)(self.now, ["a"], step.cost)
        decision = getattr(limiter, step.kind)("a", cost=step.cost)
        assert answer_of(decision) == expected_of(expected)
        self.charged.append((step.version, decision, expected))

    charge = hit

    def lease(self, step: Step) -> None:
        oracle = self.oracles[step.version]
        expected, extra = oracle.lease(self.now, "a", step.cost, step.extra, step.life)
        leased = self.leasing[step.version].lease(self.now, step.cost, step.extra, step.life)
        assert (leased is not None) == expected.allowed
        if leased is None:
            return
        assert leased.extra == extra
        written = [pair.record for pair in oracle.pairs_of(self.now, "a", 0)]
        assert sorted(leased.expiries) == sorted(record.expires_at for record in written)
        self.seen["leased" if extra else "alone"] += 1
        self.leased.append((step.version, leased, expected))

    def refund(self, step: Step) -> None:
        if self.charged:
            version, decision, expected = self.charged.pop(step.chosen % len(self.charged))
            self.limiters[version][0].refund(decision)
            self.oracles[version].refund(self.now, expected)

    def give_back(self, step: Step) -> None:
        if self.leased:
            version, leased, expected = self.leased[step.chosen % len(self.leased)]
            self.leasing[version].give_back(self.now, leased, step.cost)
            once = replace(expected, receipts=list(expected.receipts))
            self.oracles[version].refund(self.now, once, step.cost)


@pytest.mark.longer_in_prove
def test_leases_holds_and_refunds_are_the_same_on_the_server_and_in_the_oracle(redis_store, client, prefix):
    seen: Counter[str] = Counter()

    @examples(60)
    @given(life=lives())
    def live(life: Life) -> None:
        policies, steps = life
        leases = Leases(policies, redis_store, client, prefix)
        for step in steps:
            leases.go_on(step)
        seen.update(leases.seen)

    live()
    assert seen["leased"] > 100, seen


def unpacked(cells: bytes) -> list[int]:
    places = range(len(cells) % 8, len(cells), 8)
    return [int.from_bytes(cells[at : at + 8], "little", signed=True) for at in places]


def told(reply: bytes) -> tuple[int, bytes, bytes]:
    """What a reply says, but for the times of creation, which are the server's."""
    flags, now = reply[0], reply[1:9]
    before_records = 16 if flags & (GRANTED | WRITTEN) else 8
    return flags & ~GRANTED, now, reply[9 + before_records :]
