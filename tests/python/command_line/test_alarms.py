"""Each symptom of docs/guides/alarms.md is caused, seen, asked about, and ended as the page says."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from overlimit import SharedMemoryStore
from scraping import samples_in
from servers.patience import PATIENCE, eventually
from servers.redis_server import RedisServer

from .test_commands import run

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/guides/alarms.md").read_text(encoding="utf-8")
PANELS = {
    panel["title"]: " ".join(target["expr"] for target in panel["targets"])
    for panel in json.loads((ROOT / "examples/grafana/overlimit.json").read_text(encoding="utf-8"))["panels"]
}
WHO = "ip:203.0.113.7"

WORKER = """
import json, sys
from prometheus_client import CollectorRegistry, generate_latest
import overlimit.metrics
from overlimit import Limiter

url, limits, directory = sys.argv[1:]
registry = CollectorRegistry()
overlimit.metrics.prometheus(registry, directory=directory)
limiter = Limiter(limits, name="login", store=url, on_error="allow")
for line in sys.stdin:
    identifiers = json.loads(line)
    answer = limiter.hit(*identifiers).status if identifiers else generate_latest(registry).decode()
    print(json.dumps(answer), flush=True)
"""

CLOCK = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

int gettimeofday(struct timeval* now, void* zone) {
  static const volatile long* ahead;
  if (!ahead) ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, open(getenv("AHEAD"), O_RDONLY), 0);
  struct timespec own;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &own);
  now->tv_sec = own.tv_sec + *ahead;
  now->tv_usec = own.tv_nsec / 1000;
  return 0;
}
"""
"""Has a server believe that it is later by as many seconds as a file says."""


