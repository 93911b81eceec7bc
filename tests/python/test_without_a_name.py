"""Limiters without a name count by themselves (docs/reference/limiter.md, names)."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from overlimit import Limiter, ManualClock, MemoryStore, RedisStore, SlidingWindow, TokenBucket, hit_all


@pytest.fixture
def memory():
    return MemoryStore()


@pytest.fixture
def limiter(memory, clock):
    """A limiter without a name, of 2 per minute."""
    return Limiter("2/minute", store=memory, clock=clock)


def left(limiter, identifier="a"):
    return limiter.peek(identifier, cost=0).remaining


class TestItsCounts:
    def test_are_its_own_whatever_store_and_limits_are_the_same(self, memory, clock):
        login, mail = (Limiter("5/minute", store=memory, clock=clock) for _ in range(2))
        assert [bool(login.hit("a")) for _ in range(6)] == [True] * 5 + [False]
        assert left(mail) == 5
        assert [bool(mail.hit("a")) for _ in range(6)] == [True] * 5 + [False]

    def test_are_its_own_in_the_store_of_the_process(self):
        login, mail = Limiter("1/minute"), Limiter("1/minute")
        assert [bool(each.hit("a")) for each in (login, mail, login, mail)] == [True, True, False, False]

    def test_are_not_those_of_a_name(self, limiter, memory, clock):
        named = [Limiter("2/minute", store=memory, clock=clock, name=name) for name in ("default", "None")]
        limiter.hit("a", cost=2)
        assert [left(each) for each in named] == [2, 2]

    def test_stay_when_its_limits_change(self, limiter):
        limiter.hit("a", cost=2)
        limiter.update("5/minute")
        assert left(limiter) == 3
        limiter.update([SlidingWindow(4, per=60), TokenBucket(9, per=1)])
        assert left(limiter) == 2

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
    )
    def test_are_not_those_of_a_copy(self, copied):
        limiter = Limiter("2/minute")
        limiter.hit("a", cost=2)
        other = copied(limiter)
        assert (left(limiter), left(other), other.name) == (0, 2, None)
        other.hit("a")
        assert (left(limiter), left(other)) == (0, 1)

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_are_not_those_of_a_copy_on_a_store_of_its_own(self, memory, copied):
        limiter = Limiter("2/minute", store=memory)
        limiter.hit("a", cost=2)
        other = copied(limiter)
        assert (left(limiter), left(other), other.store is memory) == (0, 2, True)

    def test_are_reset_by_itself_alone(self, limiter, memory, clock):
        other = Limiter("2/minute", store=memory, clock=clock)
        for each in (limiter, other):
            each.hit("a", "b")
        limiter.reset("a")
        assert (left(limiter), left(limiter, "b"), left(other)) == (2, 1, 1)
        limiter.reset_all()
        assert (left(limiter, "b"), left(other), left(other, "b")) == (2, 1, 1)

    def test_take_its_own_refunds_alone(self, limiter, memory, clock):
        other = Limiter("2/minute", store=memory, clock=clock)
        decision, _ = limiter.hit("a"), other.hit("a")
        with pytest.raises(ValueError, match="other policies"):
            other.refund(decision)
        limiter.update("3/minute")
        limiter.refund(decision)
        assert (left(limiter), left(other)) == (3, 1)

    def test_stay_as_they_are_when_an_unpickled_decision_is_refunded(self, limiter):
        """docs/semantics.md#refunds: it has nothing to give back, which is no error."""
        decision = pickle.loads(pickle.dumps(limiter.hit("a")))
        limiter.refund(decision)
        limiter._refund_part(decision, [0])
        assert left(limiter) == 1

    def test_are_told_apart_when_several_decide_at_once(self, limiter, memory, clock):
        other = Limiter("1/minute", store=memory, clock=clock)
        assert hit_all([(limiter, "a", 1), (other, "a", 1)])
        assert (left(limiter), left(other)) == (1, 0)
        refused = hit_all([(limiter, "a", 1), (other, "a", 1)])
        assert [detail.allowed for detail in refused.details] == [True, False]
        with pytest.raises(ValueError, match="occur twice"):
            hit_all([(limiter, "a", 1), (limiter, "a", 1)])


