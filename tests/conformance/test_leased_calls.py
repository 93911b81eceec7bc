"""Calls decided by what a process has charged early (``lease``, ``docs/semantics.md``), on real servers."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    ManualClock,
    MemoryStore,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
    bounds,
)
from overlimit.aio import AsyncLimiter
from programs import output_of
from servers.patience import PATIENCE, eventually

from .all_algorithms import plain_limits, with_bursts
from .leased import MANY, elsewhere, held, limiter_of, used, warmed

BURSTS = with_bursts(1000, 1, 3600)
NEVER = {"sliding_log"}
WINDOWS = {
    **{name: limit for name, limit in plain_limits(1000, 3600).items() if name not in {*BURSTS, *NEVER}},
    "epoch": FixedWindow(1000, per=3600, start="epoch"),
    "calendar": FixedWindow(1000, "hour", start="calendar", timezone="America/St_Johns"),
    "calendar_day": FixedWindow(1000, "day", start="calendar", timezone="Europe/Berlin"),
    "interval": TokenBucket(1000, per=3600, refill="interval"),
    "epoch_interval": TokenBucket(1000, per=3600, refill="interval", start="epoch"),
    "queue": LeakyBucket(1000, per=3600, capacity=0),
    "several": [FixedWindow(1000, per=3600), SlidingWindow(1500, per=7200)],
}
"""Of 1000 each, that count what is charged for longer than any test takes."""
BUCKETS = {
    **{name: limit for name, limit in BURSTS.items() if name != "leaky_bucket"},  # "queue" is its lease
    "mixed": [TokenBucket(1, per=3600, burst=1000), FixedWindow(2000, per=7200)],
}
"""Likewise, which hold what is leased."""


class TestWhatIsLeased:
    @pytest.mark.parametrize("kind", WINDOWS | BUCKETS)
    def test_a_single_process_counts_down_one_by_one_with_few_commands(self, leasing, strict, kind):
        limits = (WINDOWS | BUCKETS)[kind]
        limiter = limiter_of(leasing, limits)
        decisions = [limiter.hit("a") for _ in range(1000)]
        assert [each.remaining for each in decisions] == list(range(999, -1, -1))
        assert {each.source for each in decisions} == {"store", "lease"}
        assert limiter.stats()["asked"] <= 40
        assert limiter.stats()["leased"] >= 960
        assert used(strict, limits) == 1000
        assert limiter.hit("a").status == "over"

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_what_is_held_comes_back_when_the_store_is_closed(self, leasing, strict, kind):
        limits = WINDOWS[kind]
        limiter, hits = warmed(leasing, limits)
        rest = held(limiter)
        assert used(strict, limits) == hits + rest
        leasing.close()
        assert used(strict, limits) == hits
        stats = limiter.stats()
        assert (stats["held"], stats["returned"], stats["lapsed"]) == (0, rest, 0)

    @pytest.mark.parametrize("kind", BUCKETS)
    def test_what_a_bucket_holds_is_not_given_back_before_its_time(self, leasing, strict, kind):
        limits = BUCKETS[kind]
        _, hits = warmed(leasing, limits)
        leasing.close()
        assert used(strict, limits) >= hits

    def test_fields_are_those_of_the_record(self, leasing):
        limits = [FixedWindow(1000, per=3600), SlidingWindow(2000, per=7200)]
        limiter, hits = warmed(leasing, limits)
        decision = limiter.hit("a")
        assert (decision.source, decision.allowed, decision.status) == ("lease", True, "ok")
        assert (decision.retry_after, decision.delay, decision.identifier) == (0.0, 0.0, "a")
        assert [row.remaining for row in decision.details] == [999 - hits, 1999 - hits]
        assert decision.details[0].reset_after == pytest.approx(3600, abs=100)
        assert decision.time == pytest.approx(time.time(), abs=100)

    def test_when_four_are_left_answers_are_exact(self, leasing, strict):
        limiter = limiter_of(leasing, "5/hour")
        assert [limiter.hit("a").source for _ in range(5)] == ["store"] * 5
        assert held(limiter) == 0

    @pytest.mark.parametrize(
        ("limits", "options", "why"),
        [
            (SlidingLog(1000, per=3600), {}, "keeps the instant of every call"),
            ([MANY, SlidingLog(1000, per=3600)], {}, "keeps the instant of every call"),
            (TokenBucket(1, per=3600, burst=1000, debt=5), {}, "overdrawn"),
            (TokenBucket(1000, per=3600, refill="interval", debt=5), {}, "overdrawn"),
            (MANY, {"penalty": Penalty(5)}, "penalty"),
            (MANY, {"clock": time.time}, "clock of its own"),
        ],
    )
    def test_what_is_never_leased(self, leasing, limits, options, why):
        limiter = limiter_of(leasing, limits, **options)
        assert {limiter.hit("a").source for _ in range(100)} == {"store"}
        assert limiter.stats()["asked"] == 100
        assert held(limiter) == 0
        assert why in bounds(limiter).reason
        assert bounds(limiter).lease == 0.0

    def test_what_is_never_leased_is_warned_of_once_per_store(self, leasing, strict, caplog):
        with caplog.at_level(logging.WARNING, logger="overlimit"):
            limiter_of(strict, SlidingLog(1000, per=3600), name="none")
            limiter_of(leasing, MANY, name="some")
            limiter_of(leasing, MANY, name="clock", clock=ManualClock(1e9))
            assert caplog.records == []
            limiter_of(leasing, SlidingLog(1000, per=3600), name="log")
            limiter_of(leasing, "4/hour", name="few")
        [record] = caplog.records
        assert "name='log'" in record.getMessage()
        assert "keeps the instant of every call" in record.getMessage()

    def test_a_cost_of_nothing_is_never_leased(self, leasing):
        limiter, _ = warmed(leasing)
        assert limiter.hit("a", cost=0).source == "store"
        assert limiter.peek("a", cost=0).source == "store"

    def test_nor_are_charges_that_are_not_refused(self, leasing):
        limiter, _ = warmed(leasing)
        assert limiter.charge("a").source == "store"

    def test_bounds(self, leasing, strict, prefix):
        assert bounds(limiter_of(leasing)) == (0, 10.0, 10.0, None, 0.25, 0)
        assert bounds(limiter_of(leasing, "5/second")).lease == 0.02
        assert bounds(limiter_of(leasing, FixedWindow(5, per=3))).lease == 3.0
        assert bounds(limiter_of(strict)) == (0, 0.0, 0.0, "the store has no lease", 0.0, 0)
        of_tasks = AsyncLimiter("5/second", name="api", store=leasing)
        assert bounds(of_tasks) == bounds(limiter_of(leasing, "5/second"))
        assert bounds(limiter_of(MemoryStore())).reason == "the store is not a RedisStore"


class TestCosts:
    def test_dearer_calls_spend_several_units(self, leasing, strict):
        limiter, hits = warmed(leasing, least=100)
        before = held(limiter)
        decision = limiter.hit("a", cost=7)
        assert (decision.source, decision.remaining) == ("lease", 1000 - hits - 7)
        assert held(limiter) == before - 7

    def test_a_call_that_needs_more_than_is_held_gets_all_that_is_left(self, leasing):
        limiter, hits = warmed(leasing, least=100)
        decision = limiter.hit("a", cost=1000 - hits)
        assert (decision.allowed, decision.remaining) == (True, 0)
        assert held(limiter) == 0
        assert limiter.hit("a").status == "over"

    def test_a_peek_says_what_a_hit_would(self, leasing):
        limiter, hits = warmed(leasing, least=100)
        rest = 1000 - hits
        for cost in (1, 10, rest, rest + 1):
            shown = limiter.peek("a", cost=cost)
            assert (shown.allowed, shown.remaining) == (cost <= rest, rest - cost if cost <= rest else rest)


class TestRefunds:
    def test_a_unit_goes_back_into_its_lease(self, leasing):
        limiter, _ = warmed(leasing)
        before, asked = held(limiter), limiter.stats()["asked"]
        decision = limiter.hit("a")
        assert (decision.source, held(limiter)) == ("lease", before - 1)
        limiter.refund(decision)
        limiter.refund(decision)
        assert (held(limiter), limiter.stats()["asked"]) == (before, asked)
        assert limiter.hit("a").remaining == decision.remaining

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_after_its_end_it_goes_to_the_server(self, brief, strict, kind):
        limits = WINDOWS[kind]
        limiter, _ = warmed(brief, limits)
        decision = limiter.hit("a")
        while decision.source != "lease":
            decision = limiter.hit("a")
        brief.close()
        before = used(strict, limits)
        limiter.refund(decision)
        limiter.refund(decision)
        assert used(strict, limits) == before - 1

    def test_what_a_bucket_has_drained_is_not_put_back(self, leasing_for):
        store = leasing_for(10)
        limiter = limiter_of(store, TokenBucket(100, per=1, burst=400))
        asking = limiter.hit("a", cost=20)
        while not held(limiter):
            asking = limiter.hit("a", cost=20)
        assert (asking.source, held(limiter) >= 40) == ("store", True)
        time.sleep(0.5)  # until all that was not leased has drained
        limiter.refund(asking)
        began = time.monotonic()
        at_once = 0
        while (limiter.hit("a", cost=4) if at_once < 300 else limiter.hit("a")).allowed:
            at_once += 4 if at_once < 300 else 1
        assert at_once <= 400 + 100 * (time.monotonic() - began) + 1


class TestChanges:
    def test_a_reset_here_ends_the_lease_at_once(self, leasing, strict):
        for number, change in enumerate(("reset", "reset_all")):
            limiter, _ = warmed(leasing, name=f"api{number}")
            rest = held(limiter)
            getattr(limiter, change)(*(("a",) if change == "reset" else ()))
            assert rest > 0
            assert (held(limiter), limiter.stats()["lapsed"]) == (0, 0)
            decision = limiter.hit("a")
            assert (decision.source, decision.remaining) == ("store", 999)
            assert limiter.stats()["returned"] == 0

    def test_a_lock_here_ends_the_lease_at_once(self, leasing, strict):
        limiter, hits = warmed(leasing)
        limiter.lock("a", 60)
        assert [limiter.hit("a").status for _ in range(3)] == ["locked"] * 3
        limiter.unlock("a")
        assert limiter.hit("a").remaining == 999 - hits

    def test_so_does_a_strict_store_of_the_same_place(self, leasing, strict):
        limiter, _ = warmed(leasing)
        limiter_of(strict).lock("a", 60)
        assert limiter.hit("a").status == "locked"
        limiter_of(strict).reset("a")
        assert limiter.hit("a").remaining == 999

    def test_so_does_an_update(self, leasing):
        limiter, hits = warmed(leasing)
        limiter.update(FixedWindow(hits + 5, per=3600))
        assert [limiter.hit("a").allowed for _ in range(7)] == [True] * 5 + [False] * 2

    def test_a_lower_limit_of_the_call_alone_is_kept(self, leasing):
        limiter, hits = warmed(leasing)
        lower = limiter.with_limits(FixedWindow(hits, per=3600))
        assert not lower.hit("a")
        assert limiter.hit("a").allowed

    @pytest.mark.parametrize(
        ("what", "is_noticed"),
        [
            ("limiter.lock('a', 600)", lambda decision: decision.status == "locked"),
            ("limiter.reset('a')", lambda decision: decision.remaining > 900),
            ("limiter.hit('a', cost=600)", lambda decision: decision.remaining < 400),
        ],
    )
    def test_what_others_change_is_noticed_within_a_lease(self, leasing_for, redis_server, what, is_noticed):
        store = leasing_for(0.5)
        limiter = limiter_of(store)
        assert limiter.hit("a", cost=150)
        warmed(store)
        elsewhere(store, redis_server.unix_url(), what)
        assert eventually(lambda: is_noticed(limiter.hit("a"))) < 5


class TestWhoSharesALease:
    def test_stores_of_one_place(self, leasing, leasing_for):
        limiter, hits = warmed(leasing)
        other = leasing_for(5)
        decision = limiter_of(other).hit("a")
        assert (decision.source, decision.remaining) == ("lease", 999 - hits)
        assert held(limiter) == held(limiter_of(other))

    def test_no_others(self, redis_server, leasing, leasing_for, prefix):
        warmed(leasing)
        db = RedisStore(redis_server.unix_url(db=1), timeout=PATIENCE, prefix=prefix, lease=10)
        named = leasing_for(10, prefix=f"{prefix}.b")
        for store in (db, named):
            assert limiter_of(store).hit("a").remaining == 999
        assert limiter_of(leasing, name="other").hit("a").source == "store"
        assert limiter_of(leasing).hit("b").source == "store"

    def test_a_strict_store_counts_what_is_held_as_used(self, leasing, strict):
        limiter, hits = warmed(leasing)
        rest = held(limiter)
        asked = limiter_of(strict)
        decision = asked.hit("a")
        assert (decision.source, decision.remaining) == ("store", 999 - hits - rest)
        while asked.hit("a"):
            pass
        admitted = sum(limiter.hit("a").allowed for _ in range(rest + 5))
        assert admitted == rest
        assert used(strict) == 1000

    def test_threads_admit_exactly_what_there_is(self, leasing, strict):
        limiter = limiter_of(leasing)
        admitted: list[bool] = []

        def spend() -> None:
            for _ in range(400):
                admitted.append(limiter.hit("a").allowed)

        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        leasing.close()
        assert 900 <= sum(admitted) <= 1000
        assert sum(admitted) == used(strict)

    def test_rows_of_many(self, leasing, strict):
        limiter = limiter_of(leasing, FixedWindow(5000, per=3600))
        decided = limiter.hit_many(["a"] * 6000)
        assert decided.allowed.tolist() == [True] * 5000 + [False] * 1000
        assert [each.remaining for each in decided][:5000] == list(range(4999, -1, -1))
        assert {each.source for each in decided} == {"store", "lease", "refusal"}
        assert limiter.stats()["asked"] <= 100

    def test_tasks(self, leasing):
        async def ask() -> list[Any]:
            limiter = AsyncLimiter(MANY, name="api", store=leasing)
            decisions = [await limiter.hit("a") for _ in range(50)]
            return decisions + await asyncio.gather(*(limiter.hit("a") for _ in range(50)))

        decisions = asyncio.run(ask())
        assert sorted((each.remaining for each in decisions), reverse=True) == list(range(999, 899, -1))
        assert limiter_of(leasing).stats()["held"] > 0
        assert sum(each.source == "lease" for each in decisions) >= 90

    def test_a_child_has_none(self, redis_server, prefix):
        program = f"""
            from overlimit import *; import os, sys
            store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE}, lease=10)
            limiter = Limiter(FixedWindow(1000, per=3600), name="api", store=store)
            for _ in range(40):
                limiter.hit("a")
            held = limiter.stats()["held"]
            assert held > 50
            if os.fork() == 0:
                assert limiter.stats()["held"] == 0
                decision = limiter.hit("a")
                assert (decision.source, decision.remaining) == ("store", 959 - held), decision
                store.close()
                os._exit(0)
            assert os.wait()[1] == 0
            assert limiter.stats()["held"] == held
            print(limiter.hit("a").source)
            """
        assert output_of(program, redis_server.unix_url(), prefix) == "lease\n"

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_what_children_hold_comes_back_when_they_end(
        self, redis_server, strict, prefix, tmp_path, method
    ):
        program = tmp_path / "parent.py"
        program.write_text(
            f"""
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from overlimit import *

