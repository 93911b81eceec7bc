"""A log is read in constant memory besides its events, and a replay takes little more than it returns.

docs/performance.md says how much.
"""

from __future__ import annotations

import gzip
import os
from importlib import import_module

import pytest

import programs
from overlimit.simulation.logs.chunks import ZSTD
from programs import output_of

pytestmark = pytest.mark.check

ENVIRONMENT = os.environ | {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": "131072",  # else glibc raises it, and keeps what was freed for later
    "OPENBLAS_NUM_THREADS": "1",
}

READ = """
import resource, sys
import pyarrow.csv
from overlimit.simulation import read_log

small, large, format, room, how = sys.argv[1:]
where = "status == 200" if how == "where" else None
read_log(small, format, where=where)  # whatever is loaded or reserved once
held = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (held + int(room),) * 2)
if how == "all at once":
    with open(large, "rb") as file:
        file.read()
else:
    print(len(read_log(large, format, where=where)))
"""
ROOM = 96 << 20
COPIES, LINES = 20, 2500
COMBINED = '203.0.113.{} - - [10/Oct/2025:13:55:36 +0200] "GET /?{} HTTP/1.1" 200 12 "-" "-"\n'
JSON = '{{"ip": "203.0.113.{}", "time": 1760097336, "status": 200, "path": "{}"}}\n'
CSV = '203.0.113.{},1760097336,200,"{}"\n'


def block_of(line):
    return "".join(line.format(k % 256, "x" * 2000 + os.urandom(1000).hex()) for k in range(LINES)).encode()


def read(*arguments):
    return programs.run(READ, *arguments, env=ENVIRONMENT)


def compressed(block, suffix):
    if suffix == ".gz":
        return gzip.compress(block, 1)
    return import_module(ZSTD).compress(block, 1) if suffix == ".zst" else block


@pytest.mark.parametrize(
    ("format", "line", "head", "suffix", "how"),
    [
        ("combined", COMBINED, "", "", "whole"),
        ("combined", COMBINED, "", ".gz", "where"),
        ("json", JSON, "", ".gz", "whole"),
        ("csv", CSV, "ip,time,status,path\n", ".zst", "whole"),
    ],
    ids=range(4),
)
def test_a_log_twice_as_large_as_memory_is_read(tmp_path, format, line, head, suffix, how):
    block = block_of(line)
    assert COPIES * len(block) > 2 * ROOM
    small, large = tmp_path / f"small.log{suffix}", tmp_path / f"large.log{suffix}"
    small.write_bytes(compressed(head.encode() + block, suffix))
    large.write_bytes(compressed(head.encode(), suffix) + compressed(block, suffix) * COPIES)
    done = read(small, large, format, ROOM, how)
    assert (done.stdout, done.returncode) == (f"{COPIES * LINES}\n", 0), done.stderr
    if not suffix:
        assert "MemoryError" in read(small, large, format, ROOM, "all at once").stderr


REPLAY = """
import sys
import numpy as np
from overlimit.simulation import Events, replay

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

count, shuffled = 1_000_000, sys.argv[1] == "shuffled"
columns = sys.argv[2].split(",") if sys.argv[2] else None
random = np.random.default_rng(1)
times = 1_700_000_000 * 10**6 + np.arange(count) * 1000
if shuffled:
    random.shuffle(times)
events = Events(times, random.integers(0, 1000, count), unit="us")
replay(events[:1000], "10/second", columns=columns or ("allowed",))
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")  # the peak begins again
before = peak()
replayed = replay(events, "10/second; 30/minute", **({"columns": columns} if columns else {}))
print((peak() - before) / count, replayed.refused)
"""


class TestAReplay:
    """Times of a million events by 1,000 identifiers, whose state is small beside them."""

    @pytest.mark.parametrize(
        ("order", "columns", "least", "most"),
        [
            ("sorted", "allowed", 0, 8),
            ("sorted", "", 30, 50),
            ("shuffled", "allowed", 0, 8),
            ("shuffled", "", 30, 50),
        ],
    )
    def test_takes_the_columns_that_it_returns_and_little_more(self, order, columns, least, most):
        done = output_of(REPLAY, order, columns, env=ENVIRONMENT)
        per_event, refused = map(float, done.split())
        assert least <= per_event <= most
        assert refused > 0
