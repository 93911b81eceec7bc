"""The extension behind a real HTTP server, with clients in several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse

from flask import Flask
from werkzeug.serving import make_server

from overlimit.flask import rate_limit


@contextmanager
def served(app: Flask) -> Iterator[int]:
    """Serve the app in a thread and yield its port."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get(port: int) -> HTTPResponse:
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/")
        return connection.getresponse()


def test_clients_at_once_get_exactly_the_quota(make_site):
    site = make_site(application_limits="30/minute")
    site.app.get("/")(rate_limit("20/minute")(lambda: "ok"))

    with served(site.app) as port, ThreadPoolExecutor(4) as pool:
        statuses = [answer.status for answer in pool.map(get, [port] * 60)]
    assert (statuses.count(200), statuses.count(429)) == (20, 40)
    assert site.ask("/free", 11, ip="127.0.0.1") == [200] * 10 + [429]


def test_a_refusal_arrives_with_its_headers(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("1/minute", name="n")(lambda: "ok"))
    with served(site.app) as port:
        passed, refused = get(port), get(port)
        clock.advance(int(refused.headers["Retry-After"]))
        again = get(port)
    assert [passed.status, refused.status, again.status] == [200, 429, 200]
    assert passed.headers["RateLimit"] == '"n";r=0;t=60'
    assert refused.headers["RateLimit-Policy"] == '"n";q=1;w=60'
    assert refused.headers["Retry-After"] == "60"
