"""The log of a shop's day, which examples and documentation read."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from overlimit.simulation import read_log

EXAMPLES = Path(__file__).parents[2] / "examples"


def shop_log(*arguments):
    command = [sys.executable, EXAMPLES / "shop_log.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout


def test_the_log_in_the_examples_is_what_the_program_writes():
    path = EXAMPLES / "shop_day.log.gz"
    assert path.stat().st_size < 200_000
    assert gzip.decompress(path.read_bytes()) == shop_log("--lines", 12_000, "--seed", 1)


@pytest.mark.parametrize("lines", [0, 1, 5000])
def test_every_size_is_a_whole_day_in_order(tmp_path, lines):
    path = tmp_path / "access.log"
    path.write_bytes(shop_log("--lines", lines, "--seed", 7, "--start", "2026-03-05"))
    events = read_log(path, identifiers=("ip", "user"))
    assert (len(events), events.bad_lines.count) == (lines, 0)
    assert events.order.tolist() == list(range(lines))
    assert len(events.between("2026-03-05", "2026-03-06")) == lines
    if lines > 1:
        assert events[-1].time - events[0].time > 80_000


def test_who_is_in_it():
    path = EXAMPLES / "shop_day.log.gz"
    events = read_log(path, identifiers=("ip", "user"))
    scans = events[events.identifiers["ip"] == "ip:198.51.100.77"]
    assert len(scans) == 720
    assert len(scans.between("2026-03-02T03:12", "2026-03-02T03:36")) == 720
    assert (events.identifiers["user"] == "user:warehouse").sum() == 1200
    assert any("/64" in label for label in events._columns[0].labels)
    assert 500 < len(events._columns[0].labels) < 2000
