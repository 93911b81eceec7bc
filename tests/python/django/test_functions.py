"""Functions of the app that look something up: ordinary ones in a thread, coroutine functions on the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import path
from django.utils.decorators import method_decorator
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject
from django.views import View
from rest_framework.response import Response
from rest_framework.views import APIView

from overlimit.django import rate_limit
from overlimit.django.drf import OverlimitThrottle

from .conftest import statuses
from .decorated import async_view_of, numbers, view_of


def look_up(value):
    """Ask the database, which Django refuses where an event loop runs."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s", [value])
        return cursor.fetchone()[0]


def teapot(value):
    return HttpResponse(value, status=418)


# By option: the limits, what its function makes of ?v=, and the statuses of two requests with each value.
OPTIONS: dict[str, Any] = {
    "limits": ("", str, {"1/minute": [200, 429], "": [200, 200]}),
    "key": ("1/minute", str, {"ada": [200, 429], "bob": [200, 429]}),
    "cost": ("3/minute", int, {"1": [200, 200], "2": [429, 429]}),
    "exempt_when": ("1/minute", str, {"": [200, 429], "yes": [200, 200]}),
    "deduct_when": ("1/minute", str, {"": [200, 200], "yes": [200, 429]}),
    "scope": ("1/minute", str, {"a": [200, 429], "b": [200, 429]}),
    "group": ("1/minute", str, {"c": [200, 429], "d": [200, 429]}),
    "on_breach": ("1/minute", teapot, {"tea": [200, 418]}),
    "error_message": ("1/minute", str, {"enough": [200, 429]}),
}
SETTINGS = {
    "default_limits": "limits",
    "key": "key",
    "default_limits_cost": "cost",
    "default_limits_exempt_when": "exempt_when",
    "default_limits_deduct_when": "deduct_when",
    "exempt": "exempt_when",
    "on_breach": "on_breach",
}


WITH_TWO = ("deduct_when", "scope", "group", "on_breach")
"""Options whose functions are given something before the request."""


def ordinary(option):
    """Return a function for an option that blocks."""
    convert = OPTIONS[option][1]
    if option in WITH_TWO:
        return lambda given, request: convert(look_up(request.GET["v"]))
    return lambda request: convert(look_up(request.GET["v"]))


def awaiting(option, read):
    """Return a coroutine function for an option that awaits what is read of a request."""

    async def with_one(request):
        return OPTIONS[option][1](await read(request))

    async def with_two(given, request):
        return await with_one(request)

    return with_two if option in WITH_TWO else with_one


def coroutine(option):
    """Return a coroutine function for an option that asks the database."""
    return awaiting(option, lambda request: sync_to_async(look_up)(request.GET["v"]))


class Login(MiddlewareMixin):
    """Gives requests a user who is fetched from the database when it is first read, as Django's own does."""

    def process_request(self, request):
        request.user = SimpleLazyObject(lambda: User(look_up(request.GET["v"])))


class User(NamedTuple):
    pk: str
    is_active: bool = True
    is_authenticated: bool = True


LOGIN = [f"{__name__}.Login"]


def of_user(option):
    """Return a coroutine function for an option that reads the user."""

    async def read_user(request):
        return request.user.pk

    return awaiting(option, read_user)


functions = pytest.mark.parametrize("function_for", [ordinary, coroutine, of_user])


def check(client, path, option):
    """Check the statuses of requests one after the other, and what a refusal says."""
    expected = OPTIONS[option][2]

    async def ask():
        return [await client.get(path, {"v": value}) for value in expected for _ in range(2)]

    if isinstance(client, AsyncClient):
        answers = asyncio.run(ask())
    else:
        answers = [client.get(path, {"v": value}) for value in expected for _ in range(2)]
    found = [each.status_code for each in answers]
    assert (option, found) == (option, [status for some in expected.values() for status in some])
    if option in ("on_breach", "error_message"):
        assert next(iter(expected)) in answers[1].content.decode()


class AsyncPage(View):
    async def get(self, request):
        return HttpResponse()


def async_page_of(*limits):
    page = type(f"Page{next(numbers)}", (AsyncPage,), {"__module__": __name__})
    return method_decorator(list(limits), name="dispatch")(page).as_view()


