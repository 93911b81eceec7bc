"""limiter.stats(): what a limiter counts of itself in its own process."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

import programs
from overlimit import Limiter, MemoryStore, RedisStore, SharedMemoryStore, StoreError, hit_all

NOWHERE = "unix:///nowhere/redis.sock"
NO_ERRORS = {"timeout": 0, "unavailable": 0, "config": 0, "script": 0}


def test_a_new_limiter_has_counted_nothing(store):
    stats = Limiter("3/minute", name="default", store=store).stats()
    latency = stats.pop("latency")
    if isinstance(store, SharedMemoryStore):
        own = {name: stats.pop(name) for name in ("processes", "damaged", "unlinked")}
        assert own == {"processes": {"attached": 0, "alive": 0}, "damaged": 0, "unlinked": False}
    assert stats == {
        "calls": 0,
        "errors": NO_ERRORS,
        "timeouts": 0,
        "local": 0,
        "crowded": 0,
        "leased": 0,
        "refusals": 0,
        "asked": 0,
        "held": 0,
        "returned": 0,
        "lapsed": 0,
        "restored": 0,
        "breaker": "closed",
    }
    assert set(latency.values()) == {0}


def test_latencies_have_growing_bounds_from_100_microseconds_to_infinity():
    bounds = list(map(float, Limiter("3/minute").stats()["latency"]))
    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[-2], bounds[-1]) == (0.0001, 1.0, math.inf)


def test_stats_are_the_same_after_a_way_through_json(store):
    limiter = Limiter("3/minute", name="default", store=store)
    limiter.hit("a")
    stats = limiter.stats()
    assert json.loads(json.dumps(stats, allow_nan=False)) == stats


def test_stats_are_a_new_dict_each_time():
    limiter = Limiter("3/minute")
    stats = limiter.stats()
    stats["errors"]["timeout"] = stats["calls"] = 99
    assert limiter.stats()["errors"] == NO_ERRORS
    assert limiter.stats()["calls"] == 0


def test_every_question_to_the_store_counts_once(store):
    limiter = Limiter("1/minute", name="default", store=store)
    decision = limiter.hit("a")
    limiter.hit("a")
    limiter.peek("a")
    limiter.refund(decision)
    limiter.lock("a", 1)
    limiter.reset("a")
    limiter.acquire("a")
    hit_all([(limiter, "b"), (limiter, "c")])
    assert limiter.stats()["calls"] == 8
    with pytest.raises(ValueError, match="cost"):
        limiter.hit("a", cost=-1)
    assert limiter.stats()["calls"] == 8


def test_a_refund_that_has_nothing_to_give_back_asks_nobody(store):
    limiter = Limiter("1/minute", name="default", store=store)
    limiter.refund(limiter.peek("a"))
    assert limiter.stats()["calls"] == 1


def test_a_call_of_several_limiters_counts_for_each(store):
    first, second, idle = (Limiter("9/minute", store=store, name=name) for name in ("one", "two", "three"))
    hit_all([(first, "a"), (second, "a"), (first, "b")])
    assert [limiter.stats()["calls"] for limiter in (first, second, idle)] == [1, 1, 0]


def test_latencies_are_counted_for_a_store_that_waits_and_no_other(redis_store):
    for store, counted in ((redis_store, 20), (MemoryStore(), 0)):
        limiter = Limiter("9/minute", name="default", store=store)
        for _ in range(20):
            limiter.hit("a")
        assert sum(limiter.stats()["latency"].values()) == counted


def test_a_latency_is_counted_below_a_bound_it_does_not_exceed(start_redis, prefix):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=0.3, prefix=prefix)
    limiter = Limiter("9/minute", name="default", store=store)
    server.pause()
    with pytest.raises(StoreError):
        limiter.hit("a")
    latency = limiter.stats()["latency"]
    slow = sum(count for bound, count in latency.items() if float(bound) > 0.2)
    assert (slow, sum(latency.values())) == (1, 1)
    assert (limiter.stats()["timeouts"], limiter.stats()["errors"]) == (1, NO_ERRORS | {"timeout": 1})


@pytest.mark.parametrize("on_error", ["raise", "allow", "deny", "local"])
def test_failures_are_counted_by_kind_whatever_is_answered(on_error):
    limiter = Limiter("3/minute", name="default", store=RedisStore(NOWHERE), on_error=on_error)
    for _ in range(4):
        try:
            limiter.hit("a")
        except StoreError:
            assert on_error == "raise"
    with pytest.raises(StoreError):
        limiter.reset("a")
    stats = limiter.stats()
    assert (stats["calls"], stats["errors"]) == (5, NO_ERRORS | {"unavailable": 5})
    assert stats["local"] == (4 if on_error == "local" else 0)


def test_a_wrong_password_counts_as_configuration(start_redis):
    server = start_redis(password="right")
    store = RedisStore(server.tcp_url().replace("right", "wrong"), timeout=5.0)
    limiter = Limiter("3/minute", name="default", store=store, on_error="allow")
    assert limiter.hit("a").source == "error"
    assert limiter.stats()["errors"] == NO_ERRORS | {"config": 1}


def test_no_call_of_any_thread_is_lost(redis_store):
    limiter = Limiter("9/minute", name="default", store=redis_store)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(limiter.hit, ["a"] * 400))
    assert limiter.stats()["calls"] == 400
    assert sum(limiter.stats()["latency"].values()) == 400


def test_a_forked_child_starts_from_zero_and_leaves_its_parent_alone(redis_server, prefix):
    script = """
        import os, sys
        from overlimit import Limiter, RedisStore
        store = RedisStore(sys.argv[1], timeout=10.0, prefix=sys.argv[2])
        limiter, other = (Limiter("9/minute", name=name, store=store) for name in ("one", "two"))
        limiter.hit("a"), limiter.hit("a"), other.hit("a")
        if os.fork() == 0:
            print(limiter.stats()["calls"], sum(limiter.stats()["latency"].values()))
            limiter.hit("a"), other.hit("a")
            print(limiter.stats()["calls"], other.stats()["calls"], flush=True)
            os._exit(0)
        os.wait()
        print(limiter.stats()["calls"], sum(limiter.stats()["latency"].values()))
    """
    run = programs.run(script, redis_server.unix_url(), prefix)
    assert (run.returncode, run.stdout.split()) == (0, ["0", "0", "1", "1", "2", "2"])
