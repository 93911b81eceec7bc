"""The server answers, but not yet: it loads, is paused, busy or full of clients, is or lacks a replica."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from overlimit import StoreTimeout, StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import RECOVERY

TIMEOUT = 0.1


@pytest.fixture
def loading(server):
    """Kill the server and return a function that starts it with so many seconds of loading before it."""
    server.ask("CONFIG", "SET", "rdbcompression", "no")
    # It looks after its clients every 2 MB: ten times while it loads.
    server.ask("EVAL", "for i = 1, 1000 do redis.call('SET', 'filler:' .. i, string.rep('x', 20000)) end", 0)
    server.ask("SAVE")

    def load(seconds):
        server.kill()
        delay = str(int(seconds * 1e6 / 1000))
        server.restart(awaiting=["-LOADING"], key_load_delay=delay)

    return load


def test_one_that_loads_charges_nothing_and_is_used_once_it_has_loaded(
    server, limiter_at, ledger, counted, loading
):
    limiter = limiter_at(server.tcp_url(), timeout=TIMEOUT)
    eventually(lambda: answers(limiter))
    loading(1.0)
    outcomes = ledger.hit_times(3, limiter, "a")
    # While it loads it looks after its clients only now and then: an answer may come too late.
    assert all(isinstance(outcome, StoreUnavailable | StoreTimeout) for outcome in outcomes)
    ledger.assert_in_time(TIMEOUT)
    server.await_answer("+PONG")
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(5, limiter_at(server.tcp_url()), "a")
    assert ledger.acknowledged == 5
    ledger.assert_accounts_for(counted("a"))


def test_a_patient_call_waits_until_it_has_loaded(server, limiter_at, ledger, counted, loading):
    loading(2.0)
    caller = threading.Thread(target=ledger.hit, args=(limiter_at(server.tcp_url()), "a"))
    caller.start()
    server.await_answer("+PONG")
    loaded = time.monotonic()
    caller.join()
    assert time.monotonic() - loaded < RECOVERY
    assert (ledger.acknowledged, counted("a")) == (1, 1)
    assert ledger.slowest > 0.2


def test_one_that_is_paused_keeps_calls_waiting_until_their_timeout(server, limiter_at, ledger, counted):
    limiter, patient = limiter_at(server.tcp_url(), timeout=TIMEOUT), limiter_at(server.tcp_url())
    eventually(lambda: answers(limiter))
    server.ask("CLIENT", "PAUSE", 800, "ALL")
    paused = time.monotonic()
    outcomes = ledger.hit_times(2, limiter, "a")
    assert all(isinstance(outcome, StoreTimeout) and outcome.maybe_charged for outcome in outcomes)
    ledger.assert_in_time(TIMEOUT)
    assert answers(patient)
    assert 0.6 <= time.monotonic() - paused < 0.8 + RECOVERY
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.assert_accounts_for(counted("a"))


@pytest.fixture
def busy(server):
    """Keep the server busy with a script until the test ends; return a function that ends it before."""
    server.ask("CONFIG", "SET", "lua-time-limit", 50)

    def work():
        with suppress(Exception):
            server.ask("EVAL", "while true do end", 0)

    script = threading.Thread(target=work)
    script.start()
    eventually(lambda: server.answer_to_ping().startswith("-BUSY"))

    def end():
        with suppress(Exception):
            server.ask("SCRIPT", "KILL")
        script.join()

    yield end
    end()


def test_one_that_is_busy_admits_nothing_and_says_so(server, limiter_at, ledger, counted, busy):
    limiter = limiter_at(server.tcp_url(), timeout=TIMEOUT)
    ledger.hit_until_told("BUSY", limiter, "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)
    busy()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit(limiter_at(server.tcp_url()), "a")
    assert ledger.acknowledged == 1
    # What timed out was perhaps run once the script had ended.
    ledger.assert_accounts_for(counted("a"))


@pytest.mark.check
def test_one_full_of_clients_charges_nothing_and_is_asked_seldom(server, limiter_at, ledger, counted):
    limiter = limiter_at(server.tcp_url(), timeout=TIMEOUT)
    with server.client() as only:
        only.config_set("maxclients", 1)
        eventually(lambda: "max number of clients" in str(ledger.hit(limiter, "a")))
        refused = only.info("stats")["rejected_connections"]
        ledger.hit_for(1.0, limiter, "a")
        eventually(lambda: ledger.hit(limiter, "a") and len(ledger.errors) > 1000, every=0.0)
        assert all(isinstance(error, StoreUnavailable | StoreTimeout) for error in ledger.errors)
        assert ledger.acknowledged == 0
        ledger.assert_in_time(TIMEOUT)
        assert only.info("stats")["rejected_connections"] - refused <= 12
        # It hangs up right after its answer: a request that crosses with that may take the answer along.
        assert ledger.unknown <= len(ledger.errors) // 10
        only.config_set("maxclients", 100)
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit(limiter_at(server.tcp_url()), "a")
    assert ledger.acknowledged == 1
    ledger.assert_accounts_for(counted("a"))


@pytest.fixture
def replica(server, start_redis):
    replica = start_redis(replica_of=server)
    eventually(lambda: replica.ask("ROLE")[3] == b"connected")
    return replica


def test_it_charges_nothing_until_it_is_the_master(replica, limiter_at, ledger, counted):
    limiter = limiter_at(replica.tcp_url(), timeout=TIMEOUT)
    ledger.hit_until_told("READONLY", limiter, "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)
    assert counted("a") == 0
    replica.ask("REPLICAOF", "NO", "ONE")
    eventually(lambda: answers(limiter), within=RECOVERY)
    patient = limiter_at(replica.tcp_url())
    assert [patient.hit("b").remaining for _ in range(3)] == [999_999, 999_998, 999_997]


def test_one_that_lost_its_master_charges_nothing(server, replica, limiter_at, ledger):
    replica.ask("CONFIG", "SET", "replica-serve-stale-data", "no")
    server.kill()
    eventually(lambda: replica.ask("ROLE")[3] != b"connected")
    ledger.hit_until_told("MASTERDOWN", limiter_at(replica.tcp_url(), timeout=TIMEOUT), "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)


def test_one_without_enough_replicas_charges_nothing(server, limiter_at, ledger, counted):
    limiter = limiter_at(server.tcp_url(), timeout=TIMEOUT)
    server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    ledger.hit_until_told("NOREPLICAS", limiter, "a")
    assert counted("a") == ledger.acknowledged == 0
    server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    eventually(lambda: answers(limiter), within=RECOVERY)
