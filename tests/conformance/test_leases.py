"""The script ``lease``, and what records hold for it: Lua, C++ and the oracle answer alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from overlimit import Limiter, Penalty, SlidingLog, TokenBucket

from .answers import answer_of
from .leasing import FOUND, GRANTED, WRITTEN, Leasing
from .strategies import START_US


class TestTheScript:
    @pytest.fixture
    def leasing(self, raw, prefix):
        def leasing(*limits: Any, name: str = "a", **options: Any) -> Leasing:
            return Leasing(raw, f"{prefix}:{name}", limits, **options)

        return leasing

    @pytest.mark.parametrize("penalty", [None, Penalty(5), Penalty([1, 2], extend=True)])
    def test_refuses_exactly_as_a_decision_does(self, leasing, raw, penalty):
        decided, leased = (
            leasing(TokenBucket(1, per=9, burst=2), SlidingLog(9, per=60), name=name, penalty=penalty)
            for name in ("decided", "leased")
        )
        for step in range(9):
            now = START_US + step * 700_000
            replies = decided.decide(now, 2), leased.ask(now, 2, 1, 1000)
            assert told(replies[0]) == told(replies[1])
            assert raw.get(decided.key)[8:] == raw.get(leased.key)[8:]

    def test_writes_nothing_when_it_refuses(self, leasing, raw):
        policy = leasing(TokenBucket(1, per=1, burst=2))
        assert policy.lease(START_US, 2, 1, 1000).extra == 0
        before = raw.get(policy.key)
        assert policy.ask(START_US, 1, 1000, 1000) == bytes([FOUND]) + START_US.to_bytes(8, "little") + before
        assert raw.get(policy.key) == before


class TestDamaged:
    """Whatever a record with holds was damaged to: no error, no lock-out, never more than the burst."""

    @pytest.fixture
    def policy(self, build_limiter, raw, prefix):
        limit = TokenBucket(2, per=1, burst=12)
        return build_limiter(limit), Leasing(raw, f"{prefix}1:damaged:a", (limit,))

    @pytest.fixture
    def build_limiter(self, redis_store, clock):
        clock.set(START_US / 1e6)
        return lambda limit: Limiter(limit, name="damaged", store=redis_store, clock=clock)

    def test_one_damaged_byte_is_never_an_error_and_never_admits_more(self, policy, raw, clock):
        limiter, leasing = policy
        for life in (1_000_000, 2_000_000):
            assert leasing.lease(START_US, 1, 1, life).extra == 1
        whole = raw.get(leasing.key)
        for value in damaged(whole, after=8 + 20 + 24):
            clock.set(START_US / 1e6)
            raw.set(leasing.key, value)
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


def told(reply: bytes) -> tuple[int, bytes, bytes]:
    """What a reply says, but for the times of creation, which are the server's."""
    flags, now = reply[0], reply[1:9]
    before_records = 16 if flags & (GRANTED | WRITTEN) else 8
    return flags & ~GRANTED, now, reply[9 + before_records :]
