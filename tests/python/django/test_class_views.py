"""``@rate_limit`` on classes of views: on ``dispatch``, on methods, and on both."""

from __future__ import annotations

import asyncio
import re

import django
import pytest
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from overlimit.django import exempt, rate_limit
from overlimit.django.site import site
from overlimit.django.views import shown_name
from overlimit.http.rules.count_names import policy_name

from .conftest import statuses
from .decorated import told


@method_decorator(rate_limit("2/minute"), name="dispatch")
class Page(View):
    def get(self, request):
        return told(request)

    post = get


class SubPage(Page):
    pass


@method_decorator(rate_limit("2/minute"), name="dispatch")
class AsyncPage(View):
    async def get(self, request):
        return told(request)


class OneMethod(View):
    def get(self, request):
        return told(request)

    @method_decorator([rate_limit("2/minute"), rate_limit("3/hour")])
    def post(self, request):
        return told(request)

    @rate_limit("1/minute")
    def put(self, request):
        return told(request)


class AsyncMethod(View):
    @rate_limit("2/minute")
    async def get(self, request):
        return told(request)


def test_a_class_of_views_counts_by_its_class(either):
    views = {"a": Page, "b": Page, "c": SubPage, "d": OneMethod}
    client = either(*(path(name, view.as_view()) for name, view in views.items()))
    asked = client.get("/a"), client.post("/b"), client.get("/a"), client.get("/c"), client.put("/d")
    assert [each.status_code for each in asked] == [200, 200, 429, 200, 200]
    shown = [re.findall('(?:^|, )"([^"]+)', answer["RateLimit-Policy"]) for answer in asked]
    assert shown == [["Page"], ["Page"], ["Page"], ["SubPage"], ["OneMethod.put"]]
    assert asked[2].json()["violated-policies"] == ["Page"]
    counted = {limiter.name for limiter in site().rate_limit.limiters()}
    names = [f"{__name__}.{name}" for name in ("Page", "SubPage", "OneMethod.put")]
    assert counted == {policy_name("route", name, "1") for name in names}


@pytest.mark.parametrize(
    ("dotted", "shown"),
    [
        (f"{__name__}.index", "index"),
        (f"{__name__}.Page.post", "Page.post"),
        (f"{__name__}.make.<locals>.view", "view"),
        (f"{__name__}.make.<locals>.Page.post", "Page.post"),
        ("nowhere.views.index", "index"),
        ("index", "index"),
    ],
)
def test_clients_are_not_shown_where_a_view_is(dotted, shown):
    assert shown_name(dotted) == shown


@pytest.mark.parametrize("page", [AsyncPage, AsyncMethod])
def test_an_async_class_of_views_is_awaited(either, page):
    client = either(path("", page.as_view()))
    assert statuses(client) == [200, 200, 429]


class AsyncMethodOfDjango(View):
    @method_decorator(rate_limit("2/minute"))
    async def get(self, request):
        return told(request)


of_django = pytest.mark.skipif(
    django.VERSION < (5, 2), reason="method_decorator knows no coroutine functions"
)


@pytest.mark.parametrize(
    "page", [AsyncPage, AsyncMethod, Page, pytest.param(AsyncMethodOfDjango, marks=of_django)]
)
def test_classes_of_views_are_limited_on_an_event_loop(serve, page):
    client = serve.asynchronously(path("", page.as_view()))

    async def ask():
        return [(await client.get("/")).status_code for _ in range(3)]

    assert asyncio.run(ask()) == [200, 200, 429]


def test_methods_of_a_class_are_limited_alone(either):
    client = either(path("", OneMethod.as_view()))
    assert statuses(client, times=5) == [200] * 5
    assert [client.post("/").status_code for _ in range(3)] == [200, 200, 429]
    assert [client.put("/").status_code for _ in range(2)] == [200, 429]
    assert client.post("/")["RateLimit-Policy"].count(";q=") == 2


@method_decorator(rate_limit("3/hour"), name="dispatch")
class Nested(View):
    @method_decorator(rate_limit("1/minute", algorithm="fixed_window"))
    def get(self, request):
        return told(request)


def test_what_a_method_refuses_its_class_is_not_charged_for(either, clock):
    client = either(path("", Nested.as_view()))
    for _ in range(3):
        assert statuses(client) == [200, 429, 429]
        clock.advance(60)
    assert statuses(client) == [429] * 3


def test_both_decorators_of_a_class_are_one_decision(either):
    @method_decorator(rate_limit("3/hour"), name="dispatch")
    @method_decorator(rate_limit("1/minute"), name="dispatch")
    class Stacked(View):
        def get(self, request):
            return told(request)

    client = either(path("", Stacked.as_view()))
    assert statuses(client) == [200, 429, 429]
    assert client.get("/")["RateLimit-Policy"].count(";q=") == 2


def test_an_exempt_class_is_not_limited(either):
    client = either(
        path("a", exempt(type("Exempt", (Page,), {})).as_view()),
        path("b", method_decorator(exempt, name="dispatch")(type("Exempt2", (Page,), {})).as_view()),
        path("c", Page.as_view()),
    )
    assert statuses(client, "/a") == statuses(client, "/b") == [200] * 3
    assert statuses(client, "/c") == [200, 200, 429]


class DecoratedMethods(View):
    def get(self, request):
        return told(request)

    @rate_limit("50/hour", override_defaults=False)
    def post(self, request):
        return told(request)

    @rate_limit("50/hour", override_defaults=False)
    def put(self, request):
        return told(request)


@pytest.mark.parametrize("limits", [{"DEFAULT_LIMITS": "2/minute"}, {"APPLICATION_LIMITS": "2/minute"}])
def test_limits_of_the_site_count_a_class_whatever_decorators_its_methods_have(serve, limits):
    client = serve(path("", DecoratedMethods.as_view()), **limits)
    assert client.get("/").status_code == client.post("/").status_code == 200
    assert [client.generic(method, "/").status_code for method in ("GET", "POST", "PUT")] == [429] * 3
