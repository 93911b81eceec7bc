"""What only one of the libraries has: pickled sessions, cancelled tasks, transports."""

from __future__ import annotations

import asyncio
import io
import math
import pickle
import threading
import time
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
import requests

import overlimit.httpx
import overlimit.requests
from overlimit import Limiter, RateLimitExceeded, SlidingLog
from overlimit.aio import AsyncLimiter
from overlimit.httpx import AsyncThrottledTransport, ThrottledTransport
from overlimit.requests import ThrottledAdapter
from overlimit.wsgi import RateLimitMiddleware
from programs import run_without
from servers.patience import PATIENCE
from servers.scripted_http import Scripted


def spent(limiter, identifier):
    return limiter.limits[0].quota - limiter.peek(identifier, cost=0).remaining


def test_a_pickled_session_goes_on_throttling(server):
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", ThrottledAdapter(Limiter("5/hour", name="pickled"), retries=1, max_wait=2))
    server.answers = [
        Scripted(200, {"RateLimit": '"a";r=0;t=0.01'}),
        *[Scripted(429, {"Retry-After": "0.01"})] * 9,
    ]
    assert session.get(server.url, timeout=PATIENCE).status_code == 200
    again = pickle.loads(pickle.dumps(session))
    answer = again.get(server.url, timeout=PATIENCE)
    assert answer.status_code == 429
    assert len(server.asked) == 3
    assert spent(again.get_adapter(server.url)._turns._budgets[0].limiter, server.host) == 3
    session.close()
    again.close()


def test_options_of_an_http_adapter_are_its_own():
    adapter = ThrottledAdapter(Limiter("5/hour"), "all", pool_connections=3, pool_maxsize=4, max_retries=2)
    assert (adapter._pool_connections, adapter._pool_maxsize, adapter.max_retries.total) == (3, 4, 2)
    adapter.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ThrottledAdapter("5/hour"), "an overlimit.Limiter"),
        (lambda: ThrottledAdapter(AsyncLimiter("5/hour")), "an overlimit.Limiter"),
        (lambda: ThrottledTransport("5/hour"), "an overlimit.Limiter"),
        (lambda: ThrottledTransport(AsyncLimiter("5/hour")), "write AsyncThrottledTransport"),
        (lambda: AsyncThrottledTransport(Limiter("5/hour")), "write ThrottledTransport"),
        (
            lambda: ThrottledTransport(Limiter("5/hour"), transport=httpx.AsyncHTTPTransport()),
            "httpx.BaseTransport",
        ),
        (lambda: AsyncThrottledTransport(AsyncLimiter("5/hour"), transport="x"), "httpx.AsyncBaseTransport"),
        (lambda: ThrottledTransport(Limiter("5/hour"), "all"), "by name"),
        (lambda: ThrottledTransport(Limiter("5/hour"), max_retries=5), "did you mean 'retries'"),
    ],
    ids=range(9),
)
def test_what_belongs_to_another_kind_of_client_is_an_error(make, said):
    with pytest.raises(TypeError, match=said):
        make()


def test_the_errors_of_a_library_are_those_of_overlimit_and_can_be_pickled():
    decision = Limiter("5/hour").hit("user:secret", cost=6)
    for module in (overlimit.requests, overlimit.httpx):
        error = module.RateLimitExceeded(decision)
        again = pickle.loads(pickle.dumps(error))
        assert isinstance(again, RateLimitExceeded)
        assert type(again) is module.RateLimitExceeded
        assert (again.decision, str(again)) == (decision, str(error))
        assert "never" in str(error)
        assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("name", "hidden"), [("requests", "requests"), ("httpx", "httpx"), ("aiohttp", "aiohttp")]
)
def test_a_missing_library_is_named(name, hidden):
    said = run_without(hidden, f"import overlimit.{name}").stderr.splitlines()[-1]
    assert f"pip install 'overlimit[{name}]'" in said


def test_the_transport_that_sends_is_entered_and_left_with_the_client():
    noted = []

    class Transport(httpx.MockTransport):
        def __enter__(self):
            noted.append("entered")
            return self

        def __exit__(self, *_):
            noted.append("left")

        def close(self):
            noted.append("closed")

        async def __aenter__(self):
            return self.__enter__()

        async def __aexit__(self, *_):
            self.__exit__()

        async def aclose(self):
            self.close()

    def transport():
        return Transport(lambda _: httpx.Response(200))

    async def main():
        async with httpx.AsyncClient(
            transport=AsyncThrottledTransport(AsyncLimiter("5/hour"), transport=transport())
        ):
            pass
        await AsyncThrottledTransport(AsyncLimiter("5/hour"), transport=transport()).aclose()

    with httpx.Client(transport=ThrottledTransport(Limiter("5/hour"), transport=transport())) as client:
        assert client.get("http://a/").status_code == 200
    httpx.Client(transport=ThrottledTransport(Limiter("5/hour"), transport=transport())).close()
    assert noted == ["entered", "left", "closed"]
    asyncio.run(main())
    assert noted == ["entered", "left", "closed"] * 2


