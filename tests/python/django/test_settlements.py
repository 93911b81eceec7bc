"""What only Django has of requests that cost what they turned out to cost: throttles, and who is to await."""

from __future__ import annotations

import asyncio

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.response import Response

from overlimit.django import rate_limit, refund, settle
from overlimit.django.drf import OverlimitThrottle

from .conftest import statuses


class Tokens(OverlimitThrottle):
    limits, cost, algorithm = "1000/day", 100, "fixed_window"


@api_view(["GET"])
@throttle_classes([Tokens])
def api(request):
    def parts():
        yield "begun"
        spend()

    def spend():
        if "refund" in request.GET:
            refund(request)
        for used in request.GET.getlist("used"):
            settle(request, int(used))

    if "stream" in request.GET:
        return StreamingHttpResponse(parts())
    spend()
    return Response("ok")


@pytest.mark.every_store
@pytest.mark.parametrize("stream", ["", "&stream=1"])
def test_what_a_throttle_charges_is_settled_once_and_given_back(serve, store, stream):
    client = serve(path("", api), store=store)

    def left(query=""):
        answer = client.get(f"/?{query}{stream}")
        b"".join(answer)
        return int(answer["RateLimit"].split("r=")[1].split(";")[0])

    assert [left("used=437&used=5"), left("used=30"), left("refund=1&used=9"), left()] == [900, 463, 433, 433]


@pytest.mark.parametrize("penalty", [[100, 1000], "100, 1000"])
def test_a_setting_may_say_the_seconds_of_a_penalty(serve, clock, penalty):
    view = rate_limit("2/minute", algorithm="fixed_window")(lambda request: HttpResponse())
    client = serve(path("", view), penalty=penalty)
    for locked in ("100", "1000"):
        assert statuses(client) == [200, 200, 429]
        assert client.get("/")["Retry-After"] == locked
        clock.advance(int(locked))


def test_a_coroutine_awaits_it(serve):
    told = []

    @rate_limit("9/minute", cost=1)
    async def view(request):
        for call in (lambda: settle(request, 5), lambda: refund(request)):
            with pytest.raises(SynchronousOnlyOperation) as refused:
                call()
            told.append(str(refused.value))
        return HttpResponse()

    client = serve.asynchronously(path("", view))
    assert asyncio.run(client.get("/")).status_code == 200
    assert [text.partition("write ")[2] for text in told] == [
        "await asettle(request, used)",
        "await arefund(request)",
    ]


def test_it_is_settled_by_its_request():
    with pytest.raises(TypeError, match="the request that the view is given, not 5"):
        settle(5, 5)
