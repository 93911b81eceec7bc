"""Requests that cost what they turned out to cost, and penalties, in Django: as under every framework."""

from __future__ import annotations

import asyncio

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.response import Response

import overlimit.django
from overlimit import Penalty
from overlimit.django import rate_limit, refund, settle
from overlimit.django.drf import OverlimitThrottle
from settlements import (
    ESTIMATE,
    EVERYWHERE,
    LIMIT,
    REQUESTS,
    Answer,
    a_response_that_does_not_count_is_not_settled,
    actions,
    whoever_goes_over_is_locked_longer_each_time,
)


def counts(response, request):
    return response.status_code < 500


def spend(request):
    for name, *arguments in actions(request.GET):
        getattr(overlimit.django, name)(request, *arguments)


async def aspend(request):
    for name, *arguments in actions(request.GET):
        await getattr(overlimit.django, f"a{name}")(request, *arguments)


def sync_view(request):
    def parts():
        yield "begun"
        spend(request)

    if "stream" in request.GET:
        return StreamingHttpResponse(parts())
    spend(request)
    return HttpResponse("ok", status=int(request.GET.get("status", 200)))


async def async_view(request):
    async def parts():
        yield "begun"
        await aspend(request)

    if "stream" in request.GET:
        return StreamingHttpResponse(parts())
    await aspend(request)
    return HttpResponse("ok", status=int(request.GET.get("status", 200)))


def decorated(view):
    def made(limits, **options):
        return view if limits is None else rate_limit(limits, key="header:X-User", **options)(view)

    return made


def api(**options):
    class Throttle(OverlimitThrottle):
        key = "header:X-User"
        locals().update(options)

    @api_view(["GET"])
    @throttle_classes([Throttle])
    def view(request):
        if "stream" not in request.GET:
            spend(request)
            return Response("ok", status=int(request.GET.get("status", 200)))
        return sync_view(request._request)

    return view


VIEWS = {"sync": decorated(sync_view), "async": decorated(async_view), "drf": api}
EACH = pytest.mark.parametrize("kind", VIEWS)


@pytest.fixture
def make(serve, store):
    """Return a function that serves a view, and returns what asks it."""

    def made(kind, application_limits=REQUESTS, of_site=None, **more):
        view = VIEWS[kind](**{"limits": LIMIT, "cost": ESTIMATE, **more})
        site = {"store": store, "algorithm": "fixed_window", "key": "header:X-User", "penalty": of_site}
        on = serve.asynchronously if kind == "async" else serve
        client = on(path("", view), application_limits=application_limits, **site)
        return lambda user="ann", **query: ask(client, user, query)

    return made


def ask(client, user, query):
    answering = client.get("/", query, headers={"X-User": user})
    if not asyncio.iscoroutine(answering):
        b"".join(answering)
        return Answer.of(answering.status_code, answering.headers)

    async def answer():
        response = await answering
        if response.streaming:
            assert [part async for part in response] == [b"begun"]
        return Answer.of(response.status_code, response.headers)

    return asyncio.run(answer())


@EACH
@pytest.mark.every_store
@pytest.mark.parametrize("happens", EVERYWHERE, ids=lambda each: each.__name__)
def test_a_request_costs_what_its_view_says(make, kind, happens):
    happens(make(kind))


@EACH
@pytest.mark.parametrize("happens", EVERYWHERE, ids=lambda each: each.__name__)
def test_a_stream_says_what_it_has_cost_when_it_has_ended(make, kind, happens):
    happens(make(kind), stream=1)


@EACH
def test_what_does_not_count_by_the_response_is_not_settled(make, kind):
    a_response_that_does_not_count_is_not_settled(make(kind, deduct_when=counts))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_shared_code_may_settle_in_a_view_without_limits_of_its_own(make, kind):
    ask = make(kind, limits=None)
    assert ask(used=5).status == 200
    assert ask().left == {50: 48}


@pytest.mark.parametrize("kind", ["sync", "drf"])
def test_a_view_whose_limits_have_no_cost_cannot_be_settled(make, kind):
    ask = make(kind, cost=None)
    assert ask(used=5).status == 500
    assert ask().left == {1000: 998, 50: 48}


@EACH
@pytest.mark.parametrize("of", ["view", "site"])
def test_a_penalty_locks_longer_each_time(make, kind, of, clock):
    began, penalty = clock.now(), Penalty([100, 1000])
    own, site = ({"penalty": penalty}, None) if of == "view" else ({}, penalty)
    ask = make(kind, None, site, limits="2/minute", cost=1, **own)
    whoever_goes_over_is_locked_longer_each_time(ask, lambda seconds: clock.set(began + seconds))


@pytest.mark.parametrize("penalty", [[100, 1000], "100, 1000"])
def test_a_setting_may_say_the_seconds_of_a_penalty(make, clock, penalty):
    ask = make("sync", None, penalty, limits="2/minute", cost=1)
    whoever_goes_over_is_locked_longer_each_time(ask, lambda seconds: clock.set(1_700_000_000 + seconds))


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
