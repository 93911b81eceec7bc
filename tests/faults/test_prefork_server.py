"""A real HTTP server loads the app, with its limiter in use, and then forks its workers."""

from __future__ import annotations

import collections
import http.client
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from servers.patience import PATIENCE, eventually
from servers.ports import free_port

APP = """
import os

from overlimit import Limiter, RedisStore

store = RedisStore(os.environ["STORE"], timeout=10, prefix=os.environ["PREFIX"])
limiter = Limiter("100/day", name="default", store=store)
limiter.hit("before the fork")


def app(environ, start_response):
    if environ["PATH_INFO"] == "/":
        decision = limiter.hit("everybody")
        status = "200 OK" if decision else "429 Too Many Requests"
    else:
        status = "204 No Content"
    start_response(status, [("X-Worker", str(os.getpid())), ("Content-Length", "0")])
    return []
"""


def get(port: int, path: str = "/") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["X-Worker"]


def is_up(port: int) -> bool:
    try:
        return get(port, "/up")[0] == 204
    except OSError:
        return False


@pytest.fixture(params=["sync", "gthread --threads 4"])
def port(request, server, prefix, tmp_path):
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    port = free_port()
    command = (
        f"-m gunicorn --preload --workers 4 --bind 127.0.0.1:{port} --worker-class {request.param} app:app"
    )
    process = subprocess.Popen(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        env={"STORE": server.tcp_url(), "PREFIX": prefix, "PATH": ""},
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: is_up(port))
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_its_workers_together_admit_exactly_the_limit(port):
    statuses: collections.Counter[int] = collections.Counter()
    workers: set[str] = set()

    def have_several_answered() -> bool:
        for status, worker in pool.map(get, [port] * 240):
            statuses[status] += 1
            workers.add(worker)
        return len(workers) >= 2

    with ThreadPoolExecutor(8) as pool:
        eventually(have_several_answered)
    assert statuses == {200: 100, 429: statuses.total() - 100}
    assert len(workers) <= 4
