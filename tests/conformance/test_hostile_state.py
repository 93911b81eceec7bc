"""Values in Redis that someone else wrote, cut or damaged: no lasting error, no lock-out, never unlimited."""

from __future__ import annotations

import random
from collections.abc import Iterator
from struct import unpack_from
from typing import Any

import pytest

from overlimit import ManualClock, Penalty, SlidingLog, SlidingWindow, TokenBucket

from .all_algorithms import CALENDAR, in_debt, of_each_algorithm
from .oracle.plain import algorithm_of

START = 1_700_000_000
LAST_US = 2**53 - 2**50
PLAIN = of_each_algorithm(3, per=60) | CALENDAR
ALL = PLAIN | in_debt(2, debt=1, per=60)  # these admit 3 too
EVERY = list(ALL.values())
EACH = pytest.mark.parametrize("limit", ALL.values(), ids=ALL)
HISTORIES = pytest.mark.parametrize(
    "limit", [SlidingWindow(3, 60), SlidingLog(3, 60)], ids=lambda limit: limit.algorithm
)

OWN_TIME_IS_BOUND = ("fixed_window", "sliding_window_counter")

HEAD, RECORD = 8, 20
STATE = HEAD + RECORD
EXPIRY = HEAD + 12
LOCK = b"penalty\0"
NEVER = pytest.mark.parametrize("expiry", [2**53, 2**63 - 1], ids=["exact", "greatest"])


@pytest.fixture
def store(redis_store):
    return redis_store


def damaged(value: bytes) -> Iterator[bytes]:
    """Yield the value with each of its bytes in turn flipped in one bit, in all bits, and set to extremes."""
    for place, byte in enumerate(value):
        for other in sorted({byte ^ 1, byte ^ 0xFF, 0x00, 0x7F, 0x80} - {byte}):
            yield value[:place] + bytes([other]) + value[place + 1 :]


def int64_at(value: bytes, place: int) -> int:
    return int.from_bytes(value[place : place + 8], "little", signed=True)


def with_instant(value: bytes, place: int, us: int) -> bytes:
    return value[:place] + us.to_bytes(8, "little", signed=True) + value[place + 8 :]


def own_time_us(limit: Any, value: bytes) -> int:
    """The instant that a value of this one limit is from, as it says itself."""
    return algorithm_of(limit).stored_time(unpack_from("<3q", value, STATE))


def wait_for(clock: ManualClock, us: int) -> bool:
    """Move the clock to an instant, if that is later and a clock may read it."""
    if us >= LAST_US:
        return False
    clock.set(max(clock.now(), us / 1e6))
    return True


def shown(decision: Any) -> tuple[Any, ...]:
    fields = ("status", "remaining", "retry_after", "reset_after", "delay")
    return tuple(getattr(decision, field) for field in fields)


