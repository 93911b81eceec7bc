"""How many commands leases cost, and what is admitted when there is nothing left, on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    RedisStore,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from servers.patience import PATIENCE, eventually

from .leased import calls_of, limiter_of, warmed

pytestmark = pytest.mark.check

SECONDS = 1.2 * int(os.environ.get("PROVE", "1"))


class TestExhaustedLimits:
    def test_take_turns(self, start_redis, prefix):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, lease=0.3)
        limiter = limiter_of(store)
        while limiter.hit("a"):
            pass
        server.ask("CONFIG", "RESETSTAT")
        before = limiter.stats()
        began = time.monotonic()
        while time.monotonic() - began < 1.2:
            refused = limiter.hit("a")
            assert not refused
            assert refused.source in {"store", "refusal"}
            assert 0 < refused.retry_after <= 3600
        took = time.monotonic() - began
        asked = limiter.stats()["asked"] - before["asked"]
        assert sum(calls_of(server).values()) == asked
        assert 1 <= asked <= took / 0.3 + 2
        assert limiter.stats()["refusals"] - before["refusals"] > 50 * asked

    def test_are_asked_each_time_by_who_wants_no_refusals(self, leasing_for):
        store = leasing_for(0.3, max_stale=0)
        limiter = limiter_of(store)
        while limiter.hit("a"):
            pass
        assert {limiter.hit("a").source for _ in range(100)} == {"store"}

    def test_a_dear_call_that_is_refused_takes_no_turn_of_cheaper_ones(self, leasing):
        limiter, hits = warmed(leasing)
        while limiter.hit("a", cost=100):
            hits += 100
        rest = 1000 - hits
        assert [limiter.hit("a").allowed for _ in range(rest + 1)] == [True] * rest + [False]

    @pytest.mark.longer_in_prove
    @pytest.mark.parametrize(
        "limits",
        [
            FixedWindow(400, per=0.5),
            pytest.param(SlidingWindow(400, per=0.5, precision=0.05), marks=pytest.mark.prove),
            pytest.param(SlidingWindowCounter(400, per=0.5), marks=pytest.mark.prove),
            TokenBucket(400, per=0.5),
            pytest.param(TokenBucket(400, per=0.5, refill="interval"), marks=pytest.mark.prove),
            LeakyBucket(400, per=0.5, capacity=0),
        ],
        ids=["window", "blocks", "counter", "bucket", "interval", "queue"],
    )
    def test_admit_nine_tenths_of_what_the_strict_do(self, leasing_for, strict, limits, record_property):
        leased, asked = limiter_of(leasing_for(0.02), limits, name="b"), limiter_of(strict, limits, name="c")
        admitted = most = 0
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            admitted += leased.hit("a").allowed
            most += asked.hit("a").allowed
        while time.monotonic() < ends + 0.04:  # it may have had to wait for its turn
            admitted += leased.hit("a").allowed
        assert leased.stats()["leased"] > 0
        assert admitted >= 0.9 * most > 0
        stats = leased.stats()
        record_property(
            "figure",
            f"leases of 20 ms of {limits!r}, above the limit: {admitted / most:.1%} of strict admissions, "
            f"{stats['calls'] / stats['asked']:.1f} decisions a command",
        )


class TestCommands:
    def test_are_few(self, start_redis, prefix):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, lease=0.5)
        limiter = limiter_of(store, FixedWindow(1_000_000, per=3600))
        began = time.monotonic()
        for _ in range(50_000):
            assert limiter.hit("a")
        took = time.monotonic() - began
        commands = sum(calls_of(server).values())
        assert commands <= 30 + 2 * took / 0.25
        # A script that the server does not know yet is sent again.
        assert limiter.stats()["asked"] <= commands <= limiter.stats()["asked"] + 2
        assert limiter.stats()["leased"] >= 50_000 - commands


class TestAServerWithoutScripts:
    """Such as one that was restarted, or a replica that was promoted."""

    def test_leases_to_calls_of_several_keys_as_well(self, start_redis, prefix):
        server = start_redis()
        limiter = limiter_of(RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, lease=5.0))
        for user in range(3):
            server.ask("SCRIPT", "FLUSH")
            eventually(lambda user=user: limiter.hit(f"user:{user}", "everybody").source == "lease")


PAUSES = {"below": 0.004, "above": 0.0}
"""Between two calls, in seconds, at a rate below or above the limit."""
LEASES = {"each": ("0.05", "0.05"), "one": ("0.05", "0")}
PROGRAM = f"""
import json, sys, time
from overlimit import FixedWindow, Limiter, RedisStore

url, prefix, lease, seconds, pause = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
limit = FixedWindow(400, per=0.5, start="epoch")
own, strict = (
    Limiter(limit, name=name, store=RedisStore(url, prefix=prefix, timeout={PATIENCE}, lease=each))
    for name, each in (("own", lease), ("strict", 0))
)
counts = dict.fromkeys(("decisions", "admitted", "strictly"), 0)
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    counts["decisions"] += 1
    counts["admitted"] += own.hit("a").allowed
    counts["strictly"] += strict.hit("a").allowed
    time.sleep(pause)
print(json.dumps(counts | {{"asked": own.stats()["asked"]}}))
"""


def counted(*arguments: tuple[str, ...]) -> Counter[str]:
    """Run a process for each tuple of arguments, all at once, and add up what they counted."""
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, *each], stdout=subprocess.PIPE) for each in arguments
    ]
    total: Counter[str] = Counter()
    for process in running:
        out, _ = process.communicate(timeout=60 + SECONDS)
        assert process.returncode == 0
        total.update(json.loads(out))
    return total


@pytest.mark.longer_in_prove
@pytest.mark.xdist_group("storms")
@pytest.mark.parametrize("rate", PAUSES)
@pytest.mark.parametrize("who", LEASES)
def test_two_processes_admit_nine_tenths_of_what_strict_ones_do(
    redis_server, prefix, rate, who, record_property
):
    where = redis_server.unix_url(), prefix
    counts = counted(*((*where, lease, str(SECONDS), str(PAUSES[rate])) for lease in LEASES[who]))
    share = counts["admitted"] / counts["strictly"]
    assert share >= 0.9, counts
    assert counts["asked"] < counts["decisions"]
    record_property(
        "figure",
        f"two processes, {who} of which leases, at a rate {rate} the limit: {share:.1%} of strict "
        f"admissions, {counts['decisions'] / counts['asked']:.1f} decisions a command",
    )