store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE}, lease=10)
limiter = Limiter(FixedWindow(1000, per=3600), name="api", store=store)

def hit():
    for _ in range(40):
        limiter.hit("a")
    assert limiter.stats()["held"] > 50

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    child = context.Process(target=hit)
    child.start()
    child.join()
    assert child.exitcode == 0
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(hit).result()
"""
        )
        subprocess.run([sys.executable, program, redis_server.unix_url(), prefix], check=True, timeout=120)
        assert used(strict) == 80

    def test_what_has_ended_goes_in_front_of_the_next_command(self, brief, strict):
        limiter, hits = warmed(brief)
        rest = held(limiter)
        time.sleep(0.25)
        assert limiter.hit("somebody else").allowed
        assert used(strict) == hits
        assert (held(limiter), limiter.stats()["returned"]) == (0, rest)

    def test_a_hot_tenant_beside_cold_users(self, leasing, strict):
        limiter = limiter_of(leasing)
        for i in range(300):
            decision = limiter.hit("a", f"user {i}")
            assert (decision.allowed, decision.remaining) == (True, 999 - i)
        leasing.close()
        assert used(strict) == 300
        assert limiter_of(strict).peek("user 7").remaining == 998


@pytest.mark.parametrize(("option", "most"), [("lease", 10), ("max_stale", 60), ("remember", 3600)])
class TestDurations:
    @pytest.mark.parametrize("wrong", [-1, None, "soon", float("nan"), float("inf")])
    def test_are_checked(self, option, most, wrong):
        wrong = most + 1 if wrong is None else wrong
        with pytest.raises(ValueError, match=f"{option} must be from 0 to {most} seconds"):
            RedisStore("redis://localhost", **{option: wrong})
        with pytest.raises(ValueError, match=f"{option} must be from 0 to {most} seconds"):
            RedisStore(f"redis://localhost?{option}={wrong}")
        with pytest.raises(TypeError, match=option):
            RedisStore("redis://localhost", **{option: True})

    def test_are_options_of_urls(self, option, most):
        assert f"{option}=2.5" in repr(RedisStore(f"redis://localhost?{option}=2.5"))


class TestOptions:
    def test_max_stale_of_less_than_a_microsecond_is_refused(self):
        with pytest.raises(
            ValueError, match="max_stale must be 0 or at least a microsecond, 1e-6, not 1e-07"
        ):
            RedisStore("redis://localhost", max_stale=1e-7)

    def test_max_stale_may_be_longer(self):
        limiter = limiter_of(RedisStore("redis://localhost", lease=1, max_stale=7))
        assert (bounds(limiter).stale, bounds(limiter).lease) == (7.0, 1.0)
        limiter = limiter_of(RedisStore("redis://localhost", lease=3, max_stale=0))
        assert (bounds(limiter).stale, bounds(limiter).lease) == (3.0, 3.0)

    def test_a_server_that_is_gone_costs_the_process_its_units(self, start_redis, prefix):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=0.2, prefix=prefix, lease=10)
        limiter, _ = warmed(store)
        rest = held(limiter)
        server.kill()
        assert [limiter.hit("a").source for _ in range(rest)] == ["lease"] * rest
        store.close()
        assert held(limiter) == 0
