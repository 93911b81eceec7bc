"""Calls that meet a server which has forgotten (``remember``, ``docs/semantics.md``), on real servers."""

from __future__ import annotations

import time

import pytest

from overlimit import FixedWindow, Penalty

from .limiters import admitted, limiter_on


class TestACallThatMeetsALoss:
    """It does nothing before the counts are back: what it did could not all be undone."""

    @pytest.fixture(params=["forgets", "is-reached-anew"])
    def lose(self, request, forget, raw):
        if request.param == "forgets":
            return forget
        return lambda: raw.client_kill_filter(skipme=True, _type="normal")

    def test_opens_no_window_when_it_is_refused(self, store, raw, prefix, lose):
        limiter = limiter_on(store, FixedWindow(5, 3600))
        assert limiter.hit("full", cost=5)
        lose()
        assert limiter.hit("full", "fresh").status == "over"
        assert not raw.exists(f"{prefix}1:api:fresh")

    def test_locks_once_and_at_the_next_level(self, store, lose):
        limiter = limiter_on(store, FixedWindow(2, 30), penalty=Penalty([60, 600]))
        assert [limiter.hit("a").status for _ in range(3)] == ["ok", "ok", "over"]
        limiter.unlock("a")
        lose()
        assert limiter.hit("a").status == "over"
        refused = limiter.hit("a")
        assert refused.status == "locked"
        assert 590 < refused.retry_after <= 600

    def test_gives_back_what_was_charged(self, store, lose):
        limiter = limiter_on(store, FixedWindow(10, 3600))
        decision = limiter.hit("a", cost=4)
        lose()
        limiter.refund(decision)
        assert limiter.hit("a").remaining == 9
        lose()
        assert limiter.hit("a").remaining == 8

    def test_gives_back_to_the_others_as_well(self, store, raw, prefix):
        limiter = limiter_on(store, FixedWindow(10, 3600))
        assert limiter.hit_many(["a", "b"]).allowed.all()
        decision = limiter.hit("a", "b", cost=4)
        assert raw.delete(f"{prefix}1:api:a")
        limiter.refund(decision)
        assert [limiter.peek(each, cost=0).remaining for each in "ab"] == [9, 9]

    def test_unlocks_and_leaves_the_level(self, store, lose):
        limiter = limiter_on(store, FixedWindow(2, 30), penalty=Penalty([60, 600]))
        assert [limiter.hit("a").status for _ in range(3)] == ["ok", "ok", "over"]
        lose()
        limiter.unlock("a")
        assert limiter.hit("a").status == "over"
        assert 590 < limiter.hit("a").retry_after <= 600

    def test_gives_back_what_was_leased(self, remembering, lose):
        limiter = limiter_on(remembering(lease=0.5), FixedWindow(100_000, 3600))
        hits = admitted(limiter, 300)
        assert limiter.stats()["held"] > 0
        lose()
        hits += admitted(limiter, 1)
        time.sleep(0.6)
        hits += admitted(limiter, 1)
        limiter.store.close()
        assert limiter.stats()["lapsed"] == 0
        assert (
            limiter_on(remembering(remember=0), FixedWindow(100_000, 3600)).peek("a", cost=0).remaining
            == 100_000 - hits
        )

    def test_is_followed_by_decisions_without_asking(self, remembering, lose):
        limiter = limiter_on(remembering(lease=5, max_stale=5), FixedWindow(100_000, 3600))
        assert admitted(limiter, 300) == 300
        lose()
        limiter.peek("a", cost=0)
        before = limiter.stats()["asked"]
        assert admitted(limiter, 300) == 300
        assert limiter.stats()["asked"] - before <= 10
