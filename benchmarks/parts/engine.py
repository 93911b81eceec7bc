"""The engine called from C++, without Python: cpp/benchmarks/memory_store_benchmark.cpp."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measuring.turns import Effort, Found, Sample, Turn, contest

BUILT = Path(__file__).parents[2] / "build" / "release" / "cpp" / "benchmarks"
CALLS = {
    "one_limit": "one window, one key",
    "one_limit_many_keys": "one window, 30,000 keys",
    "one_limit_random_keys<MemoryStore>/1000": "one window, 1,000 keys at random",
    "one_limit_random_keys<MemoryStore>/30000": "one window, 30,000 keys at random",
    "one_limit_random_keys<MemoryStore>/300000": "one window, 300,000 keys at random",
    "one_limit_random_keys<MemoryStore>/1000000": "one window, 1,000,000 keys at random",
    "one_limit_random_keys<SharedMemoryStore>/1": "shared memory, one window, one key",
    "one_limit_random_keys<SharedMemoryStore>/1000": "shared memory, 1,000 keys at random",
    "one_limit_random_keys<SharedMemoryStore>/1000000": "shared memory, 1,000,000 keys at random",
    "three_limits_two_identifiers": "2 identifiers x 3 windows",
}
CACHE_LINE = {"cache_line_between_threads/real_time/threads:2": "from one thread to the other"}
THREADS = {
    "one_limit_from_threads/real_time/threads:1": "one thread",
    "one_limit_from_threads/real_time/threads:2": "two threads, keys of their own",
    "one_limit_same_keys_from_threads/real_time/threads:2": "two threads, the same keys",
}
ON_ONE_KEY = {
    "one_limit_same_key_from_threads/real_time/threads:1": "one thread",
    "one_limit_same_key_from_threads/real_time/threads:2": "two threads",
}


def contests(effort: Effort) -> Found:
    rounds = effort.of(9, 1)
    results = repeated(rounds + 1, 0.1 if not effort.quick else 0.001)
    for title, unit, names, field in (
        ("A call from C++", "ns", CALLS, "cpu_time"),
        ("A cache line between two threads of C++", "ns", CACHE_LINE, "real_time"),
        ("Threads of C++ on a thousand keys, all together", "calls/s", THREADS, "items_per_second"),
        ("Threads of C++ on one key, all together", "calls/s", ON_ONE_KEY, "items_per_second"),
    ):
        turns = {name: turn_of([each[field] for each in results[key]]) for key, name in names.items()}
        yield contest(title, unit, turns, rounds=rounds)


def program(name: str) -> Path:
    """Return a program of cpp/benchmarks."""
    path = BUILT / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: make build/done/bench-cpp builds it")
    return path


def repeated(rounds: int, seconds: float) -> Mapping[str, list[dict[str, Any]]]:
    """Have all benchmarks run in turns, and return the rounds of each."""
    options = [
        "--benchmark_format=json",
        "--benchmark_enable_random_interleaving=true",
        f"--benchmark_repetitions={rounds}",
        f"--benchmark_min_time={seconds}",
    ]
    command = [str(program("overlimit_benchmarks")), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in json.loads(done.stdout)["benchmarks"]:
        if each["run_type"] == "iteration":
            found[each["run_name"].removesuffix(f"/repeats:{rounds}")].append(each)
    return found


def turn_of(values: list[float]) -> Turn:
    """Return a turn that hands out what was measured, one round after the other."""
    rounds = iter(values)
    return lambda: Sample(next(rounds))