class Worker:
    """A process of an application, whose limiter lets calls pass while its store fails."""

    def __init__(self, url: str, limits: str, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, url, limits, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def hit(self, *identifiers: str) -> str:
        """Make a call, and return how it was decided."""
        return str(self._told(list(identifiers)))

    def hits(self, count: int, *identifiers: str) -> list[str]:
        return [self.hit(*identifiers) for _ in range(count)]

    def metrics(self) -> dict[Any, float]:
        return samples_in(self._told([]))

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _told(self, line: list[str]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(line), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


@dataclass
class Symptom:
    """A section of the page: what the dashboard shows, and what commands print in each of its blocks."""

    text: str
    changes: dict[str, str] = field(default_factory=dict)
    servers: dict[str, RedisServer] = field(default_factory=dict)

    @property
    def panels(self) -> list[str]:
        return re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", self.text)

    @property
    def selectors(self) -> list[tuple[str, dict[str, str]]]:
        found = re.findall(r"`(overlimit_\w+)(?:\{([^}]*)\})?`", self.text)
        return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in found]

    def shows(self, samples: dict[Any, float]) -> bool:
        """Whether each of the metrics has a sample that is not zero."""
        return all(
            any(key[0] == name and labels.items() <= dict(key[1:]).items() and value > 0
                for key, value in samples.items())
            for name, labels in self.selectors
        )  # fmt: skip

    def ask(self) -> None:
        """Run the commands of the first block; what they print must have each line that the page shows."""
        self._run(0)

    def get_out(self) -> None:
        """Run those of the second block."""
        self._run(1)

    def _run(self, block: int) -> None:
        text = re.findall(r"^```text\n(.*?)^```$", self.text, re.M | re.S)[block]
        for command, lines in re.findall(r"^\$ (.*)\n((?:(?!\$).*\n)*)", text, re.M):
            printed = plain(self._printed(command))
            for line in lines.splitlines():
                assert plain(line) in printed, f"{line!r} is not in {printed!r}"

    def _printed(self, command: str) -> str:
        for before, after in self.changes.items():
            command = command.replace(before, after)
        program, *words = shlex.split(command)
        if program == "overlimit":
            done = run(*words)
            assert "Traceback" not in done.stderr
            return f"{done.stdout}\n{done.stderr}"
        assert (program, words[0]) == ("redis-cli", "-h")
        return str(self.servers[words[1]].ask(*words[2:]))


def plain(text: str) -> str:
    """Return a text with one number for all, also of durations, and without what aligns columns."""
    numbers = re.sub(r"\d[\d,.]*\d|\d", "#", " ".join(text.split()))
    return re.sub(r"# (ms|s|min|h)\b(?: # (s|min)\b)?", "# s", numbers)


SYMPTOMS = {
    re.sub(r"\W+", "_", section.partition("\n")[0].lower()): Symptom(section)
    for section in PAGE.split("\n## ")[1:]
}


@pytest.fixture
def symptom(request: pytest.FixtureRequest) -> Symptom:
    """Return the section whose heading this test has for a name."""
    symptom = SYMPTOMS[request.node.name.removeprefix("test_")]
    return replace(symptom, changes={}, servers={})


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that puts the URL of a store into the environment."""

    def name(url: str, variable: str = "REDIS_URL") -> str:
        monkeypatch.setenv(variable, url)
        return url

    return name


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Return a function that starts a worker; all of a test show one sum of their metrics."""
    with ExitStack() as workers:

        def start(url: str, limits: str = "5/minute") -> Worker:
            worker = Worker(url, limits, tmp_path)
            workers.callback(worker.stop)
            return worker

        yield start


@pytest.fixture
def url(named: Any, start_redis: Any) -> str:
    return str(named(f"{start_redis().tcp_url()}?timeout={PATIENCE}"))


def test_every_symptom_is_rehearsed():
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert len(SYMPTOMS) == 11
    assert set(SYMPTOMS) <= tests
    assert PAGE.count("```") == 2 * PAGE.count("```text")


@pytest.mark.parametrize("each", SYMPTOMS.values(), ids=SYMPTOMS)
def test_panels_show_the_metrics_of_the_symptom(each):
    assert each.panels
    assert each.selectors
    queries = " ".join(PANELS[title] for title in each.panels)
    assert [name for name, _ in each.selectors if name not in queries] == []


def test_http_429_that_nobody_expects(symptom, start, url):
    worker = start(url)
    assert worker.hits(6, WHO)[4:] == ["ok", "over"]
    assert symptom.shows(worker.metrics())
    symptom.ask()
    symptom.get_out()
    assert worker.hit(WHO) == "ok"


def test_redis_is_slow(symptom, named, start, start_redis):
    server = symptom.servers["cache.example"] = start_redis()
    worker = start(named(server.tcp_url()))
    stop = threading.Event()

    def run_slowly() -> None:
        server.ask("EVAL", "for number = 1, 3e7 do end", 0)

    def keep_busy() -> None:
        run_slowly()
        while not stop.is_set():
            run_slowly()

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        eventually(lambda: worker.hit(WHO) and symptom.shows(worker.metrics()))
    finally:
        stop.set()
        busy.join()
    run_slowly()
    symptom.ask()
    symptom.get_out()
    assert "slow commands" not in run("doctor", server.tcp_url()).stdout
    eventually(lambda: worker.hits(6, WHO)[-1] == "over")


def test_redis_is_full(symptom, named, start, start_redis):
    server = symptom.servers["cache.example"] = start_redis()
    worker = start(named(f"{server.tcp_url()}?timeout={PATIENCE}"))
    server.ask("SET", "cache", bytes(3_000_000))
    server.ask("CONFIG", "SET", "maxmemory", "3mb")
    assert worker.hits(9, WHO)[-1] == "ok"
    assert symptom.shows(worker.metrics())
    symptom.ask()
    symptom.get_out()
    assert worker.hits(5, WHO)[3:] == ["ok", "over"]  # one was charged by the way out


def test_redis_fills_up(symptom, named, start, start_redis):
    server = symptom.servers["cache.example"] = start_redis()
    worker = start(named(f"{server.tcp_url()}?timeout={PATIENCE}"))
    server.ask("SET", "session", "of another program")
    for number in range(300):
        assert worker.hit(f"key:{number}") == "ok"
    assert symptom.shows(worker.metrics())
    symptom.ask()
    symptom.get_out()
    assert server.ask("KEYS", "*") == [b"session"]


def test_the_master_is_gone(symptom, named, start, start_redis):
    master = start_redis()
    replica = symptom.servers["replica.example"] = start_redis(replica_of=master)
    worker = start(named(f"{master.tcp_url()}?timeout=1"))
    other = named(f"{replica.tcp_url()}?timeout=1", "REPLICA_URL")
    worker.hit(WHO)
    eventually(lambda: replica.ask("DBSIZE") == 1)
    master.kill()
    eventually(lambda: worker.hit(WHO) and symptom.shows(worker.metrics()))
    symptom.ask()
    symptom.get_out()
    assert start(other).hits(5, WHO)[3:] == ["ok", "over"]  # one was counted by the old master


def test_the_clock_jumped(symptom, named, start, start_redis, tmp_path, monkeypatch):
    (tmp_path / "clock.c").write_text(CLOCK)
    library, ahead = tmp_path / "clock.so", tmp_path / "ahead"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c"], check=True)
    ahead.write_bytes(struct.pack("l", 600))
    with monkeypatch.context() as moved:
        moved.setenv("LD_PRELOAD", str(library))
        moved.setenv("AHEAD", str(ahead))
        server = start_redis()
    url = named(f"{server.tcp_url()}?timeout={PATIENCE}")
    worker = start(url)
    worker.hits(5, WHO)
    assert " s ahead of this machine's; the server's decides." in run("doctor", url).stdout
    with ahead.open("r+b") as file:
        file.write(struct.pack("l", 0))
    assert worker.hit(WHO) == "over"
    assert symptom.shows(worker.metrics())
    symptom.ask()
    symptom.get_out()
    assert worker.hit(WHO) == "ok"
    assert "in the future" not in run("doctor", url).stdout


def test_shared_memory_is_full(symptom, start, shared_memory):
    name = f"test-{secrets.token_hex(6)}"
    url = f"shm://{name}?timeout={PATIENCE}&max_keys="
    symptom.changes["shm://shop"] = f"{url}100"
    users = [f"user:{number}" for number in range(200)]
    worker = start(f"{url}100")
    try:
        assert [worker.hit(user) for user in users].count("over") > 0
        assert symptom.shows(worker.metrics())
        symptom.ask()
        worker.stop()
        larger = start(f"{url}1000")
        symptom.get_out()
        assert [larger.hit(user) for user in users] == ["ok"] * 200
    finally:
        SharedMemoryStore(name).unlink()


def test_one_tenant_is_too_hot(symptom, start, url):
    worker = start(url, "20/minute")
    worker.hits(20, "tenant:7", "everybody")
    assert worker.hit("tenant:1", "everybody") == "over"
    assert symptom.shows(worker.metrics())
    symptom.ask()
    symptom.get_out()
    assert worker.hit("tenant:7", "everybody") == "locked"
    assert worker.hits(20, "tenant:1", "everybody") == ["ok"] * 20


def test_workers_count_apart(symptom, named, start, start_redis):
    server = start_redis()
    url = named(f"{server.tcp_url()}?timeout={PATIENCE}")
    other = f"{server.tcp_url(db=1)}?timeout={PATIENCE}"
    named(f"{other}&hash_tag=policy", "TAGGED_URL")
    workers = [start("memory://"), start("memory://"), start(other)]
    assert [worker.hits(5, WHO) for worker in workers] == [["ok"] * 5] * 3
    assert symptom.shows(workers[0].metrics())
    symptom.ask()
    together = [start(url), start(url)]
    assert sorted(worker.hit(WHO) for worker in together * 3) == ["ok"] * 5 + ["over"]


def test_limits_differ_between_releases(symptom, start, url):
    old, new = start(url), start(url, "10/minute")
    assert new.hits(7, WHO) == ["ok"] * 7
    assert old.hit(WHO) == "over"
    assert symptom.shows(new.metrics())
    symptom.ask()
    old.stop()
    assert new.hits(4, WHO) == ["ok", "ok", "ok", "over"]


def test_a_bad_deploy(symptom, named, start, start_redis):
    server = start_redis(password="right")
    right = f"{server.tcp_url()}?timeout={PATIENCE}"
    worker = start(named(right.replace("right", "wrong")))
    assert worker.hits(6, WHO)[-1] == "ok"
    assert symptom.shows(worker.metrics())
    symptom.ask()
    named(right)
    symptom.get_out()
    assert start(right).hits(6, WHO)[-1] == "over"
