"""Limits in shared memory hold while processes are killed and stopped at random."""

from __future__ import annotations

import os
import secrets
from typing import Any

import pytest

from overlimit import SharedMemoryStore

from .programs import counts_of_storm

pytestmark = [
    pytest.mark.check,
    pytest.mark.longer_in_prove,
    pytest.mark.usefixtures("shared_memory"),
    pytest.mark.xdist_group("storms"),
]

SECONDS = float(os.environ.get("STORM_SECONDS", 6 * int(os.environ.get("PROVE", "1")))) / 2
TIGHT = 500


@pytest.fixture
def name():
    name = f"storm-{secrets.token_hex(6)}"
    yield name
    SharedMemoryStore(name).unlink()


def storm(name: str, seed: int) -> dict[str, Any]:
    return counts_of_storm("shared_memory_storm", SECONDS, name=name, seed=seed, tight=TIGHT)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_loses_nothing_that_was_answered_and_counts_no_more_than_was_asked(name, seed):
    counts = storm(name, seed)
    assert counts["most_in_a_window"] == 3, "by the times of the decisions"
    assert counts["killed"] > 2 * SECONDS
    assert counts["damaged"] == 0
    assert counts["alive"] == 1
    assert counts["seconds_at_the_end"] < 8 * 0.5
    counted_alone = 0
    for key, told in counts["told"].items():
        assert told > 100 * SECONDS
        assert told <= counts["counted"][key], "an admission was forgotten"
        counted_alone += counts["counted"][key] - told
    for key, told in counts["told_of_tight"].items():
        assert told <= counts["counted_of_tight"][key] <= TIGHT
        counted_alone += counts["counted_of_tight"][key] - told
    # A process has one call under way when it is killed, and that is for two keys at most.
    assert counted_alone <= 2 * counts["killed"]
