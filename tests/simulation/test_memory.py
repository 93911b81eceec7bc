"""A log is read in constant memory, besides what becomes events."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys

PROGRAM = """
import resource, sys
import pyarrow.csv
from overlimit.simulation import read_log

read_log(sys.argv[1])  # whatever is loaded or reserved once
held = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (held + int(sys.argv[3]),) * 2)
if len(sys.argv) > 4:
    with open(sys.argv[2], "rb") as file:
        file.read()
else:
    print(len(read_log(sys.argv[2])))
"""
LINE = '203.0.113.{} - - [10/Oct/2025:13:55:36 +0200] "GET /?{} HTTP/1.1" 200 12 "-" "-"\n'
ROOM = 100 << 20


def run(*arguments):
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_a_log_several_times_as_large_as_memory(tmp_path):
    block = "".join(LINE.format(k % 256, "x" * 4000) for k in range(2500)).encode()
    small, large, plain = (tmp_path / name for name in ("small.log", "large.log.gz", "large.log"))
    small.write_bytes(block[: len(block) // 2])
    large.write_bytes(gzip.compress(block, 1) * 40)
    done = run(small, large, ROOM)
    assert (done.stdout, done.returncode) == (f"{40 * 2500}\n", 0), done.stderr
    with plain.open("wb") as file:
        for _ in range(40):
            file.write(block)
    assert plain.stat().st_size > 3.5 * ROOM
    done = run(small, plain, ROOM)
    assert (done.stdout, done.returncode) == (f"{40 * 2500}\n", 0), done.stderr
    assert "MemoryError" in run(small, plain, ROOM, "all at once").stderr