class TestWithoutAName:
    def test_there_is_none_to_be_shown(self, limiter):
        assert limiter.name is None
        assert [detail.policy for detail in limiter.hit("a").details] == [None]
        assert "name" not in repr(limiter)

    def test_a_decision_can_be_compared_and_copied(self, limiter):
        decision = limiter.hit("a", "b")
        copied = pickle.loads(pickle.dumps(decision))
        assert copied == decision
        assert [detail.policy for detail in copied.details] == [None, None]

    @pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 65, "ü", "\ud800"])
    def test_an_empty_or_strange_name_is_refused(self, name):
        with pytest.raises(ValueError, match="name"):
            Limiter("2/minute", name=name)

    @pytest.mark.parametrize("name", [b"login", 5, False])
    def test_a_name_of_another_type_is_refused(self, name):
        with pytest.raises(TypeError, match="name must be a str or None"):
            Limiter("2/minute", name=name)

    @pytest.mark.parametrize(
        "store",
        [
            "redis://localhost:1/0",
            "rediss://localhost:1/0",
            "unix:///nowhere/redis.sock",
            "redis+cluster://localhost:1",
            "redis+sentinel://localhost:1/mymaster",
            RedisStore("redis://localhost:1/0"),
        ],
    )
    def test_a_store_that_others_see_is_refused(self, store):
        for options in ({}, {"name": None}, {"on_error": "local"}):
            with pytest.raises(ValueError, match=r"RedisStore\(.*needs name=.*other processes.*name='login'"):
                Limiter("2/minute", store=store, **options)
        assert Limiter("2/minute", store=store, name="login").name == "login"


class TestWhenItIsGone:
    """Nobody can ask for its state then, so it's dropped, however long its limits are."""

    def test_many_that_come_and_go_leave_room_for_others(self):
        store = MemoryStore(max_keys=1000)
        keeper = Limiter("2/day", store=store, name="keeper")
        for number in range(20_000):
            assert Limiter("1/day", store=store).hit("a")
            if number % 100 == 0:
                assert keeper.hit(f"user:{number}")
        assert len(store) <= 600
        assert all(keeper.hit(f"user:{number}").remaining == 0 for number in range(0, 20_000, 100))
        assert not any(keeper.hit(f"user:{number}") for number in range(0, 20_000, 100))

    def test_a_crowd_that_goes_at_once_leaves_room(self):
        store, clock = MemoryStore(max_keys=1000), ManualClock(1_700_000_000)
        crowd = [Limiter("1/day", store=store, clock=clock) for _ in range(1000)]
        assert all(each.hit("a") for each in crowd)
        late = Limiter("1/day", store=store, clock=clock)
        assert len(store) == 1000
        crowd.clear()
        assert all(late.hit(f"user:{number}") for number in range(900))
        assert not any(late.hit(f"user:{number}") for number in range(900))

    def test_its_state_stays_while_a_decision_of_it_is_held(self, memory):
        limiter = Limiter("1/day", store=memory)
        decision = limiter.hit("a")
        del limiter
        stir(memory)
        assert len(memory) >= 1
        del decision
        gc.collect()
        stir(memory)
        assert len(memory) <= 1

    def test_one_that_is_updated_often_keeps_its_state(self, memory):
        limiter = Limiter("3/day", store=memory)
        for limit in (4, 5, 3, 9, 2):
            limiter.hit("a", cost=0)
            limiter.update(f"{limit}/day")
            stir(memory)
        assert limiter.hit("a", cost=2)
        limiter.update("3/day")
        stir(memory)
        assert (limiter.hit("a").remaining, bool(limiter.hit("a"))) == (0, False)


def stir(store):
    """Make calls enough for a store of few keys to have looked at all of them."""
    clock = ManualClock(0)
    other = Limiter("1/s", store=store, clock=clock, name="stir")
    for _ in range(20_000):
        other.peek("x")