@functions
@pytest.mark.parametrize("make", [view_of, async_view_of, async_page_of])
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_what_functions_of_decorators_look_up_holds(either, function_for, make, client):
    limits = {
        name: rate_limit(function_for(name))
        if name == "limits"
        else rate_limit(first, **{name: function_for(name)})
        for name, (first, *_) in OPTIONS.items()
    }
    served = either(*(path(name, make(limit)) for name, limit in limits.items()), before=LOGIN, client=client)
    for name in limits:
        check(served, f"/{name}", name)


@functions
@pytest.mark.parametrize("make", [view_of, async_view_of])
@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("key", SETTINGS)
def test_what_functions_of_the_setting_look_up_holds(serve, key, function_for, make, client):
    option = SETTINGS[key]
    given = {"default_limits": OPTIONS[option][0], key: function_for(option)}
    check(serve(path("", make()), before=LOGIN, client=client, **given), "/", option)


@functions
@pytest.mark.parametrize("option", ["limits", "key", "cost", "exempt_when", "deduct_when"])
def test_what_functions_of_throttles_look_up_holds(serve, option, function_for):
    given = {"limits": OPTIONS[option][0], option: staticmethod(function_for(option))}
    throttle = type(f"Throttle{option}", (OverlimitThrottle,), given)

    class Api(APIView):
        throttle_classes = (throttle,)

        def get(self, request):
            return Response()

    check(serve(path("", Api.as_view()), before=LOGIN), "/", option)


@functions
def test_many_requests_at_once_are_counted_exactly_and_do_not_hold_up_the_loop(serve, function_for):
    limit = rate_limit("5/minute", key=function_for("key"), cost=function_for("cost"))
    client = serve(path("", async_view_of(limit)), before=LOGIN, client=AsyncClient)

    async def ask():
        return await asyncio.gather(*(client.get("/", {"v": "1"}) for _ in range(20)))

    assert sorted(each.status_code for each in asyncio.run(ask())) == [200] * 5 + [429] * 15


async def plan_of(request):
    return "2/minute"


@pytest.mark.parametrize("limits", ["2/minute", plan_of])
def test_no_thread_is_asked_unless_a_function_may_block(serve, limits):
    serve()
    view = async_view_of(rate_limit(limits, key="ip", error_message=plan_of))
    freed = threading.Event()

    async def ask():
        busy = asyncio.create_task(sync_to_async(freed.wait)())  # the only thread that there is for all
        await asyncio.sleep(0)
        request = RequestFactory().get("/")
        try:
            answers = [await asyncio.wait_for(view(request), 30) for _ in range(3)]
        finally:
            freed.set()
            await busy
        return [each.status_code for each in answers]

    assert asyncio.run(ask()) == [200, 200, 429]


def test_a_coroutine_function_is_awaited_on_the_loop_of_the_request(serve):
    loops = []

    async def key(request):
        loops.append(asyncio.get_running_loop())
        return "x"

    paths = (
        path("a", async_view_of(rate_limit("1/minute", key=key))),
        path("b", view_of(rate_limit("1/minute", key=key))),
    )
    client = serve(*paths, client=AsyncClient)

    async def ask():
        asked = [(await client.get(f"/{each}")).status_code for each in "aabb"]
        return asked, loops == [asyncio.get_running_loop()] * 4

    assert asyncio.run(ask()) == ([200, 429, 200, 429], True)


def test_a_coroutine_function_is_awaited_anew_for_each_decision_of_a_request(serve):
    asked = []

    async def key(request):
        asked.append(request)
        return len(asked)

    item = async_view_of(rate_limit("1/minute", key=key))

    async def batch(request):
        return HttpResponse([(await item(request)).status_code for _ in range(2)])

    client = serve(path("", batch), client=AsyncClient)
    assert asyncio.run(client.get("/")).content == b"200200"
    assert len(asked) == 2


def test_an_exemption_is_asked_once(serve):
    asked = []

    def is_member(request):
        asked.append(request)
        return len(asked) % 2  # another answer at each call

    client = serve(path("", view_of(rate_limit(plan_of, exempt_when=is_member))))
    assert statuses(client, times=8) == [200] * 5 + [429] + [200] + [429]
