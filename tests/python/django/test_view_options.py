"""The options of ``@rate_limit``, and what is said of wrong ones."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View

from overlimit import InvalidLimit
from overlimit.django import exempt, rate_limit

from .conftest import statuses
from .decorated import view_of


def test_methods_are_a_list_or_one(either):
    client = either(
        path("a", view_of(rate_limit("1/minute", methods=["POST", "PUT"]))),
        path("b", view_of(rate_limit("1/minute", methods="post"))),
    )
    for name in "ab":
        assert statuses(client, f"/{name}") == [200] * 3
        assert [client.post(f"/{name}").status_code for _ in range(2)] == [200, 429]
    assert client.put("/a").status_code == 429
    assert client.put("/b").status_code == 200


def test_a_rate_of_none_is_no_limit(either):
    client = either(
        path("a", view_of(rate_limit(None))),
        path("b", view_of(rate_limit(lambda request: None))),
        path("c", view_of(rate_limit(None), rate_limit("1/minute"))),
        path("d", view_of(rate_limit("1/minute"), rate_limit(None))),
    )
    for name in "ab":
        answers = [client.get(f"/{name}") for _ in range(5)]
        assert [each.status_code for each in answers] == [200] * 5
        assert answers[0].json()["allowed"] is None
    assert statuses(client, "/c") == statuses(client, "/d") == [200, 429, 429]


@pytest.mark.parametrize("make", ["sync", "async"])
def test_a_failing_view_counts_by_the_status_that_django_answers(either, make):
    from django.http import Http404

    def fail(request):
        raise Http404 if "missing" in request.GET else RuntimeError("a bug of the view")

    async def fail_async(request):
        fail(request)

    only_errors = rate_limit("2/minute", deduct_when=lambda response: response.status_code == 500)
    client = either(path("", only_errors(fail if make == "sync" else fail_async)))
    assert statuses(client, "/?missing=1", times=5) == [404] * 5
    assert statuses(client) == [500, 500, 429]


@pytest.mark.parametrize("make", ["sync", "async"])
def test_a_request_that_is_cancelled_keeps_its_charge(serve, make):
    began, goes_on = threading.Event(), threading.Event()

    def wait(request):
        began.set()
        goes_on.wait(10)
        return HttpResponse()

    async def wait_async(request):
        began.set()
        await asyncio.Event().wait()

    def never(response):
        return False

    view = rate_limit("1/minute", deduct_when=never)(wait if make == "sync" else wait_async)
    client = serve.asynchronously(path("", view))

    async def ask():
        cancelled = asyncio.ensure_future(client.get("/"))
        await asyncio.to_thread(began.wait, 10)
        cancelled.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return (await client.get("/")).status_code

    assert asyncio.run(ask()) == 429


def yields(request):
    yield False


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: rate_limit("5/minutee"), InvalidLimit, "minutee"),
        (lambda: rate_limit(""), InvalidLimit, "not a limit"),
        (rate_limit, TypeError, "write the limits first, as in rate_limit('5/minute')"),
        (lambda: rate_limit(key="ip"), TypeError, "write the limits first, as in rate_limit('5/minute')"),
        (lambda: rate_limit([]), InvalidLimit, "'5/minute'"),
        (lambda: rate_limit(key="ip", rate="5/m"), TypeError, "write the limits first"),
        (lambda: rate_limit("5/m", method="POST"), TypeError, "write methods="),
        (lambda: rate_limit("5/m", blok=False), TypeError, "did you mean 'block'"),
        (lambda: rate_limit("5/m", block="no"), TypeError, "block must be True or False"),
        (lambda: rate_limit("5/m", key="usr"), ValueError, "did you mean 'user'"),
        (lambda: rate_limit("5/m", key="heder:X-Api-Key"), ValueError, "did you mean 'header:X-Api-Key'"),
        (lambda: rate_limit("5/m", key=5), TypeError, "not 5"),
        (lambda: rate_limit("5/m", methods="PSOT"), ValueError, "did you mean 'POST'"),
        (lambda: rate_limit("5/m", methods=["OPTIONS"]), ValueError, "never limited"),
        (lambda: rate_limit("5/m", cost=-1), ValueError, "cost"),
        (lambda: rate_limit("5/m", group="a", scope="b"), TypeError, "group and scope"),
        (lambda: rate_limit("5/m", key=lambda a, b: "x"), TypeError, "cannot be called"),
        (lambda: rate_limit("5/m", exempt_when=yields), TypeError, "yields() must return its value"),
        (lambda: rate_limit("5/m", exempt_when=View), TypeError, "not the class django.views"),
        (lambda: rate_limit("5/m")(View), TypeError, "method_decorator"),
        (lambda: rate_limit("5/m")(5), TypeError, "not @rate_limit"),
        (lambda: exempt(5), TypeError, "only a view"),
    ],
    ids=range(22),
)
def test_what_is_wrong_is_said_where_it_is_written(make, error, said):
    with pytest.raises(error, match=re.escape(said)):
        make()


def detail(request, pk):
    return HttpResponse()


async def detail_async(request, pk):
    return HttpResponse()


class Page(View):
    def get(self, request):
        return HttpResponse()


def test_missing_parentheses_are_named_where_the_view_is():
    for view in (detail, detail_async, Page.get):
        with pytest.raises(TypeError, match=r"write @rate_limit\('5/minute'\), not @rate_limit") as raised:
            rate_limit(view)
        assert view.__qualname__ in str(raised.value)
    with pytest.raises(TypeError, match=r"Page is a class: write @method_decorator\(rate_limit"):
        rate_limit(Page)
    for name, decorated in (("", Page.get), ("get", Page)):
        with pytest.raises(TypeError, match=r"method_decorator\(rate_limit\('5/minute'\)\), not @method_dec"):
            method_decorator(rate_limit, name=name)(decorated)


def test_missing_parentheses_on_a_view_with_optional_arguments_are_named_by_its_first_request():
    def view(request, pk=None):
        return HttpResponse()

    with pytest.raises(TypeError, match="not @rate_limit"):
        rate_limit(view)(HttpRequest(), pk=5)


def by_route(view: str, request: HttpRequest) -> str:
    return request.resolver_match.route


@pytest.mark.parametrize(
    ("options", "second"), [({}, [429, 429]), ({"scope": by_route}, [200, 429])], ids=["by name", "by scope"]
)
@pytest.mark.parametrize("kind", ["included twice", "of one factory"])
def test_a_view_counts_by_its_name_wherever_it_is_included_unless_a_scope_says_otherwise(
    either, kind, options, second
):
    def make():
        return rate_limit("1/minute", **options)(lambda request: HttpResponse("made"))

    first = make()
    other = first if kind == "included twice" else make()
    client = either(
        path("v1/", include(([path("items", first)], "shop"), namespace="v1")),
        path("v2/", include(([path("items", other)], "shop"), namespace="v2")),
    )
    assert statuses(client, "/v1/items", 2) == [200, 429]
    assert statuses(client, "/v2/items", 2) == second
