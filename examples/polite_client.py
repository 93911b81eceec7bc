"""A client that waits for its turn and for what the server says, against a server that refuses the hasty.

    python examples/polite_client.py

It needs the extra `requests`. The server is limited by overlimit.wsgi, and says in its header fields what is
left. Ten requests are sent in a hurry, and then ten by a session that is throttled.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import requests

from overlimit import FixedWindow, Limiter
from overlimit.requests import ThrottledAdapter
from overlimit.wsgi import RateLimitMiddleware

SENT = 10


def page(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def limited_server() -> Iterator[str]:
    """Serve a page five times a second, and return its URL."""
    app = RateLimitMiddleware(page, limits=FixedWindow(5, per=1))
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def ask(session: requests.Session, url: str) -> Counter[int]:
    """Send some requests, and say how they were answered and how long that took."""
    began = time.monotonic()
    statuses = Counter(session.get(url, timeout=5).status_code for _ in range(SENT))
    told = ", ".join(f"{times} x {status}" for status, times in sorted(statuses.items()))
    print(f"{told} in {time.monotonic() - began:.1f} s")
    return statuses


def main() -> None:
    with limited_server() as url, requests.Session() as session:
        print("in a hurry: ", end="")
        hasty = ask(session, url)
        assert hasty[429] >= 1, hasty

        session.mount("http://", ThrottledAdapter(Limiter("20/second")))
        print("waiting for turns and for the server: ", end="")
        polite = ask(session, url)
        assert polite == {200: SENT}, polite


if __name__ == "__main__":
    main()
