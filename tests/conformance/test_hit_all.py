"""hit_all: several policies, one atomic decision."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, SlidingWindow, hit_all


class TestOneDecision:
    def test_all_pass_and_all_are_charged(self, build):
        application, route = build(FixedWindow(10, 60), name="app"), build(SlidingWindow(3, 60), name="route")
        decision = hit_all([(application, "ip:1", 1), (route, "user:1", 2)])
        assert decision
        assert (decision.cost, decision.remaining, decision.limit) == (3, 1, route.limits[0])
        assert [detail.policy for detail in decision.details] == ["app", "route"]
        assert application.peek("ip:1", cost=0).remaining == 9
        assert route.peek("user:1", cost=0).remaining == 1

    def test_a_cost_of_zero_is_refused_beside_others_while_usage_exceeds_a_lowered_limit(self, build):
        build(FixedWindow(9, 60), name="lowered").hit("a", cost=9)
        lowered, other = build(FixedWindow(5, 60), name="lowered"), build(SlidingWindow(5, 60), name="other")
        assert not hit_all([(lowered, "a", 0), (other, "a", 1)])
        assert other.peek("a", cost=0).remaining == 5

    def test_sixty_four_charges_fit_and_sixty_five_do_not(self, build):
        limiter = build(FixedWindow(1, 60))
        assert hit_all([(limiter, f"id:{i}", 1) for i in range(64)])
        with pytest.raises(ValueError, match="64"):
            hit_all([(limiter, f"id:{i}", 1) for i in range(65)])


class TestWrongCharges:
    def test_nothing_at_all(self):
        with pytest.raises(ValueError, match="at least one"):
            hit_all([])

    def test_the_same_policy_and_identifier_twice(self, build):
        limiter = build(FixedWindow(5, 60))
        with pytest.raises(ValueError, match="twice"):
            hit_all([(limiter, "a", 1), (limiter, b"a", 1)])
        assert limiter.peek("a", cost=0).remaining == 5

    def test_other_stores_and_other_clocks(self, build):
        limiter = build(FixedWindow(5, 60))
        elsewhere = Limiter("5/minute", store=MemoryStore(), clock=limiter.clock)
        with pytest.raises(ValueError, match="store"):
            hit_all([(limiter, "a", 1), (elsewhere, "a", 1)])
        later = build(FixedWindow(5, 60), name="later", clock=ManualClock(5.0))
        with pytest.raises(ValueError, match="clock"):
            hit_all([(limiter, "a", 1), (later, "a", 1)])

    def test_two_policies_of_one_name(self, build):
        with pytest.raises(ValueError, match="name="):
            hit_all([(build(FixedWindow(5, 60)), "a", 1), (build(FixedWindow(6, 60)), "b", 1)])
        same, again = build(FixedWindow(5, 60)), build(FixedWindow(5, 60))
        assert hit_all([(same, "a", 1), (again, "b", 1)])

    @pytest.mark.parametrize("charge", [("a", 1), ["a"], "ab", (None, "a", 1)])
    def test_what_is_no_charge(self, charge):
        with pytest.raises(TypeError):
            hit_all([charge])
