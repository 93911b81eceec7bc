"""What is done beside deciding: forgetting a whole policy, and telling of decisions."""

from __future__ import annotations

import logging

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    MemoryStore,
    RedisStore,
    SlidingWindow,
    TokenBucket,
    hit_all,
)

LIMITS = [FixedWindow(3, 60), SlidingWindow(3, 60), TokenBucket(3, 60)]
IDENTIFIERS = ["a", b"\xff\x00", "{x}", "*", "[a-z]?", "a:b", "x" * 256, "x" * 257, "é" * 500, "#", "\\"]


def test_a_reset_forgets_each_identifier_however_often_another_is_named(build):
    limiter = build(LIMITS)
    limiter.hit("a", "b", cost=3)
    limiter.reset("a", "a", "b")
    assert [limiter.peek(each, cost=0).remaining for each in "ab"] == [3, 3]


class TestResetAll:
    def test_forgets_everybody_of_this_policy_and_nobody_of_another(self, build):
        limiter, others = (
            build(LIMITS, name="it"),
            [build(LIMITS, name=name) for name in ("its", "i", "it.", "t")],
        )
        for identifier in IDENTIFIERS:
            for each in (limiter, *others):
                each.hit(identifier, cost=3)
        limiter.reset_all()
        assert [limiter.peek(identifier, cost=0).remaining for identifier in IDENTIFIERS] == [3] * len(
            IDENTIFIERS
        )
        for other in others:
            assert [other.hit(each).status for each in IDENTIFIERS] == ["over"] * len(IDENTIFIERS)

    def test_forgets_a_thousand(self, build):
        limiter, other = build(FixedWindow(1, 60), name="one"), build(FixedWindow(1, 60), name="other")
        for i in range(3000):
            assert limiter.hit(f"id:{i}")
        other.hit("id:1")
        limiter.reset_all()
        assert all(limiter.hit(f"id:{i}") for i in range(3000))
        assert not other.hit("id:1")

    def test_leaves_keys_that_are_not_ours_and_stores_of_another_prefix(self, redis_server, prefix, clock):
        stores = [
            RedisStore(redis_server.unix_url(), timeout=10, prefix=each) for each in (prefix, prefix + "x")
        ]
        one, other = (Limiter(LIMITS, name="default", store=store, clock=clock) for store in stores)
        foreign = f"{prefix}1:defaults:a", f"{prefix}2:default:a", f"x{prefix}1:default:a"
        client = redis_server.client()
        for key in foreign:
            client.set(key, "kept", ex=100)
        one.hit("a", cost=3)
        other.hit("a", cost=3)
        one.reset_all()
        assert one.hit("a")
        assert not other.hit("a")
        assert [client.get(key) for key in foreign] == [b"kept"] * 3
        client.close()

    def test_a_prefix_with_the_signs_of_a_pattern_is_taken_literally(self, redis_server, prefix, clock):
        # Dots and dashes are allowed, stars are not; identifiers may hold anything.
        store = RedisStore(redis_server.unix_url(), timeout=10, prefix=f"{prefix}.-_")
        limiter = Limiter(LIMITS, store=store, clock=clock, name="a.b-c_")
        limiter.hit("*", "?", "[", cost=3)
        limiter.reset_all()
        assert limiter.hit("*", "?", "[").remaining == 2


class TestOnDecision:
    @pytest.fixture
    def told(self):
        return []

    def test_is_told_of_nothing_else(self, build, told):
        limiter = build(FixedWindow(2, 60), on_decision=told.append)
        charged = limiter.hit("a")
        told.clear()
        limiter.peek("a")
        limiter.refund(charged)
        limiter.lock("a", 5)
        limiter.reset("a")
        limiter.update(FixedWindow(3, 60))
        limiter.reset_all()
        for wrong in (-1, 1.5):
            with pytest.raises((ValueError, TypeError)):
                limiter.hit("a", cost=wrong)
        assert told == []

    def test_of_hit_all_each_limiter_is_told_once(self, build):
        heard = {name: [] for name in ("one", "two", "silent")}
        one = build(FixedWindow(5, 60), name="one", on_decision=heard["one"].append)
        two = build(FixedWindow(5, 60), name="two", on_decision=heard["two"].append)
        silent = build(FixedWindow(5, 60), name="silent")
        decision = hit_all([(one, "a", 1), (two, "a", 1), (one, "b", 1), (silent, "a", 1), (two, "c", 0)])
        assert heard == {"one": [decision], "two": [decision], "silent": []}

    @pytest.mark.parametrize(
        "error", [RuntimeError("oh"), ValueError("oh"), StopIteration("oh"), AssertionError("oh")]
    )
    def test_what_it_raises_is_logged_and_the_decision_stands(self, build, caplog, error):
        def fail(decision):
            raise error

        limiter = build(FixedWindow(2, 60), on_decision=fail)
        with caplog.at_level(logging.ERROR, "overlimit"):
            assert limiter.hit("a").remaining == 1
            assert hit_all([(limiter, "a", 1)]).remaining == 0
            assert limiter.acquire("a", timeout=0).status == "over"
        assert [(record.name, record.levelname) for record in caplog.records] == [("overlimit", "ERROR")] * 3
        assert all(record.exc_info[1] is error for record in caplog.records)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_ends_a_program_is_not_held_up(self, build, caplog, error):
        def interrupt(decision):
            raise error

        limiter = build(FixedWindow(3, 60), on_decision=interrupt)
        for call in (
            lambda: limiter.hit("a"),
            lambda: hit_all([(limiter, "a", 1)]),
            lambda: limiter.acquire("a"),
        ):
            with pytest.raises(error):
                call()
        assert caplog.records == []
        assert limiter.peek("a", cost=0).remaining == 0

    @pytest.mark.parametrize("wrong", ["print", 5, []])
    def test_what_cannot_be_called_is_a_type_error(self, wrong):
        with pytest.raises(TypeError, match="on_decision"):
            Limiter("5/minute", store=MemoryStore(), on_decision=wrong)
