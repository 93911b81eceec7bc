"""Calls to PostgreSQL end when they should, and leave nothing on the server, whatever keeps them waiting."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from overlimit import Decision, Limiter, StoreTimeout, StoreUnavailable
from overlimit.aio import AsyncLimiter
from overlimit.stores import PostgreSQLStore, postgresql
from servers.patience import PATIENCE, eventually
from servers.postgresql_server import PostgreSQLServer

BEYOND = 3.0
"""How many seconds a call may take beyond its timeout, on a busy machine."""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port where connections are taken, and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def silent_name(monkeypatch) -> str:
    """Return the name of a host with four addresses."""
    as_it_is = socket.getaddrinfo

    def getaddrinfo(host: str, *args: object, **options: object) -> list[tuple[object, ...]]:
        is_it = host == "four.example"
        return as_it_is("127.0.0.1" if is_it else host, *args, **options) * (4 if is_it else 1)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return "four.example"


HITS: dict[str, Callable[[Any], Decision]] = {
    "in a thread": lambda store: Limiter("5/minute", name="x", store=store).hit("a"),
    "on an event loop": lambda store: asyncio.run(AsyncLimiter("5/minute", name="x", store=store).hit("a")),
}


@pytest.mark.parametrize("hit", HITS.values(), ids=HITS)
class TestAddresses:
    def test_all_of_a_host_share_the_time_of_a_call(self, silent_name, silent_port, hit):
        began = time.monotonic()
        with pytest.raises(StoreTimeout) as raised:
            hit(f"postgresql://app@{silent_name}:{silent_port}/db?timeout=2")
        assert 1.5 < time.monotonic() - began < 4
        assert not raised.value.maybe_charged

    def test_those_that_are_silent_leave_time_for_the_next_host(
        self, postgresql_server, silent_name, silent_port, prefix, hit
    ):
        hosts = f"{silent_name}:{silent_port},127.0.0.1:{postgresql_server.port}"
        url = f"postgresql://overlimit@{hosts}/postgres?table={prefix}&timeout=5"
        assert hit(url).remaining == 4


def connections(server: PostgreSQLServer, role: str) -> int:
    ((number,),) = server.ask(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND state <> 'idle'", role
    )
    return int(number)


def test_calls_that_gave_up_wait_for_a_locked_table_no_longer(postgresql_server, prefix):
    """A new connection prepares statements first, which waits for the table, too."""
    postgresql_server.ask(f"CREATE ROLE app_{prefix} LOGIN SUPERUSER")
    url = postgresql_server.url(user=f"app_{prefix}", table=prefix, timeout=0.2, max_connections=3)
    limiter = Limiter("1000/minute", name="x", store=url)
    limiter.store.create_table()

    def hit(_: int) -> None:
        with suppress(StoreTimeout):
            limiter.hit("a")

    with psycopg.connect(postgresql_server.url()) as other, ThreadPoolExecutor(3) as threads:
        other.execute(f"LOCK TABLE {prefix} IN ACCESS EXCLUSIVE MODE")
        list(threads.map(hit, range(15)))
        for ask in (limiter.reset_all, lambda: limiter.store.delete(["x:a"])):
            with pytest.raises(StoreTimeout):
                ask()
        eventually(lambda: connections(postgresql_server, f"app_{prefix}") == 0)
    assert limiter.hit("a", cost=0).allowed


def test_event_loops_that_are_closed_leave_no_connection(postgresql_server, prefix):
    postgresql_server.ask(f"CREATE ROLE app_{prefix} LOGIN SUPERUSER")
    url = postgresql_server.url(user=f"app_{prefix}", table=prefix, timeout=PATIENCE)
    limiter = AsyncLimiter("1000/minute", name="x", store=url)

    async def hit() -> None:
        await asyncio.gather(*(limiter.hit(f"a{number}") for number in range(3)))

    kept = [asyncio.new_event_loop() for _ in range(3)]
    gc.disable()
    try:
        for _ in range(3):
            asyncio.run(hit())
        for loop in kept:
            loop.run_until_complete(hit())
            loop.close()
        asyncio.run(hit())
        eventually(
            lambda: (
                postgresql_server.ask(
                    "SELECT count(*) FROM pg_stat_activity WHERE usename = %s", f"app_{prefix}"
                )
                == [(0,)]
            )
        )
    finally:
        gc.enable()


def others(server: PostgreSQLServer) -> list[int]:
    """Return the processes that serve clients, but for who asks."""
    asked = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    return [pid for (pid,) in server.ask(f"SELECT pid {asked}")]


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_does_not_wait_for_a_server_that_hangs(start_postgresql):
    server = start_postgresql()
    limiter = Limiter("5/minute", name="x", store=server.url(timeout=60))
    limiter.hit("a")
    processes = others(server)
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            limiter.hit("a")
        assert time.monotonic() - began < 0.5 + BEYOND
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
    assert limiter.hit("b").allowed


def test_a_server_that_takes_no_writes_is_connected_anew(postgresql_server, prefix):
    """As a role does whose transactions are read-only, or a standby that a name has led to."""
    role = f"app_{prefix}"
    postgresql_server.ask(f"CREATE ROLE {role} LOGIN SUPERUSER")
    limiter = Limiter("5/minute", name="x", store=postgresql_server.url(user=role, table=prefix))
    limiter.store.create_table()
    limiter.store.close()
    postgresql_server.ask(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with pytest.raises(
        StoreUnavailable, match="read-only transaction; connect to the server that takes writes"
    ) as raised:
        limiter.hit("a")
    assert not raised.value.maybe_charged
    assert limiter.peek("a", cost=0).remaining == 5
    postgresql_server.ask(f"ALTER ROLE {role} RESET default_transaction_read_only")
    assert limiter.hit("a").remaining == 4


@pytest.mark.parametrize("hit", HITS.values(), ids=HITS)
def test_what_is_decided_waits_for_no_sweep(postgresql_url, hit, monkeypatch):
    store = PostgreSQLStore(postgresql_url, timeout=5.0)
    store.create_table()
    monkeypatch.setattr(postgresql, "_SWEEP", "SELECT pg_sleep(60)::text")
    monkeypatch.setattr(postgresql, "_WRITES_A_SWEEP", 1)
    began = time.monotonic()
    assert hit(store).remaining == 4
    assert time.monotonic() - began < 0.5 + BEYOND
    monkeypatch.undo()
    assert hit(store).remaining == 3


class CutStep:
    """What decides in the middle of a transaction, whose connection is lost then, so many times."""

    def __init__(self, step: Any, server: PostgreSQLServer, cuts: list[None]) -> None:
        self._step, self._server, self._cuts = step, server, cuts
        self.time_left, self.reads_only = step.time_left, step.reads_only

    def __call__(self, *given: Any) -> Any:
        if self._cuts:
            self._cuts.pop()
            self._server.cut_connections()
            eventually(lambda: not others(self._server))
        return self._step(*given)


class TestConnectionsLostInATransaction:
    @pytest.fixture(autouse=True)
    def limiter(self, start_postgresql) -> Limiter:
        self.server, self.cuts = start_postgresql(), []
        server, cuts = self.server, self.cuts

        class CutStore(PostgreSQLStore):
            def transact(self, keys: Sequence[str], step: Any) -> None:
                super().transact(keys, CutStep(step, server, cuts))

        limiter = Limiter("5/minute", name="x", store=CutStore(server.url(timeout=PATIENCE)))
        assert limiter.hit("a").remaining == 4
        return limiter

    def remaining(self, limiter: Limiter, *names: str) -> list[int]:
        return [limiter.peek(name, cost=0).remaining for name in names]

    def test_before_the_commit_are_replaced(self, limiter):
        self.cuts.append(None)
        assert limiter.hit("b", "c").remaining == 4
        assert self.cuts == []
        assert self.remaining(limiter, "b", "c") == [4, 4]

    def test_twice_charge_nothing(self, limiter):
        self.cuts += [None, None]
        with pytest.raises(StoreUnavailable) as raised:
            limiter.hit("b", "c")
        assert not raised.value.maybe_charged
        assert self.cuts == []
        assert self.remaining(limiter, "b", "c") == [5, 5]

    def test_in_the_commit_are_in_doubt(self, limiter):
        self.cuts.append(None)
        with pytest.raises(StoreUnavailable) as raised:
            limiter.hit("a")
        assert raised.value.maybe_charged
        assert self.remaining(limiter, "a") == [4]