class TestForeign:
    @pytest.mark.parametrize("kind", ["text", "list", "hash", "set", "zset", "stream"])
    def test_a_value_of_another_kind_is_as_if_absent_and_is_overwritten(self, build, raw, key, kind):
        write = {
            "text": lambda: raw.set(key, "1"),
            "list": lambda: raw.rpush(key, "x"),
            "hash": lambda: raw.hset(key, "x", "y"),
            "set": lambda: raw.sadd(key, "x"),
            "zset": lambda: raw.zadd(key, {"x": 1}),
            "stream": lambda: raw.xadd(key, {"x": "y"}),
        }
        limiter = build(EVERY)
        write[kind]()
        assert limiter.peek("a", cost=0).remaining == 2
        assert limiter.hit("a", cost=0)
        assert raw.type(key) != b"none", "who charges nothing writes nothing"
        assert [bool(limiter.hit("a")) for _ in range(5)] == [True] * 3 + [False] * 2
        assert raw.type(key) == b"string"
        assert raw.pttl(key) > 0

    @pytest.mark.parametrize("kind", ["text", "list"])
    def test_locks_refunds_and_resets_meet_a_foreign_value_too(self, build, raw, key, kind):
        limiter = build(EVERY)
        decision = limiter.hit("a")

        def spoil() -> None:
            raw.delete(key)
            raw.set(key, "nonsense") if kind == "text" else raw.rpush(key, "x")

        spoil()
        limiter.refund(decision)
        assert limiter.peek("a", cost=0).remaining == 2
        spoil()
        limiter.lock("a", 5)
        assert limiter.hit("a").retry_after == 5.0
        spoil()
        limiter.reset("a")
        assert not raw.exists(key)
        assert limiter.hit("a")

    def test_a_value_longer_than_any_that_is_written_is_as_if_absent(self, build, raw, key):
        limiter = build(SlidingLog(3, 60))
        record = b"whatever" + bytes(4) + (2**52).to_bytes(8, "little")
        raw.set(key, bytes(8) + record * (2**23 // len(record) + 1))
        assert limiter.peek("a", cost=0).remaining == 3
        assert limiter.hit("a").remaining == 2
        assert raw.strlen(key) < 100

    def test_a_value_copied_to_another_policy_counts_there_if_it_has_the_limit(self, build, raw, key, prefix):
        build(EVERY).hit("a", cost=2)
        alike, unlike = build(EVERY, name="alike"), build(TokenBucket(3, 77), name="unlike")
        for name in ("alike", "unlike"):
            raw.copy(key, f"{prefix}1:{name}:a")
        assert sum(bool(alike.hit("a")) for _ in range(5)) == 1
        assert sum(bool(unlike.hit("a")) for _ in range(5)) == 3
        assert sum(bool(build(EVERY).hit("a")) for _ in range(5)) == 1


class TestDamaged:
    @EACH
    def test_a_value_cut_short_anywhere_is_as_if_absent(self, build, raw, key, limit, clock):
        limiter = build(limit, penalty=Penalty(7))
        limiter.hit("a", cost=2)
        limiter.lock("a", 1)
        clock.advance(1)
        value = raw.get(key)
        for length in range(len(value)):
            if length == len(value) - RECORD - 24:
                continue  # exactly the lock is gone: a value of ours
            raw.set(key, value[:length])
            admitted = [bool(limiter.hit("a")) for _ in range(4)]
            assert admitted == [True, True, True, False], f"cut to {length} of {len(value)} bytes"

    def test_garbage_is_as_if_absent(self, build, raw, key):
        limiter, source = build(EVERY), random.Random(7)
        known = [b"0", b"5", b"-1", b"\x00" * 64, b"\xff" * 64, b"x" * 9999]
        for value in (*known, *(source.randbytes(length) for length in range(0, 150, 3))):
            raw.set(key, value)
            assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]

    @EACH
    def test_one_damaged_byte_is_never_an_error_never_admits_more_and_locks_nobody_out(
        self, build, raw, key, limit, clock
    ):
        """A damaged time is one of a clock that was ahead: from that instant on, the longest wait frees."""
        limiter = build(limit)
        limiter.hit("a")
        clock.advance(7)
        limiter.hit("a")
        standing = clock.now()
        for value in damaged(raw.get(key)):
            clock.set(standing)
            raw.set(key, value, keepttl=True)
            decisions = []
            for _ in range(5):
                foretold = limiter.peek("a")
                decisions.append(limiter.hit("a"))
                if limit.algorithm != "sliding_window":  # see test_a_peek_reads_a_damaged_block_as_a_hit_does
                    assert shown(foretold) == shown(decisions[-1])
            assert sum(map(bool, decisions)) <= 3
            assert not decisions[-1]
            assert decisions[-1].retry_after >= 1e-6 or limit.algorithm in OWN_TIME_IS_BOUND
            assert all(0 <= each.remaining <= limit.quota and each.reset_after >= 0 for each in decisions)
            assert raw.pttl(key) > 0
            if wait_for(clock, max(own_time_us(limit, value), START * 1_000_000) + round(3e6 * limit.window)):
                assert limiter.hit("a"), value

    @HISTORIES
    def test_one_damaged_byte_admits_no_more_once_old_blocks_leave_either(
        self, build, raw, key, limit, clock
    ):
        limiter = build(limit)
        limiter.hit("a")
        clock.advance(7)
        limiter.hit("a", cost=2)
        standing = clock.now()
        for value in damaged(raw.get(key)):
            clock.set(standing)
            raw.set(key, value)
            clock.set(START + 63)
            decisions = [limiter.hit("a") for _ in range(6)]
            assert sum(map(bool, decisions)) <= 3
            assert all(0 <= decision.remaining <= 3 for decision in decisions)

    @HISTORIES
    def test_a_newest_block_that_counts_more_than_all_is_written_as_one_that_can_be_read(
        self, build, raw, key, limit
    ):
        limiter = build(limit)
        limiter.hit("a")
        raw.set(key, with_instant(raw.get(key), STATE + 8, 2**53 - 1))
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, False, False]

    def test_a_peek_reads_a_damaged_block_as_a_hit_does(self, build, raw, key, clock):
        limiter = build(SlidingWindow(3, 60))
        limiter.hit("a")
        clock.advance(7)
        limiter.hit("a", cost=2)
        for value in damaged(raw.get(key)):
            raw.set(key, value)
            assert shown(limiter.peek("a")) == shown(limiter.hit("a"))

    def test_one_damaged_byte_of_a_lock_is_never_an_error_and_never_a_lock_for_ever(
        self, build, raw, key, clock
    ):
        limiter = build(TokenBucket(3, 1), penalty=Penalty([2, 4]))
        limiter.hit("a", cost=3)
        assert limiter.hit("a").retry_after == 2.0
        value = raw.get(key)
        assert value[-44:-36] == LOCK
        for changed in damaged(value):
            clock.set(START)
            raw.set(key, changed)
            for _ in range(5):
                assert limiter.peek("a", cost=0).remaining <= 3
                limiter.hit("a")
            begun = max(int64_at(changed, len(changed) - 24), own_time_us(TokenBucket(3, 1), changed))
            if wait_for(clock, max(begun, START * 1_000_000) + 30_000_000):
                assert limiter.hit("a"), changed


