"""Count the instructions of calls by callgrind: ``python benchmarks/count_instructions.py`` (``make count``).

Prints each count beside the one recorded in instruction_counts.json. On the configuration that this file
names, a count over 1.05 times the recorded one, or below half of it, is a failure; elsewhere nothing is.
docs/testing.md says when and how to record another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
RECORDED = HERE / "instruction_counts.json"
SLACK = 1.05
CALLS, REQUESTS = HERE / "counted_calls.py", HERE / "counted_requests.py"
IN_MEMORY, IN_REDIS, TO_FLASK = 1000, 400, 50
"""Calls of a case, and half of those in its second run."""

PATIENCE = 60.0
TOTAL = re.compile(r"^totals: (\d+)$", re.M)


def callgrind(directory: str, mark: str) -> list[str]:
    """Return the words before a program to count it, anew whenever it calls ``mark`` of the C library."""
    options = [f"--callgrind-out-file={directory}/counts", f"--dump-before={mark}"]
    return ["valgrind", "--quiet", "--tool=callgrind", *options]


def per_call(directory: str, names: list[str], calls: int) -> dict[str, float]:
    """Return the instructions per call of each case: by how much twice as many calls take more."""
    dumps = sorted(Path(directory).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
    # Each case marks three times; what a program did before its first case may have been marks, too.
    totals = [int(TOTAL.findall(path.read_text(encoding="utf-8"))[-1]) for path in dumps[-3 * len(names) :]]
    if len(totals) != 3 * len(names):
        raise RuntimeError(f"callgrind counted {len(totals)} times, expected three for each of {names}")
    once, twice = totals[1::3], totals[2::3]
    return {name: (b - a) / calls for name, a, b in zip(names, once, twice, strict=True)}


def count_above_first(program: Path, calls: int) -> dict[str, float]:
    """Count what the cases of a program take more than its first."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [*callgrind(directory, "getppid"), sys.executable, program, str(calls)],
            env=os.environ | {"PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        names = done.stdout.splitlines()
        counts = per_call(directory, names, calls)
    first = counts.pop(names[0])
    return {name: count - first for name, count in counts.items()}


def count_redis() -> dict[str, float]:
    """Count what a redis-server does for a call of a script."""
    with tempfile.TemporaryDirectory() as directory:
        server = started_server(directory)
        try:
            url = f"unix://{directory}/redis.sock"
            await_answer(url, server)
            done = subprocess.run(
                [sys.executable, CALLS, str(IN_REDIS), url], stdout=subprocess.PIPE, text=True, check=True
            )
        finally:
            server.terminate()
            server.wait(PATIENCE)
        return per_call(directory, done.stdout.splitlines(), IN_REDIS)


def started_server(directory: str) -> subprocess.Popen[bytes]:
    options = {
        "port": "0",
        "unixsocket": f"{directory}/redis.sock",
        "dir": directory,
        "save": "",
        "hz": "1",
    }
    program = os.environ.get("REDIS_SERVER", "redis-server")
    if int(printed_by(program, "--version", pattern=r"(?<=v=)\d+")) >= 7:
        options["enable-protected-configs"] = "yes"  # for the mark, CONFIG SET dir
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return subprocess.Popen([*callgrind(directory, "chdir"), program, *words], stdout=subprocess.DEVNULL)


def await_answer(url: str, server: subprocess.Popen[bytes]) -> None:
    import redis

    deadline = time.monotonic() + PATIENCE
    with redis.Redis.from_url(url) as client:
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                return
            time.sleep(0.05)
    raise RuntimeError(f"redis-server did not answer under callgrind within {PATIENCE} s")


def configuration() -> dict[str, str]:
    """Return what the counts depend on besides the sources."""
    return {
        "machine": os.uname().machine,
        "g++": printed_by("c++", "-dumpversion", pattern=r"\d+"),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "redis": printed_by("redis-server", "--version", pattern=r"(?<=v=)\d+\.\d+"),
        "flask": printed_by(sys.executable, "-m", "flask", "--version", pattern=r"(?<=Flask )\d+\.\d+"),
    }


def printed_by(*command: str, pattern: str) -> str:
    """Return the part of what a command prints that fits the pattern, or all."""
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(pattern, output)
    return found[0] if found else output


def main() -> int:
    """Print the counts, and compare them where they must hold."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    counts = count_above_first(CALLS, IN_MEMORY) | count_above_first(REQUESTS, TO_FLASK) | count_redis()
    for name, count in counts.items():
        print(f"{name:60}{count:10.0f}, recorded {recorded['counts'].get(name, 'never')}")
    if configuration() != recorded["configuration"]:
        print(f"Not compared: recorded on {recorded['configuration']}, this is {configuration()}")
        return 0
    wrong = complaints(counts, recorded["counts"])
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(counts | recorded['counts']) - len(wrong)} passed, {len(wrong)} failed")
    return int(bool(wrong))


def complaints(counts: dict[str, float], recorded: dict[str, int]) -> list[str]:
    """Say what is wrong: a broken measurement shows as a count that is far too low."""
    unpaired = [f"{name}: counted or recorded, not both" for name in counts.keys() ^ recorded.keys()]
    pairs = [(name, counts[name], recorded[name]) for name in counts if name in recorded]
    more = [
        f"{name}: more than {SLACK} times what is recorded" for name, new, old in pairs if new > SLACK * old
    ]
    less = [f"{name}: less than half of what is recorded" for name, new, old in pairs if new < old / 2]
    return unpaired + more + less


if __name__ == "__main__":
    sys.exit(main())
