"""`overlimit.wsgi.RateLimitMiddleware` under gunicorn: several processes and threads, one count in Redis."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

from servers.gunicorn import Gunicorn
from servers.http_clients import Clients

APP = """
import os
from overlimit.wsgi import RateLimitMiddleware


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


app = RateLimitMiddleware(
    app,
    limits="40/hour",
    routes={"/login": "5/hour"},
    exempt=["/health"],
    store=os.environ["STORE"],
    key_prefix=os.environ["PREFIX"],
    on_error="raise",
)
"""


def test_processes_share_one_count(tmp_path, redis_server, prefix):
    (tmp_path / "served.py").write_text(APP)
    environment = {"STORE": f"{redis_server.unix_url()}&timeout=10", "PREFIX": prefix}
    with ExitStack() as running:
        clients = []
        for number in range(2):
            log = tmp_path / f"log{number}"
            server = Gunicorn("served:app", tmp_path, health="/health", log=log, environment=environment)
            running.callback(server.stop)
            clients.append(Clients(server.port))
            running.callback(clients[-1].close)
        answers = [answer for each in clients for answer in each.ask_often("/", 30)]
        logins = [answer for each in clients for answer in each.ask_often("/login", 6)]
    assert Counter(answer.status for answer in answers) == {200: 40, 429: 20}
    assert Counter(answer.status for answer in logins) == {200: 5, 429: 7}
    assert all("RateLimit" in answer.headers for answer in answers)
    assert len({answer.body for answer in answers if answer.status == 200}) > 1
