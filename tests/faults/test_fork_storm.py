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


@pytest.mark.parametrize("transport", ["tcp_url", "unix_url"])
def test_on_redis_parent_and_children_share_one_count(start_redis, prefix, transport):
    server = start_redis()
    counts = storm(20, url=getattr(server, transport)(), prefix=prefix)
    check_counts(counts, 20)
    assert counts["admitted_by_parent"] + counts["admitted"] == TIGHT


def test_with_tls_likewise(start_tls_redis, prefix):
    server = start_tls_redis()
    counts = storm(20, url=f"{server.tls_url()}?ssl_ca_certs={server.ca}", prefix=prefix)
    check_counts(counts, 20)
    assert counts["admitted_by_parent"] + counts["admitted"] == TIGHT


def test_behind_sentinels_likewise(start_sentinels, prefix):
    counts = storm(15, url=start_sentinels().url, prefix=prefix)
    check_counts(counts, 15)
    assert counts["admitted_by_parent"] + counts["admitted"] == TIGHT


def test_in_a_cluster_likewise(start_cluster, prefix):
    counts = storm(15, url=start_cluster().url(), prefix=prefix)
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


@pytest.mark.parametrize("url", ["tcp_url", "tls_url"])
def test_while_the_server_stops_and_goes_on(start_tls_redis, prefix, url):
    server = start_tls_redis()
    where = getattr(server, url)() + (f"?ssl_ca_certs={server.ca}" if url == "tls_url" else "")
    with tormented(server.pause, server.resume):
        counts = storm(15, url=where, prefix=prefix, timeout=0.05, may_fail=True)
    check_bounds(counts, 15)


def test_while_the_master_of_sentinels_stops_and_goes_on(start_sentinels, prefix):
    sentinels = start_sentinels()
    with tormented(sentinels.master.pause, sentinels.master.resume, lambda: None):
        counts = storm(10, url=sentinels.url, prefix=prefix, timeout=0.05, may_fail=True)
    check_bounds(counts, 10)


def test_while_the_nodes_of_a_cluster_stop_and_go_on(start_cluster, prefix):
    cluster = start_cluster()
    in_turn = [deed for node in cluster.masters for deed in (node.pause, node.resume)]
    with tormented(*in_turn):
        counts = storm(10, url=cluster.url(), prefix=prefix, timeout=0.05, may_fail=True)
    check_bounds(counts, 10)


def test_while_the_server_is_killed_and_restarted(start_redis, prefix):
    server: RedisServer = start_redis()
    # Up for four times as long as down: after a failure a client looks every 0.1 s at first, then less often.
    with tormented(server.kill, server.restart, *[lambda: None] * 3):
        url = f"redis://localhost:{server.port}"
        counts = storm(15, url=url, prefix=prefix, timeout=0.05, may_fail=True, may_forget=True)
    assert counts["charged"] == 5 * ((15 * TIMES) + 3 * TIMES)
    assert counts["hits"] > 15
