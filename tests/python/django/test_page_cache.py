"""Django's page cache: what was left to one client is kept for no other, wherever the cache stands."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from django.core.cache import cache
from django.core.checks import run_checks
from django.http import HttpResponse
from django.template.backends.django import DjangoTemplates
from django.template.response import TemplateResponse
from django.test import AsyncClient
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from rest_framework.response import Response
from rest_framework.views import APIView

from overlimit.django import rate_limit
from overlimit.django.drf import OverlimitThrottle

from .conftest import OURS, statuses
from .decorated import async_view_of, numbers, view_of

UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
BEFORE, AFTER = [OURS, UPDATE, FETCH], [UPDATE, OURS, FETCH]


@pytest.fixture(autouse=True)
def empty_cache():
    cache.clear()


class Burst(OverlimitThrottle):
    limits = "5/minute"
    key = "ip"


class Api(APIView):
    throttle_classes = (Burst,)
    pages = count()

    def get(self, request):
        return Response(next(self.pages))


def page_of(request, pages=count()):  # noqa: B008 - one for all
    return HttpResponse(next(pages))


def plain():
    return view_of(view=page_of)


def decorated():
    return view_of(rate_limit("5/minute"), view=page_of)


def decorated_async():
    return async_view_of(rate_limit("5/minute"))


VIEWS = {"plain": plain, "decorated": decorated, "async": decorated_async, "throttled": Api.as_view}


def left(answer):
    """Return what a response says is left, None where it says nothing."""
    assert answer.status_code == 200
    return int(answer["RateLimit"].split(";")[1].removeprefix("r=")) if "RateLimit" in answer else None


def shown(client, *addresses, path="/"):
    """Return what is shown to requests one after the other, and whether a page was kept."""
    answers = [client.get(path, REMOTE_ADDR=each) for each in addresses]
    return [left(each) for each in answers], len({each.content for each in answers}) < len(answers)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("middleware", "first"),
    [(BEFORE, 4), (AFTER, None), ([UPDATE, FETCH], None)],
    ids=["before", "after", "alone"],
)
def test_a_kept_page_says_nothing_of_the_client_it_was_made_for(serve, view, middleware, first):
    client = serve(path("", VIEWS[view]()), middleware=middleware, key="ip", default_limits="5/minute")
    fields, kept = shown(client, "192.0.2.1", "192.0.2.2", "192.0.2.1")
    assert kept
    assert fields == [first, None, None]


def is_free(request):
    return request.META["REMOTE_ADDR"] == "192.0.2.9"


LIMIT, CACHE = rate_limit("5/minute", exempt_when=is_free), cache_page(60)
TEMPLATE = DjangoTemplates({"NAME": "pages", "DIRS": [], "APP_DIRS": False, "OPTIONS": {}}).from_string(
    "{{ n }}"
)


class BurstOfMost(Burst):
    exempt_when = is_free


def template_page(*decorators):
    return view_of(
        *decorators, view=lambda request: TemplateResponse(request, TEMPLATE, {"n": next(Api.pages)})
    )


def api_page(*decorators, throttles=(), on_dispatch=()):
    """Return a view of REST framework, decorated from the inside to the outside."""
    method = method_decorator(list(reversed(decorators)))(Api.get) if decorators else Api.get
    kind = type(f"Api{next(numbers)}", (Api,), {"get": method, "throttle_classes": throttles})
    return method_decorator(on_dispatch, name="dispatch")(kind).as_view()


RENDERED_LATER = {
    "template, limit above": (lambda: template_page(CACHE, LIMIT), True),
    "template, cache above": (lambda: template_page(LIMIT, CACHE), False),
    "method, limit above": (lambda: api_page(CACHE, LIMIT), True),
    "method, cache above": (lambda: api_page(LIMIT, CACHE), False),
    "method, throttle": (lambda: api_page(CACHE, throttles=(BurstOfMost,)), True),
    "method, limit on dispatch": (lambda: api_page(CACHE, on_dispatch=[LIMIT]), True),
    "dispatch, throttle": (lambda: api_page(throttles=(BurstOfMost,), on_dispatch=[CACHE]), False),
    "view, limit above": (lambda: LIMIT(CACHE(api_page())), True),
    "view, cache above": (lambda: CACHE(LIMIT(api_page())), False),
}


@pytest.mark.parametrize("view", RENDERED_LATER)
@pytest.mark.parametrize(
    ("middleware", "first", "within"),
    [((), None, 4), ((OURS,), 4, 4), (BEFORE, 4, None), (AFTER, None, None), ((UPDATE, FETCH), None, None)],
)
def test_a_page_that_is_rendered_later_is_kept_without_fields(serve, view, middleware, first, within):
    """Limits above a cache decide every request that no cache of the site answers, and show it its fields."""
    make, is_above = RENDERED_LATER[view]
    client = serve(path("", make()), middleware=middleware, key="ip")
    fields, kept = shown(client, "192.0.2.1", "192.0.2.2", "192.0.2.9")
    assert kept
    assert fields == ([within or first, within, None] if is_above else [first, None, None])


def test_a_response_that_is_rendered_later_shows_the_fields_then(either):
    async def page(request):
        return TemplateResponse(request, TEMPLATE, {"n": 1})

    client = either(path("", template_page(LIMIT)), path("async", LIMIT(page)), key="ip")
    assert [left(client.get(each)) for each in ("/", "/", "/async")] == [4, 3, 4]


@pytest.mark.parametrize("view", ["plain", "decorated", "async"])
@pytest.mark.parametrize(("middleware", "first"), [(BEFORE, 4), (AFTER, None)], ids=["before", "after"])
def test_the_same_holds_on_an_event_loop(serve, view, middleware, first):
    given = {"middleware": middleware, "key": "ip", "default_limits": "5/minute"}
    client = serve(path("", VIEWS[view]()), client=AsyncClient, **given)
    answers = [asyncio.run(client.get("/")) for _ in range(2)]
    assert [left(each) for each in answers] == [first, None]


@pytest.mark.parametrize("view", ["decorated", "throttled"])
def test_a_view_that_is_kept_shows_what_the_middleware_around_it_decides(serve, view):
    kept = cache_page(60)(VIEWS[view]())
    middleware = serve(path("", kept), key="ip")
    assert shown(middleware, "192.0.2.1", "192.0.2.2") == ([4, None], True)
    cache.clear()
    alone = serve(path("", cache_page(60)(VIEWS[view]())), middleware=(), key="ip")
    assert shown(alone, "192.0.2.1", "192.0.2.2") == ([None, None], True)


def test_a_decorator_above_the_cache_decides_every_request(either):
    view = view_of(cache_page(60), rate_limit("3/minute"), view=page_of)
    client = either(path("", view), key="ip")
    assert shown(client, "192.0.2.1", "192.0.2.2", "192.0.2.1") == ([2, 2, 1], True)
    assert statuses(client, times=4, REMOTE_ADDR="192.0.2.1") == [200, 429, 429, 429]


def test_the_limits_of_the_site_decide_a_view_that_is_kept(serve):
    client = serve(path("", cache_page(60)(plain())), key="ip", default_limits="3/minute")
    assert shown(client, "192.0.2.1", "192.0.2.2", "192.0.2.1") == ([2, 2, 1], True)


@pytest.mark.parametrize("middleware", [BEFORE, AFTER, [UPDATE, FETCH]])
def test_a_refusal_is_kept_for_nobody(serve, middleware):
    def slow_down(decision):
        return HttpResponse("slow down")  # which is a 200

    view = view_of(rate_limit("1/minute", on_breach=slow_down), view=page_of)
    client = serve(path("", view), middleware=middleware, key="ip")
    assert client.get("/?a", REMOTE_ADDR="192.0.2.1").content != b"slow down"
    refused = client.get("/", REMOTE_ADDR="192.0.2.1")
    assert refused.content == b"slow down"
    assert refused["Cache-Control"] == "no-store"
    assert client.get("/", REMOTE_ADDR="192.0.2.2").content != b"slow down"


def test_an_error_shows_the_fields_under_any_cache(serve):
    client = serve(path("", decorated()), middleware=AFTER, key="ip")
    assert statuses(client, "/?x", times=1) == [200]
    refused = [client.get(f"/?{number}") for number in range(5)][-1]
    assert refused.status_code == 429
    assert ";r=0;" in refused["RateLimit"]
    assert refused["Cache-Control"] == "no-store"


def test_the_order_that_keeps_fields_is_reported(serve):
    serve(path("", plain()), middleware=BEFORE)
    assert run_checks(tags=["overlimit"]) == []
    serve(path("", plain()), middleware=AFTER)
    (found,) = run_checks(tags=["overlimit"])
    assert found.id == "overlimit.W005"
    assert UPDATE in found.msg
    assert f"Write '{OURS}' before it" in found.hint
