"""What a call is: all or nothing, each identifier once, and nothing touched by a call that is refused."""

from __future__ import annotations

import hashlib
import math

import pytest

from overlimit import FixedWindow, SlidingWindow, TokenBucket
from overlimit.errors import InvalidLimit

from .all_algorithms import CALENDAR, in_debt, of_each_algorithm
from .answers import answer_of

THREE = [FixedWindow(3, 60), SlidingWindow(3, 60), TokenBucket(3, 60)]
PLAIN = of_each_algorithm(3, per=60) | CALENDAR
ALL = PLAIN | in_debt(3, debt=2, per=60)
EACH = pytest.mark.parametrize("limit", ALL.values(), ids=ALL)
EACH_WITHOUT_DEBT = pytest.mark.parametrize("limit", PLAIN.values(), ids=PLAIN)


class TestAllOrNothing:
    @EACH_WITHOUT_DEBT
    def test_a_refusal_for_one_identifier_charges_no_other(self, build, limit):
        limiter = build(limit)
        for _ in range(3):
            assert limiter.hit("user:1")
        for _ in range(10):
            refused = limiter.hit("ip:1", "user:1")
            assert (refused.status, refused.identifier) == ("over", "user:1")
        assert limiter.peek("ip:1", cost=0).remaining == 3

    def test_a_refused_call_shows_what_is_left_uncharged(self, build):
        limiter = build([FixedWindow(10, 60), SlidingWindow(2, 60)])
        limiter.hit("a")
        refused = limiter.hit("a", cost=2)
        assert [(row.allowed, row.remaining) for row in refused.details] == [(True, 9), (False, 1)]
        assert refused.details[0].retry_after == 0.0
        assert refused.remaining == 1


class TestOrder:
    def test_details_have_identifiers_outer_and_limits_inner_in_the_order_given(self, build):
        limits = [TokenBucket(3, 60), FixedWindow(3, 60), SlidingWindow(3, 60)]
        rows = build(limits, name="api").hit("z", "a").details
        assert [(row.identifier, row.limit) for row in rows] == [(i, lim) for i in "za" for lim in limits]
        assert {row.policy for row in rows} == {"api"}
        assert isinstance(rows, tuple)

    def test_a_tie_goes_to_the_longest_reset_and_then_to_the_first_given(self, build):
        short, long = FixedWindow(3, 10), FixedWindow(3, 60)
        assert build([short, long]).hit("a").limit == long
        assert build([long, short]).hit("b").limit == long
        assert build([FixedWindow(3, 60, name="n"), long]).hit("c").limit.name == "n"
        assert build([long]).hit("y", "x").identifier == "y"


class TestDuplicates:
    @EACH
    def test_an_identifier_given_twice_is_charged_once(self, build, limit):
        decision = build(limit).hit("a", "a", b"a", "b")
        assert [row.identifier for row in decision.details] == ["a", "b"]
        assert decision.remaining == 2

    def test_it_counts_at_its_first_place_as_it_was_passed(self, build):
        decision = build(THREE[0]).hit(b"a", "b", "a")
        assert [row.identifier for row in decision.details] == [b"a", "b"]
        assert decision.identifier == b"a"


class TestCost:
    @EACH
    def test_cost_zero_is_allowed_when_all_is_used_up(self, build, limit):
        limiter = build(limit)
        assert limiter.hit("a", cost=3)
        assert limiter.hit("a", cost=0).remaining == 0

    def test_never_wins_over_over_and_binds(self, build):
        limiter = build([FixedWindow(5, 60), FixedWindow(2, 10)])
        assert limiter.hit("a", cost=2)
        refused = limiter.hit("a", cost=4)
        assert (refused.status, refused.limit) == ("never", FixedWindow(2, 10))
        assert [row.retry_after for row in refused.details] == [60.0, math.inf]

    @EACH
    def test_a_cost_equal_to_the_limit_passes_once(self, build, limit):
        limiter = build(limit)
        assert [limiter.hit("a", cost=3).status for _ in range(3)] == ["ok", "over", "over"]


class TestPeek:
    def test_answers_field_by_field_what_a_hit_would(self, build):
        limiter = build(THREE)
        for cost in (0, 1, 2, 1, 1, 9, 0):
            peeked = answer_of(limiter.peek("a", "b", cost=cost))
            assert peeked == answer_of(limiter.hit("a", "b", cost=cost))

    def test_costs_one_by_default(self, build):
        limiter = build(THREE)
        limiter.hit("a", cost=3)
        assert limiter.peek("a").status == "over"
        assert limiter.peek("a", cost=0).status == "ok"


class TestReset:
    @EACH_WITHOUT_DEBT
    def test_forgets_the_identifiers_given_and_no_other(self, build, limit):
        limiter = build(limit)
        limiter.hit("a", "b", "c", cost=3)
        limiter.reset("a", b"b")
        assert limiter.hit("a").remaining == 2
        assert limiter.hit("b").remaining == 2
        assert limiter.hit("c").status == "over"

    def test_leaves_other_policies_alone(self, build):
        one, other = build(THREE, name="one"), build(THREE, name="other")
        assert one.hit("a", cost=3)
        assert other.hit("a", cost=3)
        one.reset("a")
        assert one.hit("a")
        assert not other.hit("a")

    def test_of_what_was_never_seen_does_nothing(self, build):
        limiter = build(THREE)
        limiter.reset("nobody")
        assert limiter.hit("nobody").remaining == 2

    def test_of_nobody_is_an_error(self, build):
        with pytest.raises(ValueError, match="identifier"):
            build(THREE).reset()


class TestPolicies:
    def test_policies_of_another_name_share_nothing(self, build):
        assert build(THREE, name="one").hit("a", cost=3)
        assert build(THREE, name="two").hit("a", cost=3)

    def test_limiters_of_one_name_and_store_are_one_policy(self, build):
        assert build(THREE, name="one").hit("a", cost=2)
        assert build(THREE, name="one").hit("a").remaining == 0


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

    def test_no_identifier_at_all_is_an_error(self, build):
        limiter = build(THREE)
        for call in (limiter.hit, limiter.peek):
            with pytest.raises(ValueError, match="identifier"):
                call()

    def test_no_limit_at_all_is_an_error(self, build):
        with pytest.raises(InvalidLimit):
            build([])


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

    @pytest.mark.parametrize("length", [255, 256, 257, 258, 4096, 1_000_000])
    def test_long_identifiers_are_told_apart_by_their_last_byte(self, build, length):
        limiter = build(THREE)
        one, other = "x" * (length - 1) + "1", "x" * (length - 1) + "2"
        assert limiter.hit(one, cost=3)
        assert limiter.hit(other).remaining == 2
        assert limiter.hit(one).identifier == one
        assert limiter.hit(one).status == "over"

    def test_a_long_identifier_is_not_the_text_of_its_own_hash(self, build):
        limiter = build(THREE)
        long = "x" * 300
        digest = hashlib.sha256(long.encode()).hexdigest()
        assert limiter.hit(long, cost=3)
        for lookalike in (digest, f"#{digest}"):
            assert limiter.hit(lookalike).remaining == 2


class TestDecision:
    def test_carries_cost_time_delay_and_source(self, build, at):
        at(1.5)
        decision = build(THREE).hit("a", cost=2)
        assert (decision.cost, decision.time) == (2, 1_700_000_001.5)
        assert (decision.delay, decision.source) == (0.0, "store")

    def test_has_a_readable_repr(self, build):
        text = repr(build(THREE).hit("user:42"))
        assert "user:42" in text
        assert "remaining=2" in text
