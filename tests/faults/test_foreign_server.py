"""What listens at the address is no Redis, or nobody takes the connection."""

from __future__ import annotations

import os
import random
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from overlimit import StoreTimeout, StoreUnavailable

TIMEOUT = 0.1
MOST_MEMORY = 100 << 20


def once(answer):
    """Return what sends an answer to the first bytes, and then nothing until the client is gone."""

    def talk(connection):
        connection.recv(65536)
        connection.sendall(answer)
        while connection.recv(65536):
            pass

    return talk


def erring(error):
    """Return what greets, and then answers everything with this error."""

    def talk(connection):
        connection.recv(65536)
        connection.sendall(b"*2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n+PONG\r\n")
        while connection.recv(65536):
            connection.sendall(b"-" + error + b"\r\n")

    return talk


def again_and_again(answer):
    def talk(connection):
        connection.recv(65536)
        while True:
            connection.sendall(answer)

    return talk


def dribble(connection):
    connection.recv(65536)
    over = threading.Event()
    while not over.wait(0.01):
        connection.sendall(b"+")


FOREIGN = {
    "a web server": once(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "random bytes": once(random.Random(1).randbytes(300)),
    "a text of 100 GB": once(b"$99999999999\r\n"),
    "a list in a list in a list": once(b"*1\r\n" * 200_000),
    "a list of 2 billion": once(b"*2147483647\r\n"),
    "answers to nothing, without end": again_and_again(b"+OK\r\n" * 10_000),
    "a line without an end": dribble,
    "an error that is no UTF-8": erring(b"ERR \xff\xfe"),
    "an error in Latin-1": erring(b"NOPERM User Ren\xe9 has no permissions"),
    "an error cut within a character": erring(b"ERR x" + "é".encode() * 500),
}


@contextmanager
def serving(talk):
    """Run a server on a free port that talks to each client in a thread of its own."""

    class Handler(BaseRequestHandler):
        def handle(self):
            with suppress(OSError):
                talk(self.request)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def resident():
    """Return how many bytes of memory this process has in use."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("talk", FOREIGN.values(), ids=FOREIGN)
def test_every_call_is_an_error_in_time_and_what_is_said_takes_no_memory(limiter_at, ledger, talk):
    with serving(talk) as port:
        limiter = limiter_at(f"redis://127.0.0.1:{port}/0", timeout=TIMEOUT)
        before = resident()
        ledger.hit_times(3, limiter, "a")
        ledger.hit_from_threads([limiter] * 4, "a", times=5)
        assert resident() - before < MOST_MEMORY
        local = limiter_at(f"redis://127.0.0.1:{port}/0", timeout=TIMEOUT, limits="3/day", on_error="local")
        assert [bool(local.hit("a")) for _ in range(4)] == [True] * 3 + [False]
    assert (len(ledger.errors), ledger.acknowledged, ledger.refused) == (23, 0, 0)
    ledger.assert_in_time(TIMEOUT)


@pytest.mark.parametrize(
    ("scheme", "places"),
    [("redis", 0), ("rediss", 0), ("rediss", 64)],
    ids=["nobody connects", "nobody connects for TLS", "nobody speaks TLS"],
)
def test_one_that_accepts_nobody_keeps_no_call_longer_than_its_timeout_and_charges_nothing(
    limiter_at, ledger, scheme, places
):
    with ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=places))
        for _ in range(0 if places else 4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        limiter = limiter_at(f"{scheme}://127.0.0.1:{server.getsockname()[1]}/0", timeout=TIMEOUT)
        outcomes = ledger.hit_times(3, limiter, "a")
        ledger.hit_from_threads([limiter] * 4, "a", times=5)
    assert isinstance(outcomes[0], StoreTimeout)
    assert TIMEOUT <= ledger.seconds[0]
    assert isinstance(outcomes[-1], StoreUnavailable), "it fails fast by now"
    assert (ledger.failed, ledger.unknown, ledger.acknowledged) == (23, 0, 0)
    ledger.assert_in_time(TIMEOUT)
