"""Leased and strict processes together admit no more than the limits, while they are stopped and killed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from .lease_storm import COLD, LIMITS, MOST, PERIOD_US, Account, in_blocks, in_bucket, in_queue, in_windows
from .programs import counts_of_storm

pytestmark = [pytest.mark.check, pytest.mark.longer_in_prove, pytest.mark.xdist_group("storms")]

SECONDS = float(os.environ.get("STORM_SECONDS", 9 * int(os.environ.get("PROVE", "1")))) / 3


def storm(server: Any, prefix: str, **options: Any) -> dict[str, Any]:
    where = {"url": server.unix_url(), "server": server.pid, "prefix": prefix}
    counts = counts_of_storm("lease_storm", SECONDS, **where, **options)
    counts["commands"] = server.scripts_run()
    return counts


@pytest.mark.parametrize(
    ("leased", "is_shared"), [(1.0, False), (0.5, False), (0.8, True)], ids=["leased", "mixed", "of_the_host"]
)
def test_no_more_is_admitted_than_the_limits_allow(
    start_redis, prefix, leased, is_shared, tmp_path, record_property
):
    server = start_redis()
    lease_in = f"shm://{tmp_path}/leases" if is_shared else None
    counts = storm(server, prefix, seed=1, leased=leased, lease_in=lease_in)
    assert max(counts["over"].values()) <= 0, counts
    assert min(counts["admitted"].values()) > 0, counts
    assert sum(counts["admitted"].values()) > 2 * MOST * SECONDS, counts
    assert counts["killed"] >= 8
    sources = counts["counted"]
    assert sources["lease"] > MOST * SECONDS / 2, counts
    decided = sources["store"] + sources["lease"] + sources["refusal"]
    record_property("figure", figure_of(leased, is_shared, counts, decided))
    if leased == 1.0 or is_shared:
        assert decided > 2 * counts["commands"], counts


def figure_of(leased: float, is_shared: bool, counts: dict[str, Any], decided: int) -> str:
    over = max(0, *counts["over"].values())
    share = counts["counted"]["lease"] / decided
    how = "lease as one" if is_shared else "lease"
    return (
        f"a storm of processes, {leased:.0%} of which {how}: {over} admitted over the limits, "
        f"{decided:,} decisions, {decided / counts['commands']:.1f} a command, {share:.0%} leased, "
        f"{counts['killed']} killed"
    )


class TestTheAccount:
    """It finds what is over, and only that."""

    def test_windows(self):
        inside = [(PERIOD_US + 1, PERIOD_US + 2, 1)] * MOST
        across = [(PERIOD_US - 1, PERIOD_US + 2, 1)] * MOST
        assert in_windows(inside + across, MOST) == 0
        assert in_windows([*inside, (PERIOD_US, PERIOD_US, 3)], MOST) == 3

    def test_blocks(self):
        block = PERIOD_US // 5
        assert in_blocks([(0, 1, 50), (5 * block, 6 * block - 1, 51)], 100) == 1
        assert in_blocks([(0, 1, 50), (5 * block, 6 * block, 51)], 100) == -49
        assert in_blocks([(0, 1, 50), (6 * block, 6 * block, 51)], 100) == -49

    def test_buckets(self):
        assert in_bucket([(0, 1, 100), (PERIOD_US // 2, PERIOD_US // 2, 51)], 100) == 0
        assert in_bucket([(0, 1, 100), (PERIOD_US // 2, PERIOD_US // 2, 53)], 100) == 2
        assert in_bucket([(0, PERIOD_US // 2, 100), (1, PERIOD_US // 2, 53)], 100) == 2

    def test_queues(self):
        assert in_queue([(0, 1, 100), (PERIOD_US - 1, PERIOD_US - 1, 101)], 100) == 1
        assert in_queue([(0, 1, 100), (PERIOD_US, PERIOD_US, 201)], 100) == 1

    def test_of_all(self):
        account = Account()
        account.calls["cold", 7] = [(1, 2, COLD)]
        account.calls["cold", 8] = [(1, 2, COLD + 2)]
        assert account.over("cold") == 2
        assert account.admitted("cold") == 2 * COLD + 2
        assert all(account.over(what) == 0 for what in LIMITS)
