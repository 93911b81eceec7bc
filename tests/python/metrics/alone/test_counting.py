"""What metrics count, as an exporter of prometheus_client shows it."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, start_http_server

import overlimit.metrics
import programs
from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RedisStore,
    _core,
    hit_all,
    hit_first,
)
from overlimit.metrics import slots
from scraping import Scraped, samples_in
from servers.patience import PATIENCE, eventually

NOWHERE = "unix:///nowhere/redis.sock"
DECISIONS = "overlimit_decisions_total"


def decided(scraped, policy, outcome, limit="3-per-60s", source="store"):
    return scraped.of(DECISIONS, policy=policy, limit=limit, outcome=outcome, source=source)


def test_every_outcome_is_counted_for_the_limit_that_binds(scraped, policy, store):
    limiter = Limiter(
        [FixedWindow(3, 60), FixedWindow(4, 3600)], name=policy, store=store, penalty=Penalty(60)
    )
    decisions = [*(limiter.hit("a") for _ in range(5)), limiter.hit("b", cost=5)]
    limiter.peek("a")
    expected = Counter(
        (decision.status.replace("ok", "allowed"), decision.limit.label) for decision in decisions
    )
    assert {status for status, _ in expected} == set(slots.STATUSES)
    assert expected.total() == 6
    labels = ("3-per-60s", "4-per-3600s")
    counts = {
        (outcome, label): decided(scraped, policy, outcome, label)
        for outcome in slots.STATUSES
        for label in labels
    }
    assert {key: count for key, count in counts.items() if count} == expected


def test_a_call_of_several_budgets_counts_once_whatever_was_asked(scraped, policy, store):
    plan = Limiter(FixedWindow(3, 3600), name=policy, store=store)
    credits = Limiter(FixedWindow(3, 60), name=f"{policy}-credits", store=store)
    for _ in range(8):
        hit_first([(plan, "a"), (credits, "a")])
    assert [decided(scraped, policy, each, "3-per-3600s") for each in ("allowed", "over")] == [3, 0]
    assert [decided(scraped, f"{policy}-credits", each) for each in ("allowed", "over")] == [3, 2]


def test_a_decision_about_several_policies_counts_once(scraped, policy, store):
    wide, narrow = (
        Limiter(f"{number}/minute", name=name, store=store)
        for number, name in ((9, policy), (1, f"{policy}-narrow"))
    )
    for _ in range(3):
        hit_all([(wide, "a"), (narrow, "a")])
    assert decided(scraped, f"{policy}-narrow", "allowed", "1-per-60s") == 1
    assert decided(scraped, f"{policy}-narrow", "over", "1-per-60s") == 2
    assert decided(scraped, policy, "allowed", "9-per-60s") == 0


@pytest.mark.parametrize("limits", ["3/minute", "3/minute; 100/hour"])
def test_many_decisions_count_like_as_many_hits(scraped, policy, store, limits):
    limiter = Limiter(limits, name=policy, store=store)
    limiter.hit_many(["a"] * 5 + ["b"])
    limiter.peek_many(["a"] * 5)
    assert (decided(scraped, policy, "allowed"), decided(scraped, policy, "over")) == (4, 2)


def test_counts_stay_when_a_limiter_is_updated_or_gone(scraped, policy):
    store = MemoryStore()
    limiter = Limiter("3/minute", name=policy, store=store)
    limiter.hit("a")
    limiter.update("4/minute")
    limiter.hit("a")
    limiter.with_limits("5/minute").hit("a")
    del limiter
    Limiter("3/minute", name=policy, store=store).hit("b")
    limits = {"3-per-60s": 2, "4-per-60s": 1, "5-per-60s": 1}
    assert {limit: decided(scraped, policy, "allowed", limit) for limit in limits} == limits


def test_leases_show_what_is_held_and_what_became_of_it(scraped, policy, redis_server, prefix):
    store, strict = (
        RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, lease=lease) for lease in (10, 0)
    )
    together = [Limiter("1000/hour", name=policy, store=each) for each in (strict, store, store)]
    decisions = [together[1].hit("a") for _ in range(20)]
    leased = sum(decision.source == "lease" for decision in decisions)
    assert decided(scraped, policy, "allowed", "1000-per-3600s", "lease") == leased > 10
    held = together[2].stats()["held"]
    assert scraped.of("overlimit_leased_units", policy=policy) == held > 0
    asked = 20 - leased
    together[1].lock("b", 1)  # what is held of others stays
    store.close()
    assert scraped.of("overlimit_leased_units", policy=policy) == 0
    assert scraped.of("overlimit_returned_units_total", policy=policy) == held
    assert scraped.of("overlimit_lapsed_units_total", policy=policy) == 0
    assert scraped.of("overlimit_store_latency_seconds_count", store=store.endpoint) >= asked


def test_units_of_leases_that_a_reset_forgets_are_neither_given_back_nor_lost(
    scraped, policy, redis_server, prefix
):
    store = RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, lease=10)
    limiter = Limiter("1000/hour", name=policy, store=store)
    limiter.hit_many(["a"] * 20)
    held = limiter.stats()["held"]
    assert scraped.of("overlimit_granted_units_total", policy=policy) >= held > 0
    limiter.reset("a")
    assert scraped.of("overlimit_leased_units", policy=policy) == 0
    assert scraped.of("overlimit_returned_units_total", policy=policy) == 0
    assert scraped.of("overlimit_lapsed_units_total", policy=policy) == 0


def test_units_lapse_when_what_gives_them_back_does_not_arrive(scraped, policy, start_redis):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=PATIENCE, lease=10)
    limiter = Limiter("1000/hour", name=policy, store=store)
    while limiter.stats()["held"] == 0:
        limiter.hit("a")
    held = limiter.stats()["held"]
    server.stop()
    store.close()
    assert limiter.stats()["lapsed"] == held
    assert scraped.of("overlimit_lapsed_units_total", policy=policy) == held
    assert scraped.of("overlimit_granted_units_total", policy=policy) >= held


def test_commands_are_counted_by_store_and_so_are_keys_that_come_back(scraped, policy, start_redis):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=PATIENCE, lease=0.05, remember=60)
    limiter = Limiter("100000/hour", name=policy, store=store)
    before = server.scripts_run()
    while limiter.stats()["returned"] == 0:
        limiter.hit("a")
    with closing(server.client()) as client:
        client.flushall()
    while limiter.stats()["restored"] == 0:
        limiter.hit("a")
    asked = limiter.stats()["asked"]
    assert asked < limiter.stats()["calls"]
    assert 0 <= server.scripts_run() - before - asked <= 5  # scripts that the server did not know yet
    assert scraped.of("overlimit_store_commands_total", store=store.endpoint) == asked
    assert scraped.of("overlimit_restored_keys_total", store=store.endpoint) == 1


def test_refusals_of_this_process_are_counted_as_such(scraped, policy, redis_server, prefix):
    store = RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, max_stale=10)
    limiter = Limiter(FixedWindow(3, 60), name=policy, store=store)
    for _ in range(9):
        limiter.hit("a")
    assert decided(scraped, policy, "over", source="store") == 1
    assert decided(scraped, policy, "over", source="refusal") == 5
    assert scraped.of("overlimit_leased_units", policy=policy) == 0


def test_limiters_without_a_name_count_together(scraped):
    for _ in range(2):
        Limiter("3/minute").hit("a")
    assert decided(scraped, "(unnamed)", "allowed") == 2


@pytest.mark.parametrize(
    ("on_error", "outcome", "source", "limit"),
    [
        ("allow", "allowed", "error", ""),
        ("deny", "denied", "error", ""),
        ("local", "allowed", "local", "3-per-60s"),
    ],
)
def test_decisions_without_the_store_have_their_source(scraped, policy, on_error, outcome, source, limit):
    limiter = Limiter("3/minute", name=policy, store=RedisStore(NOWHERE), on_error=on_error)
    limiter.hit("a")
    limiter.hit_many(["a"])
    assert decided(scraped, policy, outcome, limit, source) == 2
    errors = scraped.of("overlimit_store_errors_total", store=limiter.store.endpoint, kind="unavailable")
    assert errors == limiter.stats()["errors"]["unavailable"] == 2


def test_latencies_are_those_of_the_engine(scraped, policy, redis_store):
    limiter = Limiter("9/minute", name=policy, store=redis_store)
    for _ in range(20):
        limiter.hit("a")
    name, endpoint = "overlimit_store_latency_seconds", redis_store.endpoint
    assert scraped.of(f"{name}_count", store=endpoint) == 20
    assert 0 < scraped.of(f"{name}_sum", store=endpoint) < 20
    latency = limiter.stats()["latency"]
    assert _core._LATENCY_BOUNDS == tuple(map(float, latency))[:-1]
    below = sum(count for bound, count in latency.items() if float(bound) <= 0.002)
    assert scraped.of(f"{name}_bucket", store=endpoint, le="0.002") == below


def test_the_breaker_is_as_the_last_call_left_it(scraped, policy, start_redis, prefix, monkeypatch):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=10.0, prefix=prefix)
    limiter = Limiter("99/minute", name=policy, store=store, on_error="allow")

    def state():
        names = {
            state: scraped.of("overlimit_breaker_state", store=store.endpoint, state=state)
            for state in _core._BREAKER_STATES
        }
        return [name for name, count in names.items() if count]

    limiter.hit("a")
    assert state() == ["closed"]
    server.kill()
    eventually(lambda: limiter.hit("a").source == "error" and limiter.stats()["breaker"] != "closed")
    limiter.hit("a")
    assert state() in (["open"], ["half_open"])
    now = time.time()
    monkeypatch.setattr("overlimit.metrics.samples.time", SimpleNamespace(time=lambda: now + 55))
    assert state() in (["open"], ["half_open"])
    monkeypatch.setattr("overlimit.metrics.samples.time", SimpleNamespace(time=lambda: now + 62))
    assert state() == []


def test_crowded_decisions_are_counted_by_policy(scraped, policy):
    limiter = Limiter("9/minute", name=policy, store=MemoryStore(max_keys=2))
    for number in range(5):
        limiter.hit(f"user:{number}")
    assert scraped.of("overlimit_crowded_decisions_total", policy=policy) == limiter.stats()["crowded"] == 3


def test_the_memory_of_all_memory_stores_is_shown():
    program = """
        from prometheus_client import CollectorRegistry, generate_latest
        import overlimit.metrics
        from overlimit import Limiter, MemoryStore
        registry = CollectorRegistry()
        overlimit.metrics.prometheus(registry)
        stores = [MemoryStore(max_keys=4), MemoryStore(max_keys=9)]
        for store in stores:
            for number in range(3):
                Limiter("9/minute", name="p", store=store).hit(str(number))
        print(generate_latest(registry).decode())
    """
    found = samples_in(programs.output_of(program))
    shown = {
        key[0].removeprefix("overlimit_store_"): value for key, value in found.items() if "store" in key[0]
    }
    assert (shown["keys"], shown["max_keys"], shown["max_bytes"]) == (6, 13, 2 << 28)
    assert 6 * 96 <= shown["bytes"] < 1 << 20


def test_shared_memory_is_shown_by_its_endpoint(scraped, policy, shared_memory_store):
    Limiter("9/minute", name=policy, store=shared_memory_store).hit("a")
    assert scraped.of("overlimit_store_keys", store=shared_memory_store.endpoint) == 1
    assert scraped.of("overlimit_store_bytes", store=shared_memory_store.endpoint) > 0


def test_waits_are_counted_while_they_last_and_when_they_are_over(scraped, policy):
    clock = ManualClock()
    limiter = Limiter("1/second", name=policy, clock=clock)
    limiter.acquire("a")
    assert scraped.of("overlimit_wait_seconds_count", policy=policy) == 0
    thread = threading.Thread(target=limiter.acquire, args=["a"])
    thread.start()
    eventually(lambda: scraped.of("overlimit_waiting_calls", policy=policy) == 1)
    while thread.is_alive():
        clock.advance(0.5)
        thread.join(0.01)
    assert scraped.of("overlimit_waiting_calls", policy=policy) == 0
    assert scraped.of("overlimit_wait_seconds_count", policy=policy) == 1
    assert 0 < scraped.of("overlimit_wait_seconds_sum", policy=policy) < 60


def test_refusals_in_shadow_are_counted(scraped, policy):
    flask = pytest.importorskip("flask")
    from overlimit.flask import RateLimit, rate_limit

    app = flask.Flask(policy)
    RateLimit(app, store=MemoryStore())
    view = rate_limit("1/hour", shadow=True, name=policy)(lambda: "ok")
    app.add_url_rule("/", "index", view)
    statuses = [app.test_client().get("/").status_code for _ in range(3)]
    assert statuses == [200, 200, 200]
    refused = [
        value for labels, value in scraped.series("overlimit_shadow_refusals_total").items()
        if policy in dict(labels)["policy"]
    ]  # fmt: skip
    assert refused == [2]


def test_labels_are_bounded_and_never_an_identifier(policy):
    registry = CollectorRegistry()
    overlimit.metrics.prometheus(registry, max_policies=1)
    for number in range(3):
        Limiter("3/minute", name=f"{policy}-{number}").hit(f"secret-{number}")
    shown = Scraped(registry)
    policies = {dict(labels)["policy"] for labels in shown.series(DECISIONS)}
    assert len(policies) == 2
    assert "(other)" in policies
    assert not [key for key in shown.now() if "secret" in str(key)]


def test_more_limits_than_there_is_room_for_are_counted_together():
    program = """
        from overlimit import Limiter
        from overlimit.metrics.slots import parsed
        from overlimit import _core
        for number in range(2100):
            Limiter("3/minute", name=f"p-{number}").hit("a")
        slots = parsed(_core._counters())
        print(len(slots), sum(numbers[0] for numbers in slots.values()))
    """
    assert programs.output_of(program).split() == ["2046", "2100"]


def test_a_forked_child_begins_at_zero():
    program = """
        import os
        from overlimit import Limiter, _core
        from overlimit.metrics.slots import parsed
        limiter = Limiter("9/minute", name="p")
        counted = lambda: sum(sum(numbers) for numbers in parsed(_core._counters()).values())
        limiter.hit("a")
        if os.fork() == 0:
            print(counted())
            Limiter("9/minute", name="q").hit("a"), limiter.hit("a")
            print(counted(), flush=True)
            os._exit(0)
        os.wait()
        print(counted())
    """
    assert programs.run(program).stdout.split() == ["0", "2", "1"]


def test_a_registry_has_them_once():
    registry = CollectorRegistry()
    collector = overlimit.metrics.prometheus(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        overlimit.metrics.prometheus(registry)
    registry.unregister(collector)
    overlimit.metrics.prometheus(registry)


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), ("many", TypeError)])
def test_a_wrong_number_of_policies_is_refused(wrong, error):
    with pytest.raises(error, match="max_policies"):
        overlimit.metrics.prometheus(CollectorRegistry(), max_policies=wrong)


def test_an_exporter_is_scraped_while_threads_decide(policy):
    registry = CollectorRegistry()
    overlimit.metrics.prometheus(registry, max_policies=1000)
    limiter = Limiter("1000/minute", name=policy, store=MemoryStore())
    server, serving = start_http_server(0, "127.0.0.1", registry)
    url = f"http://127.0.0.1:{server.server_port}/metrics"

    def hit():
        for _ in range(2000):
            limiter.hit("a")

    def total():
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = samples_in(answer.read().decode())
        return sum(value for key, value in found.items() if key[0] == DECISIONS and ("policy", policy) in key)

    threads = [threading.Thread(target=hit) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen = [total() for _ in range(10)]
    for thread in threads:
        thread.join()
    assert seen == sorted(seen)
    assert total() == 8000
    server.shutdown()
    server.server_close()
    serving.join()


@pytest.mark.parametrize(
    ("library", "call"), [("prometheus_client", "prometheus()"), ("opentelemetry", "opentelemetry(None)")]
)
def test_a_library_is_named_where_it_is_missing(library, call):
    run = programs.run_without(library, f"import overlimit.metrics; overlimit.metrics.{call}")
    extra = call.partition("(")[0]
    assert f"pip install 'overlimit[{extra}]'" in run.stderr.splitlines()[-1]