@pytest.mark.parametrize("library", [requests, httpx], ids=["requests", "httpx"])
@pytest.mark.parametrize("body", ["json", "form", "file"])
def test_bodies_that_a_library_makes_are_sent_whole_each_time(server, library, body):
    """httpx reads a file while it sends it, so that the request is made once."""
    tries, status = (1, 429) if (library, body) == (httpx, "file") else (3, 200)
    made = {
        "json": {"json": {"a": "x" * 5000}},
        "form": {"data": {"a": "x" * 5000}},
        "file": {"files": {"a": io.BytesIO(b"x" * 5000)}},
    }[body]
    server.answers = [Scripted(429, {"Retry-After": "0.01"})] * 2
    limiter = Limiter("9/hour")
    if library is requests:
        client = requests.Session()
        client.trust_env = False
        client.mount("http://", ThrottledAdapter(limiter))
    else:
        client = httpx.Client(transport=ThrottledTransport(limiter))
    with client:
        assert client.put(server.url, timeout=PATIENCE, **made).status_code == status
    assert len(server.asked) == spent(limiter, server.host) == tries
    assert len({each.body for each in server.asked}) == 1
    assert server.asked[0].body.count(b"x") >= 5000


def test_a_time_beyond_all_sleep_is_not_waited_for(server):
    server.answers = [Scripted(429, {"Retry-After": "9" * 29})]
    with httpx.Client(transport=ThrottledTransport(Limiter("5/hour"), max_wait=math.inf)) as client:
        assert client.get(server.url).status_code == 429


def test_a_cancelled_request_sends_nothing_and_the_next_one_goes_on(server):
    async def main():
        limiter = AsyncLimiter._of(Limiter("5/hour"))
        server.answers = [Scripted(429, {"Retry-After": "1"}), Scripted(200, {"RateLimit": '"a";r=0;t=30'})]
        async with httpx.AsyncClient(transport=AsyncThrottledTransport(limiter)) as client:
            for tries in (1, 2):
                if tries == 2:
                    assert (await client.get(server.url)).status_code == 200
                task = asyncio.ensure_future(client.get(server.url))
                while len(server.asked) < tries:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert len(server.asked) == 2
        return spent(limiter._limiter, server.host)

    assert asyncio.run(main()) == 2


def test_tasks_share_turns_and_the_event_loop_goes_on_while_they_wait(server):
    async def main():
        limiter = AsyncLimiter._of(Limiter(SlidingLog(4, 0.2)))
        server.answers = [Scripted(429, {"Retry-After": "0.2"})]
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        async with httpx.AsyncClient(transport=AsyncThrottledTransport(limiter)) as client:
            ticking = asyncio.ensure_future(tick())
            began = time.monotonic()
            answers = await asyncio.gather(*[client.get(server.url) for _ in range(11)])
            ticking.cancel()
        return [answer.status_code for answer in answers], time.monotonic() - began, ticks

    statuses, took, ticks = asyncio.run(main())
    assert statuses == [200] * 11
    assert len(server.asked) == 12
    assert took >= 0.4
    assert ticks >= 4


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        """Log nothing."""


def limited_server(headers):
    """Return a WSGI server of 3 requests per second, and the list of the statuses that it answers."""
    statuses = []

    def index(environ, start_response):
        start_response("200 OK", [])
        return [b"ok"]

    app = RateLimitMiddleware(index, limits="3/second", algorithm="sliding_log", headers=headers)

    def noting(environ, start_response):
        def start(status, fields, error=None):
            statuses.append(int(status[:3]))
            return start_response(status, fields, error)

        return app(environ, start)

    server = make_server("127.0.0.1", 0, noting, Server, Handler)
    return server, statuses


@pytest.mark.parametrize(("headers", "most"), [("draft", 22), (None, 32)], ids=["fields", "Retry-After"])
def test_many_requests_to_a_slow_server_provoke_few_refusals_and_all_get_through(headers, most):
    server, statuses = limited_server(headers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    async def ask_all():
        transport = AsyncThrottledTransport(AsyncLimiter("1000/hour"), retries=9)
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE, trust_env=False) as client:
            url = f"http://127.0.0.1:{server.server_port}/"
            return await asyncio.gather(*[client.get(url) for _ in range(20)])

    try:
        assert {answer.status_code for answer in asyncio.run(ask_all())} == {200}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert statuses.count(200) == 20
    assert 1 <= statuses.count(429) <= most
