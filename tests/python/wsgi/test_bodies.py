"""Whatever way an app answers, its body is sent as it is: docs/reference/middleware.md."""

from __future__ import annotations

import io
import sys
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest
from werkzeug.test import Client

from overlimit import Limiter, ManualClock, MemoryStore, RateLimitExceeded
from overlimit.wsgi import RateLimitMiddleware

OPTIONS = [{}, {"deduct_when": lambda response: True}, {"deduct_when": lambda response: False}]


class Sent:
    """The response to one request, read as a server does."""

    def __init__(self, app):
        environ = {"REMOTE_ADDR": "192.0.2.1", "wsgi.file_wrapper": FileWrapper}
        setup_testing_defaults(environ)
        self.starts, self.body = [], b""
        self.result = app(environ, self._start)
        try:
            for chunk in self.result:
                self.body += chunk
        finally:
            if hasattr(self.result, "close"):
                self.result.close()

    def _start(self, status, headers, exc_info=None):
        self.starts.append((status, dict(headers), len(headers)))
        return self._write

    def _write(self, chunk):
        self.body += chunk


def limited(app, **options):
    return RateLimitMiddleware(
        app, limits="2/minute", store=MemoryStore(), clock=ManualClock(1_700_000_000), **options
    )


def that_starts_late(environ, start_response):
    yield b""
    start_response("200 OK", [])
    yield b"hello"


def that_writes(environ, start_response):
    write = start_response("200 OK", [])
    write(b"he")
    write(b"ll")
    return [b"o"]


def that_sends_a_file(environ, start_response):
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"hello"))


@pytest.mark.parametrize("options", OPTIONS, ids=["counted", "asked and counted", "asked and not counted"])
@pytest.mark.parametrize("app", [that_starts_late, that_writes, that_sends_a_file])
def test_a_response_is_sent_once_with_its_body_and_the_fields(app, options):
    sent = Sent(limited(app, **options))
    assert sent.body == b"hello"
    assert [(status, "RateLimit" in headers) for status, headers, _ in sent.starts] == [("200 OK", True)]


def test_a_file_reaches_the_server_as_a_file():
    assert isinstance(Sent(limited(that_sends_a_file)).result, FileWrapper)


def test_the_response_that_replaces_another_is_the_one_that_counts():
    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            raise LookupError
        except LookupError:
            start_response("500 Failed", [("A", "b")], sys.exc_info())
        return [b"failed"]

    seen = []
    middleware = limited(app, deduct_when=lambda response: seen.append(response.status_code))
    sent = [Sent(middleware) for _ in range(3)]
    assert seen == [500] * 3
    assert [each.starts[-1][0] for each in sent] == ["500 Failed"] * 3
    assert all(len(headers) == number for _, headers, number in sent[0].starts)


@pytest.mark.parametrize("options", OPTIONS, ids=["counted", "asked and counted", "asked and not counted"])
def test_a_body_is_closed_once(options):
    closed = []

    class Body:
        def __iter__(self):
            return iter([b"hello"])

        def close(self):
            closed.append(self)

    def app(environ, start_response):
        start_response("200 OK", [])
        return Body()

    assert Sent(limited(app, **options)).body == b"hello"
    assert len(closed) == 1


@pytest.mark.parametrize("options", [{}, {"deduct_when": lambda response: response.status_code != 429}])
def test_what_is_refused_after_a_part_was_sent_reaches_the_server(options):
    own = Limiter("1/minute", clock=ManualClock())

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"a"
        own.throttle("somebody", timeout=0)(lambda: None)()
        yield b"b"

    limited = RateLimitMiddleware(app, limits="9/minute", **options)
    client = Client(limited)
    assert client.get("/").text == "ab"
    with pytest.raises(RateLimitExceeded):
        client.get("/").get_data()