class TestLastingForEver:
    """A record that says it expires when no clock will ever have got there (docs/decisions.md)."""

    @EACH
    @NEVER
    def test_it_is_as_if_absent(self, build, raw, key, limit, expiry):
        limiter = build(limit)
        limiter.hit("a", cost=3)
        raw.set(key, with_instant(raw.get(key), EXPIRY, expiry))
        assert limiter.peek("a", cost=0).remaining == limit.quota
        admitted = [bool(limiter.hit("a")) for _ in range(5)]
        assert admitted == [True] * 3 + [False] * 2
        refused = limiter.hit("a")
        assert 0 < refused.retry_after <= limit.window
        assert 0 < raw.pttl(key) <= (2 * limit.window + 31 * 86_400 + 3_600) * 1000

    @EACH
    @NEVER
    def test_it_has_nothing_to_give_back(self, build, raw, key, limit, expiry):
        limiter = build(limit)
        decision = limiter.hit("a", cost=3)
        value = with_instant(raw.get(key), EXPIRY, expiry)
        raw.set(key, value)
        limiter.refund(decision)
        assert raw.get(key) == value

    @NEVER
    def test_a_lock_that_says_so_is_none(self, build, raw, key, expiry):
        limiter = build(TokenBucket(3, 3), penalty=Penalty(7))
        limiter.lock("a", 1_000)
        raw.set(key, with_instant(raw.get(key), EXPIRY, expiry))
        assert limiter.peek("a")
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
        assert limiter.hit("a").retry_after == 7.0
        assert 0 < raw.pttl(key) <= (60 + 3_600) * 1000

    @pytest.mark.parametrize("finish", [LAST_US, 2**53 - 1, 2**53, 2**63 - 1])
    def test_a_lock_that_holds_longer_than_it_is_remembered_is_none(self, build, raw, key, finish):
        limiter = build(TokenBucket(3, 3), penalty=Penalty(7))
        limiter.lock("a", 1_000)
        raw.set(key, with_instant(raw.get(key), STATE + 8, finish))
        assert limiter.peek("a")
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
        assert limiter.hit("a").retry_after == 7.0


class TestWithoutTimeToLive:
    @EACH
    def test_a_key_that_lost_it_gets_one_with_the_next_expiry(self, build, raw, key, limit, clock):
        limiter = build(limit)
        limiter.hit("a")
        assert raw.persist(key)
        clock.advance(3 * limit.window)
        assert limiter.hit("a")
        assert 0 < raw.pttl(key) <= (2 * limit.window + 31 * 86_400 + 3_600) * 1000

    def test_a_lock_gives_a_key_that_lost_it_one(self, build, raw, key):
        limiter = build(TokenBucket(1, 60), penalty=Penalty(5))
        limiter.hit("a")
        assert raw.persist(key)
        assert limiter.hit("a").status == "over"
        assert raw.pttl(key) >= 60_000
        assert raw.persist(key)
        limiter.lock("a", 5)
        assert raw.pttl(key) >= 60_000
