"""Processes of a host that lease as one, in a file that they share."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from overlimit import FixedWindow, RedisStore
from overlimit.http.options.storage_urls import store_url
from programs import output_of
from servers.patience import PATIENCE, eventually

from .leased import calls_of, held, limiter_of, used, warmed

PROGRAM = f"""
import json, sys, time
from overlimit import *
store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE}, lease=float(sys.argv[3]),
                   lease_in="shm://" + sys.argv[2])
limiter = Limiter(FixedWindow(1000, per=3600), name="api", store=store)
"""


@pytest.fixture
def file(prefix: str) -> Iterator[Path]:
    path = Path(f"/dev/shm/overlimit-{os.geteuid()}-{prefix}-leases-v1")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def hosted(
    shared_memory: None, leasing_for: Callable[..., RedisStore], prefix: str, file: Path
) -> RedisStore:
    """Leases that last longer than any test."""
    return leasing_for(10, lease_in=f"shm://{prefix}")


def elsewhere(store: RedisStore, what: str) -> Any:
    """Return what another process of this host prints as JSON."""
    return json.loads(output_of(PROGRAM + what, store._arguments[0], store._shown["prefix"], 10))


class TestProcesses:
    def test_spend_what_another_has_leased(self, hosted, strict):
        limiter, hits = warmed(hosted)
        sources = elsewhere(hosted, "print(json.dumps([limiter.hit('a').source for _ in range(3)]))")
        assert sources == ["lease"] * 3
        left = held(limiter)
        assert used(strict) == hits + 3 + left
        hosted.close()
        assert used(strict) == hits + 3

    def test_lose_nothing_but_what_the_killed_has_in_hand(self, hosted, strict):
        limiter = limiter_of(hosted)
        limiter.hit("b")
        program = (
            PROGRAM + "while limiter.stats()['held'] < 10: assert limiter.hit('a')\n"
            "print(json.dumps(limiter.stats()), flush=True); time.sleep(100)"
        )
        command = [sys.executable, "-c", program, hosted._arguments[0], hosted._shown["prefix"], "10"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            stats = json.loads(process.stdout.readline())
            process.kill()
        assert [limiter.hit("a").source for _ in range(stats["held"])] == ["lease"] * stats["held"]
        hosted.close()
        assert used(strict) == stats["asked"] + stats["leased"] + stats["held"]

    def test_that_are_forked_lease_on(self, hosted, strict):
        limiter, hits = warmed(hosted)
        left = held(limiter)
        child = os.fork()
        if child == 0:
            os._exit(0 if all(limiter.hit("a").source == "lease" for _ in range(2)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert held(limiter) == left - 2
        hosted.close()
        assert used(strict) == hits + 2

    @pytest.mark.parametrize("what", ["lock('a', 60)", "unlock('a')", "reset('a')", "reset_all()"])
    def test_end_leases_by_whatever_they_do_first(self, what, hosted):
        limiter, _ = warmed(hosted)
        elsewhere(hosted, f"limiter.{what}; print(1)")
        after = limiter.peek("a")
        assert (after.source, after.status) == ("store", "locked" if what.startswith("lock") else "ok")

    def test_send_few_commands_together(self, start_redis, prefix, file):
        server = start_redis()
        what = """
limiter = Limiter(FixedWindow(10**9, per=3600), name="api", store=store)
began = time.monotonic()
while time.monotonic() - began < 1: limiter.hit("a")
print(json.dumps(limiter.stats()["calls"]))
"""
        arguments = (server.unix_url(), prefix, "0.25")
        command = [sys.executable, "-c", PROGRAM + what, *arguments]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        decided = sum(json.loads(process.communicate(timeout=60)[0]) for process in processes)
        assert sum(calls_of(server).values()) * 20 < decided

    def test_that_are_stopped_keep_nobody_waiting(self, hosted, prefix):
        """Whoever asks for units and is stopped is waited for no longer than the store's timeout."""
        program = PROGRAM + "print(1, flush=True)\nwhile True: limiter.hit('a')"
        command = [sys.executable, "-c", program, hosted._arguments[0], prefix, "0.05"]
        limiter = limiter_of(hosted, FixedWindow(10**9, per=3600))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(10):
                process.send_signal(signal.SIGSTOP)
                began = time.monotonic()
                assert all(limiter.hit("a") for _ in range(50))
                assert time.monotonic() - began < PATIENCE
                process.send_signal(signal.SIGCONT)
                time.sleep(0.01)
            process.kill()


