"""Forks while other threads do everything a limiter does: no child hangs, and nobody miscounts.

What a child finds of locks and caches is in docs/forks.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servers.redis_server import RedisServer

pytestmark = [pytest.mark.check, pytest.mark.longer_in_prove, pytest.mark.xdist_group("storms")]

TIMES = int(os.environ.get("PROVE", "1"))
TIGHT = 200
"""What a limit admits that everybody tries to spend."""


def storm(forks: int, **options: Any) -> dict[str, int]:
    """Run fork_storm.py; AssertionError with what it wrote unless it ends in peace."""
    # Python itself warns of a fork while there are other threads, from 3.12 on.
    command = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    program = str(Path(__file__).with_name("fork_storm.py"))
    options |= {"forks": forks * TIMES, "tight": TIGHT}
    done = subprocess.run(
        [*command, program, json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60 + 120 * TIMES,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def check_counts(counts: dict[str, int], forks: int) -> None:
    """Every call of the parent and its children was answered, and counted once."""
    children = (forks * TIMES) + -(-forks * TIMES // 5)
    assert counts["charged"] == 5 * children
    assert counts["refunded"] == 0
    assert counts["used"] == counts["hits"] > forks


def test_in_memory_each_child_counts_on_from_what_it_inherited(prefix):
    counts = storm(40, url="memory://", prefix=prefix)
    check_counts(counts, 40)
    assert counts["admitted_by_parent"] == TIGHT


@pytest.fixture
def servers(request, start_tls_redis, start_sentinels, start_cluster):
    """Servers of a kind: the URL of their store, and those that decide."""
    if request.param == "sentinels":
        sentinels = start_sentinels()
        return sentinels.url, [sentinels.master]
    if request.param == "cluster":
        cluster = start_cluster()
        return cluster.url(), cluster.masters
    server = start_tls_redis()
    tls = f"?ssl_ca_certs={server.ca}" if request.param == "tls_url" else ""
    return getattr(server, request.param)() + tls, [server]


@pytest.mark.parametrize("servers", ["tcp_url", "unix_url", "tls_url", "sentinels", "cluster"], indirect=True)
def test_on_redis_parent_and_children_share_one_count(servers, prefix):
    url, _ = servers
    counts = storm(15, url=url, prefix=prefix)
    check_counts(counts, 15)
    assert counts["admitted_by_parent"] + counts["admitted"] == TIGHT


@contextmanager
def tormented(*deeds: Callable[[], None]) -> Iterator[None]:
    """Do these in turn, again and again, in another thread."""
    over = threading.Event()

    def torment() -> None:
        while not over.is_set():
            for deed in deeds:
                deed()
                over.wait(0.1)

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_bounds(counts: dict[str, int], forks: int) -> None:
    """Nothing was lost by the server, so no more than the limit was admitted, by all of them together."""
    certain = counts["admitted_by_parent"] + counts["admitted"]
    assert counts["charged"] == 5 * ((forks * TIMES) + -(-forks * TIMES // 5))
    assert certain <= TIGHT <= certain + counts["maybe_admitted_by_parent"] + counts["maybe_admitted"]
    assert counts["hits"] > forks


@pytest.mark.parametrize("servers", ["tcp_url", "tls_url", "sentinels", "cluster"], indirect=True)
def test_while_servers_stop_and_go_on(servers, prefix):
    url, deciding = servers
    with tormented(*[deed for each in deciding for deed in (each.pause, each.resume)]):
        counts = storm(10, url=url, prefix=prefix, timeout=0.05, may_fail=True)
    check_bounds(counts, 10)


def test_while_the_server_is_killed_and_restarted(start_redis, prefix):
    server: RedisServer = start_redis()
    # Up for four times as long as down: after a failure a client looks every 0.1 s at first, then less often.
    with tormented(server.kill, server.restart, *[lambda: None] * 3):
        url = f"redis://localhost:{server.port}"
        counts = storm(15, url=url, prefix=prefix, timeout=0.05, may_fail=True, may_forget=True)
    assert counts["charged"] == 5 * ((15 * TIMES) + 3 * TIMES)
    assert counts["hits"] > 15
