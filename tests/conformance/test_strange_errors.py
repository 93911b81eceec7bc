"""Error replies of servers and proxies that are no text: they are errors of the store like any other."""

from __future__ import annotations

import socket
import threading

import pytest

from overlimit import Limiter, RedisStore, StoreError

GREETING = b"*2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n+PONG\r\n"
STRANGE = {
    "no UTF-8": b"ERR \xff\xfe",
    "Latin-1": b"NOPERM User Ren\xe9 has no permissions",
    "cut within a character": b"ERR x" + "é".encode() * 500,
}


def serve(listener, error):
    """Greet one client and answer everything with this error, until the client has gone."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(GREETING)
        while connection.recv(1 << 16):
            connection.sendall(b"-" + error + b"\r\n")


@pytest.fixture
def store_at():
    """Return a function that gives a store on a server which answers everything with this error."""
    stores, servers = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def start(error):
            servers.append(threading.Thread(target=serve, args=(listener, error)))
            servers[-1].start()
            stores.append(RedisStore(f"redis://127.0.0.1:{listener.getsockname()[1]}", timeout=5.0))
            return stores[-1]

        yield start
        for store in stores:
            store.close()
        for server in servers:
            server.join()


@pytest.mark.parametrize("error", STRANGE.values(), ids=STRANGE)
class TestStrange:
    def test_errors_are_raised_as_store_errors(self, store_at, error):
        limiter = Limiter("3/minute", name="default", store=store_at(error))
        with pytest.raises(StoreError, match=error[:3].decode()):
            limiter.hit("a")

    def test_errors_are_covered_by_on_error(self, store_at, error):
        limiter = Limiter("3/minute", name="default", store=store_at(error), on_error="local")
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
