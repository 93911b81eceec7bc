"""What a call is: all or nothing, each identifier once, and nothing touched by a call that is refused."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, SlidingWindow, TokenBucket, hit_all
from overlimit.errors import InvalidLimit

THREE = [FixedWindow(3, 60), SlidingWindow(3, 60), TokenBucket(3, 60)]


class TestReset:
    def test_of_nobody_is_an_error(self, build):
        with pytest.raises(ValueError, match="identifier"):
            build(THREE).reset()


class TestBounds:
    def test_sixteen_identifiers_and_sixteen_limits_are_fine(self, build):
        limiter = build([FixedWindow(3, 60 + i) for i in range(16)])
        assert len(limiter.hit(*(f"id:{i}" for i in range(16))).details) == 256

    def test_seventeen_identifiers_are_too_many(self, build):
        limiter = build(THREE)
        for call in (limiter.hit, limiter.peek):
            with pytest.raises(ValueError, match="identifiers"):
                call(*(f"id:{i}" for i in range(17)))
        assert limiter.peek("id:0", cost=0).remaining == 3

    def test_seventeen_limits_are_too_many(self, build):
        with pytest.raises(InvalidLimit, match="16"):
            build([FixedWindow(3, 60 + i) for i in range(17)])

    def test_65536_blocks_are_the_most_one_call_may_touch(self, build):
        ids = [f"id:{i}" for i in range(16)]
        fine = SlidingWindow(3, per=4096, precision=1)
        assert build(fine).hit(*ids).remaining == 2
        limiter = build([fine, SlidingWindow(3, per=10, precision=10)])
        assert limiter.hit(*ids[:15], ids[0]).remaining == 1
        with pytest.raises(ValueError, match="blocks"):
            limiter.hit(*ids)
        assert limiter.peek(ids[0], cost=0).details[0].remaining == 1

    def test_sixty_four_charges_fit_and_sixty_five_do_not(self, build):
        limiter = build(FixedWindow(1, 60))
        assert hit_all([(limiter, f"id:{i}", 1) for i in range(64)])
        with pytest.raises(ValueError, match="64"):
            hit_all([(limiter, f"id:{i}", 1) for i in range(65)])

    def test_no_identifier_at_all_is_an_error(self, build):
        limiter = build(THREE)
        for call in (limiter.hit, limiter.peek):
            with pytest.raises(ValueError, match="identifier"):
                call()

    def test_no_limit_at_all_is_an_error(self, build):
        with pytest.raises(InvalidLimit):
            build([])


class TestSeveralPolicies:
    def test_two_policies_of_one_name(self, build):
        with pytest.raises(ValueError, match="name="):
            hit_all([(build(FixedWindow(5, 60)), "a", 1), (build(FixedWindow(6, 60)), "b", 1)])
        same, again = build(FixedWindow(5, 60)), build(FixedWindow(5, 60))
        assert hit_all([(same, "a", 1), (again, "b", 1)])


class TestIdentifiers:
    @pytest.mark.parametrize(
        "text",
        ["a", "é", "日本", "\N{PILE OF POO}", "\ud800", "a\udcffb", "\x00", "a\x00b", "{a}", "a b\r\n"],
    )
    def test_a_text_and_its_bytes_are_the_same(self, build, text):
        limiter = build(THREE)
        raw = text.encode("utf-8", "surrogatepass")
        assert limiter.hit(text).identifier == text
        decision = limiter.hit(raw)
        assert (decision.identifier, decision.remaining) == (raw, 1)
