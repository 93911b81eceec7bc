"""What users of django-ratelimit 4.1 and of REST framework's throttles have complained of, each as a case."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.http import HttpResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from overlimit.django import rate_limit

from .conftest import statuses


def view(request):
    return HttpResponse()


def test_behind_a_proxy_clients_are_told_apart(serve):
    """``key="ip"`` counts ``REMOTE_ADDR``, which is the proxy's for everybody."""
    client = serve(path("", rate_limit("1/minute", key="ip")(view)), trusted_proxies=1)
    asked = [client.get("/", headers={"X-Forwarded-For": f"192.0.2.{n}"}).status_code for n in (1, 2, 1)]
    assert asked == [200, 200, 429]


def test_a_decorator_refuses_unless_told_otherwise(serve):
    """``block`` was False by default up to 4.0: a limit that limits nothing."""
    client = serve(path("", rate_limit("1/minute")(view)), middleware=[])
    assert statuses(client) == [200, 429, 429]


def test_a_refusal_is_no_missing_permission(serve):
    """``Ratelimited`` is a PermissionDenied, which is a 403 without a time to come back."""
    client = serve(path("", rate_limit("1/minute")(view)))
    answers = [client.get("/") for _ in range(2)]
    assert 50 <= int(answers[1]["Retry-After"]) <= 62
    assert {"RateLimit", "RateLimit-Policy"} <= set(answers[0].headers)


@pytest.mark.every_store
def test_threads_never_exceed_a_limit(serve, store):
    """Its cache is read and written in steps, so that requests at the same time are not counted."""
    client = serve(path("", rate_limit("20/hour", key="ip")(view)), store=store, key_prefix=f"t{id(store)}")
    client.get("/")
    counted = []
    threads = [threading.Thread(target=lambda: counted.extend(statuses(client, times=10))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counted.count(200), counted.count(429)) == (19, 21)


def test_no_second_sees_twice_the_limit(serve, clock):
    """Its windows are fixed: twice the rate passes where two of them meet."""
    client = serve(path("", rate_limit("6/minute")(view)))
    passed = []
    for _ in range(180):
        passed.append(statuses(client, times=1)[0] == 200)
        clock.advance(1)
    most = max(sum(passed[start : start + 60]) for start in range(120))
    assert most == 6
    assert sum(passed) >= 17


def test_refused_requests_burn_nothing(serve, clock):
    """Refused requests are counted, and of two decorators the outer one counts what the inner refuses."""
    both = rate_limit("4/hour", algorithm="fixed_window")(
        rate_limit("2/minute", algorithm="fixed_window")(view)
    )
    client = serve(path("", both))
    assert statuses(client, times=30) == [200, 200] + [429] * 28
    clock.advance(60)
    assert statuses(client) == [200, 200, 429]
    clock.advance(60)
    assert statuses(client) == [429] * 3


def test_classes_decorated_alike_do_not_share_a_count(serve):
    """Without ``group=`` all classes are called ``dispatch`` or ``bound_method``."""

    def page(name):
        own = type(name, (View,), {"get": lambda self, request: HttpResponse()})
        return method_decorator(rate_limit("1/minute", key="ip"), name="dispatch")(own).as_view()

    client = serve(path("a", page("A")), path("b", page("B")))
    assert [client.get(f"/{name}").status_code for name in "abab"] == [200, 200, 429, 429]


def test_async_views_are_limited(serve):
    """It calls an async view without awaiting it, or not at all."""

    @rate_limit("2/minute")
    async def view_async(request):
        await asyncio.sleep(0)
        return HttpResponse()

    client = serve.asynchronously(path("", view_async))

    async def ask():
        return [each.status_code for each in await asyncio.gather(*(client.get("/") for _ in range(6)))]

    assert sorted(asyncio.run(ask())) == [200] * 2 + [429] * 4


def test_a_rate_function_need_not_take_a_group(serve):
    """It is called with a group and the request; None is no limit, ``"0/s"`` is never."""
    rates = {"free": "1/m", "staff": None, "banned": "0/s"}
    limited = rate_limit(lambda request: rates[request.GET["plan"]])(view)
    client = serve(path("", limited))
    assert statuses(client, "/?plan=staff") == [200] * 3
    assert statuses(client, "/?plan=free") == [200, 429, 429]
    assert statuses(client, "/?plan=banned") == [429] * 3


def test_a_header_that_is_absent_is_no_error(serve):
    """``key="header:x-api-key"`` without that header is a KeyError, or one count named "None"."""
    client = serve(path("", rate_limit("1/minute", key="header:X-Api-Key")(view)))
    assert statuses(client) == [200, 429, 429]
    assert client.get("/", headers={"X-Api-Key": "None"}).status_code == 200