@pytest.mark.usefixtures("shared_memory")
class TestTheFile:
    def test_is_made_when_something_is_asked_for(self, hosted, file):
        limiter = limiter_of(hosted)
        assert not file.exists()
        limiter.hit("a")
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.stat().st_size < 5 << 20

    def test_has_the_mode_that_is_asked_for(self, leasing_for, prefix, file):
        limiter_of(leasing_for(1, lease_in=f"shm://{prefix}?mode=660")).hit("a")
        assert file.stat().st_mode & 0o777 == 0o660

    def test_may_have_a_path(self, leasing_for, tmp_path):
        limiter_of(leasing_for(1, lease_in=f"shm://{tmp_path}/leases")).hit("a")
        assert (tmp_path / "leases").exists()

    @pytest.mark.parametrize("what", ["damaged", "a table"])
    def test_that_cannot_be_used_is_warned_of_and_done_without(
        self, what, leasing_for, prefix, file, caplog, strict
    ):
        if what == "damaged":
            file.write_bytes(b"x" * (1 << 20))
            file.chmod(0o600)
        else:
            output_of(
                "import sys; from overlimit import *; "
                "Limiter('1/second', name='a', store=SharedMemoryStore(sys.argv[1])).hit('a')",
                file,
            )
        with caplog.at_level(logging.WARNING, logger="overlimit"):
            limiter, hits = warmed(leasing_for(10, lease_in=f"shm://{prefix}"))
        [record] = caplog.records
        assert "each process leases for itself" in record.getMessage()
        assert f"{file}" in record.getMessage()
        assert "is left alone: give the leases another name" in record.getMessage()
        assert used(strict) == hits + held(limiter)

    def test_is_the_one_that_was_named_first(self, hosted, leasing_for, caplog):
        with caplog.at_level(logging.WARNING, logger="overlimit"):
            leasing_for(10, lease_in="shm://other")
        [record] = caplog.records
        assert "lease_in='shm://other' is ignored" in record.getMessage()


class TestTheOption:
    def test_may_be_in_the_url(self, prefix):
        store = RedisStore(f"redis://localhost?lease=0.5&lease_in=shm://{prefix}")
        assert store._shown["lease_in"] == f"shm://{prefix}"
        assert f"lease_in='shm://{prefix}'" in repr(store)
        assert repr(pickle.loads(pickle.dumps(store))) == repr(store)

    def test_may_be_a_storage_option(self):
        url = store_url("redis://localhost", {"lease": 0.5, "lease_in": "shm:///run/leases?mode=660"})
        assert RedisStore(url)._shown["lease_in"] == "shm:///run/leases?mode=660"

    @pytest.mark.parametrize(
        "lease_in",
        ["app", "", 3, b"shm://app", "shm://", "shm://a b", "shm://a/b", "shm:///a/", "redis://a", "shm://a?x=1",
         "shm://a?mode=abc", "shm://a?mode=777", "shm://a?max_keys=3"],
    )  # fmt: skip
    def test_that_cannot_be_is_refused(self, lease_in):
        with pytest.raises(ValueError, match=r"lease_in|mode|option"):
            RedisStore("redis://localhost", lease=1, lease_in=lease_in)

    @pytest.mark.parametrize("options", ["lease_in=shm://app", "lease=0&lease_in=shm://app"])
    def test_needs_a_lease(self, options):
        with pytest.raises(ValueError, match=r"lease_in says where .* lease=0\.1, or leave lease_in out"):
            RedisStore(f"redis://localhost?{options}")


def test_the_rest_is_given_back_once_the_last_one_has_gone(hosted, strict):
    what = "while limiter.stats()['held'] < 10: assert limiter.hit('a')\nprint(json.dumps(limiter.stats()))"
    stats = elsewhere(hosted, what)
    eventually(lambda: used(strict) == stats["asked"] + stats["leased"])
