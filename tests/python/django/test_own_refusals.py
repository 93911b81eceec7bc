"""What limiters of a site's own refuse: in views, with the middleware and without, and in REST framework."""

from __future__ import annotations

from types import ModuleType

import pytest
from django.http import Http404, HttpResponse
from django.test import override_settings
from django.urls import path
from rest_framework.response import Response
from rest_framework.views import APIView

import overlimit
from overlimit import Limiter
from overlimit.django import RateLimitExceeded, rate_limit

from .conftest import OURS, statuses


def refusing(own):
    @rate_limit("9/minute")
    def view(request):
        return HttpResponse(own.throttle("somebody", timeout=0)(lambda: "ok")())

    return view


def test_a_decorated_view_may_raise_it_without_the_middleware_too(either, clock):
    client = either(path("", refusing(Limiter("1/minute", name="own", clock=clock))))
    assert statuses(client) == [200, 429, 429]
    refused = client.get("/")
    assert refused.json()["violated-policies"] == ["own"]
    assert '"own";r=0;t=6' in refused["RateLimit"]
    assert refused["RateLimit"].count(";r=") == 2
    assert 50 <= int(refused["Retry-After"]) <= 62


def own_answer(get_response):
    def middleware(request):
        return get_response(request)

    middleware.process_exception = lambda request, error: (
        HttpResponse(f"{error.decision.limit.quota} is enough", status=429)
        if isinstance(error, overlimit.RateLimitExceeded)
        else None
    )
    return middleware


def test_a_middleware_of_the_site_may_answer_it(serve, clock):
    view = refusing(Limiter("1/minute", name="own", clock=clock))
    client = serve(path("", view), middleware=(OURS, f"{__name__}.own_answer"))
    client.get("/")
    refused = client.get("/")
    assert (refused.status_code, refused.content) == (429, b"1 is enough")


def test_a_refusal_of_the_site_that_a_view_raises_keeps_its_names(either):
    @rate_limit("1/minute", block=False, name="soft")
    def view(request):
        if not request.rate_limit:
            raise RateLimitExceeded(request.rate_limit, "slowly")
        return HttpResponse()

    client = either(path("", view))
    client.get("/")
    refused = client.get("/")
    assert (refused.status_code, refused.json()["detail"]) == (429, "slowly")
    assert refused.json()["violated-policies"] == ["soft"]
    assert refused.get("RateLimit", "").count("r=") <= 1


def absent(request):
    raise Http404


def test_a_handler_of_errors_is_limited_as_a_view(either):
    @rate_limit("2/minute")
    def not_found(request, exception):
        return HttpResponse("nowhere", status=404)

    urls = ModuleType("urls")
    urls.urlpatterns, urls.handler404 = [path("absent", absent)], not_found
    for asked in ("/absent", "/nowhere"):
        client = either()
        with override_settings(ROOT_URLCONF=urls):
            assert statuses(client, asked, 4) == [404, 404, 429, 429]


@pytest.mark.parametrize("handled", [True, False])
@pytest.mark.parametrize("middleware", [(OURS,), ()])
def test_views_of_rest_framework(serve, clock, handled, middleware):
    own = Limiter("1/minute", name="own", clock=clock)

    class Page(APIView):
        def get(self, request):
            return Response(own.throttle("somebody", timeout=0)(lambda: "ok")())

    rest = {"EXCEPTION_HANDLER": "overlimit.django.drf.exception_handler"} if handled else {}
    with override_settings(REST_FRAMEWORK=rest):
        client = serve(path("", Page.as_view()), middleware=middleware)
        assert client.get("/").status_code == 200
        refused = client.get("/", headers={"Accept": "application/json"})
        if not (handled or middleware):
            assert refused.status_code == 500
            return
        assert refused.status_code == 429
        assert refused["RateLimit"].startswith('"own";r=0;t=6')
        assert 50 <= int(refused["Retry-After"]) <= 62
        assert ("throttled" in refused.json()["detail"]) == handled
        assert ("violated-policies" in refused.json()) != handled
