"""Exactly the limit through real HTTP, whatever gunicorn does to its workers (docs/guides/operations.md).

On shared memory, and on Redis where they inherit connections.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection, HTTPException

import pytest

from overlimit import SharedMemoryStore
from servers.gunicorn import Gunicorn
from servers.http_clients import Clients
from servers.patience import PATIENCE, eventually

pytestmark = [pytest.mark.check, pytest.mark.usefixtures("shared_memory")]

LIMIT = 100

APP = """
import os
from flask import Flask
from overlimit.flask import RateLimit, rate_limit

app = Flask("shop")
app.config["RATELIMIT_STORAGE_URI"] = os.environ["STORE"]
RateLimit(app)
app.get("/health")(lambda: "ok")

@app.get("/<key>")
@rate_limit("{limit}/day", identifiers=lambda: "everybody")
def page(key):
    return str(os.getpid())
"""
IN_THE_PARENT = "app.test_client().get('/warm')"


@pytest.fixture
def name():
    name = f"gunicorn-{secrets.token_hex(6)}"
    yield name
    SharedMemoryStore(name).unlink()


@pytest.fixture
def serve(tmp_path, request, name, redis_server, prefix):
    stores = {"shm": f"shm://{name}", "redis": f"{redis_server.tcp_url()}?timeout=10&prefix={prefix}"}

    def start(more="", before="", workers=2, store="shm"):
        (tmp_path / "shop.py").write_text(APP.replace("{limit}", str(LIMIT)) + before)
        server = Gunicorn(
            "shop:app",
            tmp_path,
            health="/health",
            log=tmp_path / "log",
            environment={"STORE": stores[store]},
            workers=workers,
            more=more,
        )
        request.addfinalizer(server.stop)
        clients = Clients(server.port)
        request.addfinalizer(clients.close)
        return server, clients

    return start


def statuses(clients, count):
    return Counter(
        answer.status for answer in clients.ask_often("/x", count, headers={"Connection": "close"})
    )


SERVERS = {
    "preload-after-a-call": ({"more": "--preload", "before": IN_THE_PARENT, "workers": 4}, 1),
    "preload-on-redis": ({"more": "--preload", "before": IN_THE_PARENT, "workers": 4, "store": "redis"}, 1),
    "threads-on-redis": ({"more": "--preload --threads 4", "before": IN_THE_PARENT, "store": "redis"}, 1),
    "gevent": ({"more": "--worker-class gevent"}, 0),
    "recycled": ({"more": "--max-requests 20 --max-requests-jitter 10"}, 0),
}
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    del SERVERS["gevent"]  # which there is not without the GIL


@pytest.mark.parametrize(("options", "used"), SERVERS.values(), ids=SERVERS)
def test_all_workers_together_admit_exactly_the_limit(serve, options, used):
    _, clients = serve(**options)
    assert statuses(clients, LIMIT + 50) == {200: LIMIT - used, 429: 50 + used}


def children_of(pid):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(each) for each in listed.stdout.split()]


def test_workers_that_are_killed_or_reloaded_forget_nothing(serve, name):
    server, clients = serve()
    counts = Counter()
    guard = threading.Lock()
    is_over = threading.Event()

    def ask():
        while not is_over.is_set():
            try:
                with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
                    connection.request("GET", "/x")
                    answer = connection.getresponse().status
            except (OSError, HTTPException):
                answer = "lost"  # its worker was killed: it may have been admitted, or not
            with guard:
                counts[answer] += 1

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for _ in range(4):
        eventually(lambda: len(children_of(server.pid)) >= 2)
        worker = children_of(server.pid)[0]
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: worker not in children_of(server.pid))  # noqa: B023
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: counts[429] > 50)
    is_over.set()
    for asker in askers:
        asker.join()
    assert counts["lost"] < LIMIT / 2
    assert LIMIT - counts["lost"] <= counts[200] <= LIMIT
    assert statuses(clients, 20) == {429: 20}
    assert SharedMemoryStore(name).stats()["damaged"] == 0


def flask_limits(tmp_path, name, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "flask", "--app", "shop", "limits", *arguments],
        cwd=tmp_path,
        env={**os.environ, "STORE": f"shm://{name}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_line_of_flask_sees_the_counts_of_a_running_server_and_creates_none(
    serve, tmp_path, name
):
    _, clients = serve()
    done = flask_limits(tmp_path, name, "check", "everybody")
    assert done.returncode == 1
    missing = f"nothing is counted yet: there is no shared memory {SharedMemoryStore(name).path}"
    assert missing in done.stderr
    assert not SharedMemoryStore(name).is_created
    statuses(clients, 7)
    done = flask_limits(tmp_path, name, "check", "everybody")
    assert done.returncode == 0, done.stderr
    assert str(LIMIT - 7) in done.stdout
