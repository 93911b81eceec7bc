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


@pytest.fixture
def answering():
    """Return a function that starts a server which greets and then answers everything with this error."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = []

        def serve(error):
            connection, _ = listener.accept()
            connections.append(connection)
            connection.recv(4096)
            connection.sendall(GREETING)
            while connection.recv(1 << 16):
                connection.sendall(b"-" + error + b"\r\n")

        def start(error):
            threading.Thread(target=serve, args=(error,), daemon=True).start()
            return f"redis://127.0.0.1:{listener.getsockname()[1]}"

        yield start
        for connection in connections:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@pytest.mark.parametrize("error", STRANGE.values(), ids=STRANGE)
class TestStrange:
    def test_errors_are_raised_as_store_errors(self, answering, error):
        limiter = Limiter("3/minute", store=RedisStore(answering(error), timeout=5.0))
        with pytest.raises(StoreError, match=error[:3].decode()):
            limiter.hit("a")

    def test_errors_are_covered_by_on_error(self, answering, error):
        store = RedisStore(answering(error), timeout=5.0)
        limiter = Limiter("3/minute", store=store, on_error="local")
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
