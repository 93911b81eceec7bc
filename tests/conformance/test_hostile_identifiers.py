"""Identifiers that someone else chose: whatever their bytes, each counts for itself and exactly."""

from __future__ import annotations

import hashlib
import itertools
from contextlib import closing

import pytest

from overlimit import FixedWindow, Limiter, Penalty, hit_all

from .all_algorithms import CALENDAR, of_each_algorithm

EVERY_ALGORITHM = list((of_each_algorithm(3, per=60) | CALENDAR).values())

HOSTILE = {
    "a nul": "\x00",
    "nuls around": "\x00a\x00",
    "empty braces": "{}",
    "braces": "{a}",
    "half a brace": "}a{",
    "braces in braces": "{{a}}:{b}",
    "a newline": "\n",
    "a line of the protocol": "a\r\n$3\r\nfoo\r\n*1\r\n",
    "a command": "x\r\nFLUSHALL\r\n",
    "a separator": ":",
    "a key": "ol1:default:a",
    "a hash's sign": "#",
    "a pattern": "*?[a-z]\\",
    "a format": "%s%n%d{0}",
    "a script": "'..redis.call('FLUSHALL')..'",
    "spaces": " \t ",
    "a lone surrogate": "\ud800",
    "surrogates the wrong way round": "\udc00\ud800",
    "an escaped byte": "\udcff",
    "beyond the basic plane": "\U0010ffff",
    "bytes of no text": b"\xff\xfe\x80",
    "an overlong nul": b"\xc0\x80",
    "256 bytes": "x" * 256,
    "257 bytes": "x" * 257,
    "256 bytes of two each": "é" * 128,
    "a megabyte": "x" * (1 << 20),
    "a megabyte of nuls": b"\x00" * (1 << 20),
}
EMPTY = ("", b"")
NO_TEXT = (None, 5, 1.5, True, ["a"], ("a",), bytearray(b"a"), memoryview(b"a"), object())


class TestCounting:
    def test_each_is_admitted_exactly_its_limit_under_every_algorithm(self, build):
        limiter = build(EVERY_ALGORITHM)
        for identifier in HOSTILE.values():
            decisions = [limiter.hit(identifier) for _ in range(5)]
            assert [decision.remaining for decision in decisions] == [2, 1, 0, 0, 0]
            assert [decision.status for decision in decisions] == ["ok"] * 3 + ["over"] * 2
            assert decisions[-1].identifier == identifier
        assert limiter.hit("somebody else").remaining == 2

    def test_each_may_be_peeked_at_locked_refunded_and_forgotten(self, build):
        limiter = build(EVERY_ALGORITHM, penalty=Penalty(7))
        for identifier in HOSTILE.values():
            decision = limiter.hit(identifier, cost=2)
            assert limiter.peek(identifier).remaining == 0
            limiter.refund(decision)
            assert limiter.peek(identifier, cost=0).remaining == 3
            limiter.lock(identifier, 5)
            assert limiter.hit(identifier).retry_after == 5.0
            limiter.reset(identifier)
            assert limiter.hit(identifier).remaining == 2
            limiter.reset_all()
            assert limiter.acquire(identifier, timeout=0).remaining == 2

    def test_what_differs_in_one_byte_counts_apart(self, build):
        limiter = build(EVERY_ALGORITHM)
        for identifier in (
            b"a\x00",
            b"a",
            b"\x00a",
            b"A",
            b"a\n",
            b" a",
            b"a ",
            b"a\xff",
            b"\xc3\xa9",
            b"e\xcc\x81",
        ):
            assert limiter.hit(identifier, cost=3)
            assert not limiter.hit(identifier)


class TestErrors:
    @pytest.mark.parametrize(("wrongs", "error"), [(EMPTY, ValueError), (NO_TEXT, TypeError)])
    def test_what_is_none_is_an_error_by_name_and_a_second_call_works(self, build, wrongs, error):
        limiter = build(FixedWindow(3, 60))
        several = (limiter.hit, limiter.peek, limiter.reset, limiter.acquire)
        for wrong in wrongs:
            for call in (*several, lambda who: limiter.lock(who, 1), limiter.unlock):
                with pytest.raises(error, match="identifier"):
                    call(wrong)
            for call in several:
                with pytest.raises(error, match="identifier"):
                    call("a", wrong)
            with pytest.raises(error, match="identifier"):
                hit_all([(limiter, "a", 1), (limiter, wrong, 1)])
        assert limiter.hit("a").remaining == 2


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other"),
        list(itertools.combinations([("a", "b:c"), ("a.b", "c"), ("a", "b"), ("a", ":b"), ("a-", "#b")], 2)),
    )
    def test_no_name_and_identifier_join_to_those_of_others(self, build, one, other):
        for name, identifier in (one, other):
            assert build(FixedWindow(3, 60), name=name).hit(identifier, cost=3)
        for name, identifier in (one, other):
            assert not build(FixedWindow(3, 60), name=name).hit(identifier)

    def test_a_name_that_cannot_stand_in_a_key_is_an_error_by_name(self):
        for name in ("", "a:b", "a b", "{a}", "a\n", "é", "*", "x" * 65, "a\x00", "\ud800"):
            with pytest.raises(ValueError, match="name"):
                FixedWindow(3, 60, name=name)
            with pytest.raises(ValueError, match="name"):
                Limiter(FixedWindow(3, 60), name=name)


class TestKeysInRedis:
    def test_each_has_one_key_of_its_own_bytes_or_of_its_hash(self, redis_store, redis_server, prefix, clock):
        limiter = Limiter(FixedWindow(3, 60), name="default", store=redis_store, clock=clock)
        expected = set()
        for identifier in HOSTILE.values():
            limiter.hit(identifier)
            raw = identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
            end = b":" + raw if len(raw) <= 256 else b"#" + hashlib.sha256(raw).hexdigest().encode()
            expected.add(f"{prefix}1:default".encode() + end)
        with closing(redis_server.client()) as client:
            assert set(client.scan_iter(f"{prefix}*", count=10_000)) == expected
