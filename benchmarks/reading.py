"""Reading logs, beside bare loops over the same lines: python benchmarks/reading.py [--lines N].

Contestants take turns, and the best of the rounds counts. Times are those of the processor, of all threads.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import pyarrow

from overlimit.simulation import read_log

ROUNDS = 5
START = datetime(2026, 3, 2, tzinfo=timezone.utc)
COMBINED = re.compile(
    r'(?P<ip>[^ ]+) [^ ]+ (?P<user>[^ ]+) \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) '
    r'(?P<bytes>\d+|-) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)"'
)
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36"
NAMES = ("time", "ip", "user", "method", "path", "status", "bytes")


class Speed(NamedTuple):
    """How many lines a second of a processor are read, and the loop over the same lines that is beside it."""

    lines_per_second: float
    beside: str | None


class Row(NamedTuple):
    time: datetime
    ip: str
    user: str
    path: str
    status: int
    size: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=300_000)
    speeds = measured(parser.parse_args().lines)
    for name, (speed, beside) in speeds.items():
        ratio = "" if beside is None else f"   {speed / speeds[beside].lines_per_second:5.2f} times {beside}"
        print(f"{name:32}{speed / 1e6:6.2f} million lines/s{ratio}")


def measured(count: int) -> dict[str, Speed]:
    """Return the speed of each contestant by its name."""
    pyarrow.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), list(rows(count)))
        loops: dict[str, tuple[Callable[[], object], str | None]] = {
            "loop: match of a combined line": (lambda: looped_match(files["plain"]), None),
            "loop: json.loads": (lambda: looped_json(files["json"]), None),
            "loop: csv.reader": (lambda: looped_csv(files["csv"]), None),
            "combined": (lambda: read_log(files["plain"]), "loop: match of a combined line"),
            "combined, escapes in each line": (lambda: read_log(files["odd"]), None),
            "combined, where=": (lambda: read_log(files["plain"], where="status == 404"), None),
            "JSON lines": (lambda: read_log(files["json"]), "loop: json.loads"),
            "CSV": (lambda: read_log(files["csv"]), "loop: csv.reader"),
            "CSV, quoted": (lambda: read_log(files["quoted"]), "loop: csv.reader"),
            "a saved file": (lambda: read_log(files["saved"]), None),
        }
        best = dict.fromkeys(loops, float("inf"))
        for _ in range(ROUNDS):
            for name, (run, _) in loops.items():
                best[name] = min(best[name], seconds_of(run))
        return {name: Speed(count / best[name], beside) for name, (_, beside) in loops.items()}


def seconds_of(run: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    run()
    return time.process_time() - started


def rows(count: int) -> Iterator[Row]:
    """Yield the requests of some thousand addresses, of which a tenth has addresses of IPv6."""
    choice = random.Random(1)
    now = START
    for _ in range(count):
        now += timedelta(microseconds=choice.randrange(100_000))
        ip = f"203.0.{int(choice.paretovariate(1)) % 200}.{choice.randrange(50)}"
        if not choice.randrange(10):
            network = f"{choice.randrange(50):x}:{choice.randrange(50):x}"
            ip = f"2001:db8:{network}::{choice.randrange(9):x}"
        user = choice.choice(["-", "-", "-", "-", "ann", "bob"])
        path = f"/shop/item/{choice.randrange(999)}?page={choice.randrange(9)}"
        yield Row(now, ip, user, path, choice.choice([200, 200, 304, 404]), choice.randrange(90_000))


def written(folder: Path, made: list[Row]) -> dict[str, Path]:
    """Write the same requests in each format."""
    line = '{} - {} [{:%d/%b/%Y:%H:%M:%S +0000}] "GET {} HTTP/1.1" {} {} "https://shop.example/" "{}"\n'
    files = {name: folder / name for name in ("plain", "odd", "saved")}
    files |= {"csv": folder / "a.csv", "quoted": folder / "quoted.csv", "json": folder / "a.jsonl"}
    for name, agent in (("plain", AGENT), ("odd", AGENT + r" \"x\"")):
        lines = (line.format(r.ip, r.user, r.time, r.path, r.status, r.size, agent) for r in made)
        files[name].write_text("".join(lines), encoding="utf-8")
    values = [(f"{r.time:%Y-%m-%dT%H:%M:%S.%fZ}", r.ip, r.user, "GET", *r[3:]) for r in made]
    objects = (json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in values)
    files["json"].write_text("".join(objects), encoding="utf-8")
    for name, quoting in (("csv", csv.QUOTE_MINIMAL), ("quoted", csv.QUOTE_NONNUMERIC)):
        with files[name].open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=quoting).writerows([NAMES, *values])
    read_log(files["plain"]).save(files["saved"])
    return files


def looped_match(path: Path) -> None:
    match = COMBINED.match
    with path.open(encoding="utf-8") as file:
        for line in file:
            match(line)


def looped_json(path: Path) -> None:
    with path.open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)


def looped_csv(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        for _ in csv.reader(file):
            pass


if __name__ == "__main__":
    main()
