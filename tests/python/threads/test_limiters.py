"""One limiter that threads hit, update and ask about at once."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, InvalidLimit, Limiter, MemoryStore, TokenBucket, _core, hit_all
from overlimit.limits import as_limits

from .together import THREADS, all_together, meanwhile, together

CALLS = 200


def admitted(limiter: Limiter, calls: int = CALLS) -> int:
    return sum(bool(limiter.hit("a")) for _ in range(calls))


def test_a_limit_holds_exactly_whatever_else_is_asked_meanwhile():
    limiter = Limiter("100/day; 1000/day", name="all", store=MemoryStore())

    def look() -> None:
        peeked = limiter.peek("a")
        assert 0 <= peeked.remaining < 100
        assert [row.policy for row in peeked.details] == ["all", "all"]
        assert limiter.limits == as_limits("100/day; 1000/day")
        assert limiter.stats()["calls"] > 0

    assert sum(meanwhile(lambda: all_together(lambda _: admitted(limiter)), look, look)) == 100


def test_every_call_is_counted_once():
    limiter = Limiter("1/day")
    counts = [0]

    def look() -> None:
        counts.append(limiter.stats()["calls"])

    meanwhile(lambda: all_together(lambda _: admitted(limiter)), look)
    assert counts == sorted(counts)
    assert limiter.stats()["calls"] == THREADS * CALLS


def test_calls_of_many_are_counted_once():
    limiter = Limiter("1/day")
    all_together(lambda _: limiter.hit_many(["a"] * CALLS))
    assert limiter.stats()["calls"] == THREADS * CALLS


@pytest.mark.parametrize("kind", [FixedWindow, TokenBucket], ids=lambda kind: kind.algorithm)
def test_updates_during_hits_grant_what_the_largest_limit_does(kind):
    small, large = kind(50, 86_400), kind(80, 86_400)
    limiter = Limiter(small)

    def update() -> None:
        limiter.update(large)
        assert limiter.limits in ((small,), (large,))
        limiter.update(small)

    before = sum(meanwhile(lambda: all_together(lambda _: admitted(limiter)), update, update))
    assert 50 <= before <= 80
    limiter.update(large)
    assert before + admitted(limiter) == 80


def test_what_is_refunded_during_updates_is_given_back_once():
    limiter = Limiter(TokenBucket(500, 86_400))
    taken = limiter.hit("a", cost=100)
    assert taken

    def update() -> None:
        limiter.update(TokenBucket(501, 86_400))
        limiter.update(TokenBucket(500, 86_400))

    def take_and_give_back() -> None:
        for _ in range(CALLS):
            limiter.refund(limiter.hit("a"))

    meanwhile(lambda: all_together(lambda _: take_and_give_back(), 3), update, update)
    assert 395 <= limiter.peek("a", cost=0).remaining <= 401


def test_limits_of_the_call_share_a_count():
    limiter = Limiter("5/day")
    texts = [f"{limit}/day" for limit in range(40, 40 + THREADS)]

    def hit(thread: int) -> int:
        return sum(bool(limiter.with_limits(texts[(thread + i) % THREADS]).hit("a")) for i in range(CALLS))

    assert sum(all_together(hit)) == 40 + THREADS - 1


def test_several_limiters_at_once_admit_all_or_nothing():
    store = MemoryStore()
    first, second = (Limiter("60/day", name=name, store=store) for name in ("first", "second"))

    def hit(thread: int) -> int:
        charges = [(first, "a"), (second, "b")]
        return sum(bool(hit_all(charges if thread % 2 else charges[::-1])) for _ in range(CALLS))

    assert sum(all_together(hit)) == 60
    assert first.peek("a", cost=0).remaining == second.peek("b", cost=0).remaining == 0


def test_a_limiter_is_initialised_once():
    limits, store = as_limits("3/day"), MemoryStore()
    for _ in range(20):
        limiter = _core.Limiter.__new__(_core.Limiter)

        def initialise(_thread: int, limiter: _core.Limiter = limiter) -> bool:
            try:
                limiter.__init__("one", limits, store, None, None, None, "raise", None)
            except ValueError:
                return False
            return limiter.name == "one"

        assert sum(all_together(initialise)) == 1
        assert limiter.limits == limits


def test_a_wrong_update_changes_nothing_for_others():
    limiter = Limiter("50/day")

    def update() -> None:
        with pytest.raises(InvalidLimit):
            limiter.update("0/never")

    assert sum(meanwhile(lambda: all_together(lambda _: admitted(limiter)), update)) == 50


def test_limiters_are_made_and_dropped_while_others_hit():
    store = MemoryStore()
    kept = Limiter("50/day", name="same", store=store)

    def make() -> None:
        Limiter("50/day", name="same", store=store).peek("a")
        Limiter("1/day").hit("b")

    assert sum(meanwhile(lambda: all_together(lambda _: admitted(kept)), make, make)) == 50


def test_what_is_told_of_decisions_is_each_of_them():
    told = []
    limiter = Limiter("50/day", on_decision=told.append)
    together(*[lambda: admitted(limiter)] * THREADS)
    assert len(told) == THREADS * CALLS
    assert sum(map(bool, told)) == 50
