"""Reading logs, beside bare loops over the same lines: how many million lines a second of a processor."""

from __future__ import annotations

import csv
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow

from measuring.turns import Effort, Found, Sample, Turn, contest
from overlimit.simulation import read_log

START = datetime(2026, 3, 2, tzinfo=UTC)
COMBINED = re.compile(
    r'(?P<ip>[^ ]+) [^ ]+ (?P<user>[^ ]+) \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) '
    r'(?P<bytes>\d+|-) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)"'
)
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36"
NAMES = ("time", "ip", "user", "method", "path", "status", "bytes")


class Row(NamedTuple):
    time: datetime
    ip: str
    user: str
    path: str
    status: int
    size: int


def contests(effort: Effort) -> Found:
    """Compare each format with a bare loop over its lines, which does nothing with what it finds."""
    pyarrow.set_cpu_count(1)
    count = effort.of(300_000, 3_000)
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), list(rows(count)))

        def read(name: str, **options: Any) -> Turn:
            return per_second(lambda: read_log(files[name], **options), count)

        rounds = effort.of(5, 1)
        combined = {
            "a loop, match": per_second(lambda: looped_match(files["plain"]), count),
            "overlimit, combined": read("plain"),
            "overlimit, combined, escapes in each line": read("odd"),
            "overlimit, combined, where=": read("plain", where="status == 404"),
            "overlimit, a saved file": read("saved"),
        }
        yield contest("Access logs", "million/s", combined, rounds=rounds)
        lines = {
            "a loop, json.loads": per_second(lambda: looped_json(files["json"]), count),
            "overlimit, JSON lines": read("json"),
        }
        yield contest("JSON lines", "million/s", lines, rounds=rounds)
        tables = {
            "a loop, csv.reader": per_second(lambda: looped_csv(files["csv"]), count),
            "overlimit, CSV": read("csv"),
            "overlimit, CSV, each text in quotes": read("quoted"),
        }
        yield contest("CSV", "million/s", tables, rounds=rounds)


def per_second(run: Callable[[], object], lines: int) -> Turn:
    """Return how many million lines a second of a processor are read, all threads included."""

    def turn() -> Sample:
        started = time.process_time()
        run()
        return Sample(lines / (time.process_time() - started) / 1e6)

    return turn


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
    with files["csv"].open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([NAMES, *values])
    with files["quoted"].open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows([NAMES, *values])
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
