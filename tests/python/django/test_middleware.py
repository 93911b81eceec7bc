"""The middleware: the limits of the site, what it writes into responses, and which settings it reads."""

from __future__ import annotations

import asyncio

from django.http import Http404, HttpResponse
from django.urls import include, path
from django.views import View

from overlimit.django import rate_limit

from .conftest import OURS, statuses


def plain(request, **kwargs):
    return HttpResponse("plain")


def missing(request):
    raise Http404


def fails(request):
    raise RuntimeError("a bug of the view")


@rate_limit("1/minute")
def limited(request):
    return HttpResponse("limited")


class Page(View):
    def get(self, request):
        return HttpResponse("page")

    @rate_limit("1/minute")
    def post(self, request):
        return HttpResponse("posted")


def test_a_method_without_a_decorator_has_the_default_limits(serve):
    client = serve(path("", Page.as_view()), default_limits="2/minute")
    assert statuses(client) == [200, 200, 429]
    assert [client.post("/").status_code for _ in range(2)] == [200, 429]


def test_limits_of_patterns_of_urls_go_by_views(serve):
    routes = [path("x/<int:number>", plain)]
    client = serve(path("a/", include(routes)), path("b/", include(routes)), default_limits="2/minute")
    asked = [client.get(each).status_code for each in ("/a/x/1", "/b/x/2", "/a/x/3")]
    assert asked == [200, 200, 429]


def test_exempt_requests_are_not_limited(serve):
    client = serve(
        path("a/x", plain),
        path("b", limited),
        path("c", plain),
        application_limits="1/minute",
        exempt=["/a/*", "POST /b"],
    )
    assert statuses(client, "/a/x") == [200] * 3
    assert [client.post("/b").status_code for _ in range(3)] == [200] * 3
    assert [client.get("/b").status_code for _ in range(2)] == [200, 429]
    assert client.get("/c").status_code == 429
    with_user = f"{__name__}.WithUser"
    client = serve(
        path("", plain),
        default_limits="1/minute",
        exempt=lambda request: request.user == "vip",
        middleware=[OURS, with_user],
    )
    assert statuses(client, headers={"X-User": "vip"}) == [200] * 3
    assert statuses(client) == [200, 429, 429]


def test_every_response_carries_the_fields(serve):
    client = serve(path("a", missing), path("b", fails), path("c", limited), default_limits="5/minute")
    assert client.get("/a")["RateLimit"].startswith('"default";r=4')
    failed = client.get("/b")
    assert (failed.status_code, failed["RateLimit"][:13]) == (500, '"default";r=4')
    assert "RateLimit" not in client.get("/nowhere")


def test_the_middleware_may_stand_anywhere(serve):
    for order in (
        [OURS, "django.middleware.common.CommonMiddleware"],
        ["django.middleware.common.CommonMiddleware", OURS],
    ):
        client = serve(path("a/", plain), default_limits="1/minute", middleware=order)
        assert client.get("/a").status_code == 301
        assert [client.get("/a/").status_code for _ in range(2)] == [200, 429]


def test_it_works_above_a_middleware_that_is_not_async(serve):
    client = serve.asynchronously(
        path("", plain), default_limits="2/minute", middleware=[OURS, f"{__name__}.only_sync", OURS]
    )

    async def ask():
        return [await client.get("/") for _ in range(3)]

    answers = asyncio.run(ask())
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[0]["RateLimit"].startswith('"default";r=1')


class WithUser:
    def __init__(self, get_response):
        self._get_response = get_response

    def __call__(self, request):
        request.user = request.headers.get("X-User")
        return self._get_response(request)


def only_sync(get_response):
    def middleware(request):
        return get_response(request)

    return middleware
