"""Counts in memory, and several processes that serve one site: docs/reference/django.md."""

from __future__ import annotations

import asyncio
import io

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path

WARNING = "counts requests in memory"


def view(request):
    return HttpResponse()


@pytest.mark.parametrize("several", [True, False])
def test_a_server_of_wsgi_that_says_so_is_warned_of(serve, caplog, several):
    serve(path("", view), default_limits="5/minute")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/",
        "SERVER_NAME": "shop",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(),
        "wsgi.url_scheme": "http",
        "wsgi.multiprocess": several,
    }
    WSGIHandler()(environ, lambda *_: None)
    assert caplog.text.count(WARNING) == several
    assert caplog.text.count('set OVERLIMIT = {"STORE": "shm://myapp"}') == several


def test_the_test_clients_are_not_warned_of(serve, caplog):
    serve(path("", view), default_limits="5/minute").get("/")
    asyncio.run(serve.asynchronously(path("", view), default_limits="5/minute").get("/"))
    assert WARNING not in caplog.text
