"""A proxy in a process of its own that holds every reply back for a while: ``delays.py SERVER OWN SECONDS``.

It stands for a network. It sleeps in threads, as timers of event loops are too coarse for this.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from measuring.servers import await_socket


@contextlib.contextmanager
def delayed(server: str, seconds: float) -> Iterator[str]:
    """Run a proxy before the unix socket of a server, on one of its own, whose path this is."""
    own = f"{server}.delayed"
    words = [sys.executable, "-m", "measuring.delays", server, own, str(seconds)]
    proxy = subprocess.Popen(words, cwd=Path(__file__).parents[1])
    try:
        await_socket(proxy, Path(own))
        yield own
    finally:
        proxy.kill()
        proxy.wait()


def serve(server: str, own: str, seconds: float) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(own)
        listener.listen()
        while True:
            client = listener.accept()[0]
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(server)
            for source, sink, delay in ((client, upstream, 0.0), (upstream, client, seconds)):
                threading.Thread(target=pass_on, args=(source, sink, delay), daemon=True).start()


def pass_on(source: socket.socket, sink: socket.socket, seconds: float) -> None:
    """Pass on what comes, later, until either side is gone."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if seconds:
                time.sleep(seconds)
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], float(sys.argv[3]))
