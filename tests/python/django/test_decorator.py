"""``@rate_limit`` on every kind of view: who is refused, what is charged, and what the view is told."""

from __future__ import annotations

import asyncio
import itertools
import json

import django
import pytest
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from overlimit import InvalidLimit
from overlimit.django import by_header, exempt, rate_limit

from .conftest import statuses

numbers = itertools.count()


def told(request, **more):
    """Answer with what the view was told."""
    decision = getattr(request, "rate_limit", None)
    return JsonResponse({"allowed": None if decision is None else bool(decision), **more})


def view_of(*decorators, view=told):
    """Return a view of its own, decorated from the inside to the outside."""

    def decorated(request, **kwargs):
        return view(request, **kwargs)

    decorated.__qualname__ = f"view_{next(numbers)}"
    for decorate in decorators:
        decorated = decorate(decorated)
    return decorated


def async_view_of(*decorators):
    async def decorated(request):
        return told(request)

    decorated.__qualname__ = f"async_view_{next(numbers)}"
    for decorate in decorators:
        decorated = decorate(decorated)
    return decorated


def test_a_view_is_refused_with_a_429_that_says_when_to_come_back(either, clock):
    client = either(path("", view_of(rate_limit("2/minute", algorithm="fixed_window"))))
    assert statuses(client) == [200, 200, 429]
    clock.advance(20)
    refused = client.get("/")
    wait = int(refused["Retry-After"])
    assert refused["Content-Type"] == "application/problem+json"
    assert json.loads(refused.content)["status"] == 429
    assert refused["RateLimit"].endswith(f";r=0;t={wait}")
    clock.advance(wait - 1)
    assert statuses(client, times=1) == [429]
    clock.advance(1)
    assert statuses(client) == [200, 200, 429]


def test_a_browser_gets_a_page(either):
    client = either(path("", view_of(rate_limit("0/minute"))))
    refused = client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (refused.status_code, refused["Content-Type"], refused["Vary"]) == (429, "text/html", "Accept")
    assert b"<h1>Too Many Requests</h1>" in refused.content
    assert "Retry-After" not in refused  # which never helps here


def test_fields_are_on_what_passes_too(either):
    client = either(path("", view_of(rate_limit("2/minute", name="login"))), headers="both")
    passed = client.get("/")
    assert passed["RateLimit-Policy"].startswith('"login";q=2;w=6')
    assert passed["RateLimit"].startswith('"login";r=1;t=')
    assert (passed["X-RateLimit-Limit"], passed["X-RateLimit-Remaining"]) == ("2", "1")
    without = either(path("", view_of(rate_limit("2/minute"))), headers=None)
    assert not {"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit"} & set(without.get("/").headers)


def test_an_async_view_is_awaited(either):
    client = either(path("", async_view_of(rate_limit("2/minute"))))
    assert statuses(client) == [200, 200, 429]
    assert client.get("/").status_code == 429


@pytest.mark.parametrize("make", [view_of, async_view_of])
def test_views_are_limited_on_an_event_loop(serve, make):
    client = serve.asynchronously(path("", make(rate_limit("2/minute"))))

    async def ask():
        return [await client.get("/") for _ in range(3)]

    answers = asyncio.run(ask())
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert all("RateLimit" in each for each in answers)


def test_without_block_the_view_is_called_and_finds_the_refusal(either):
    client = either(path("", view_of(rate_limit("2/minute", block=False))), headers="both")
    answers = [client.get("/") for _ in range(4)]
    assert [each["X-RateLimit-Remaining"] for each in answers] == ["1", "0", "0", "0"]
    assert [each.status_code for each in answers] == [200] * 4
    assert [each.json()["allowed"] for each in answers] == [True, True, False, False]
    assert all("Retry-After" not in each for each in answers)
    assert ";r=0;t=" in answers[3]["RateLimit"]


def test_a_429_of_the_view_itself_gets_the_time_of_the_refusal(either):
    def view(request):
        return HttpResponse(status=200 if request.rate_limit else 429)

    client = either(path("", view_of(rate_limit("1/minute", block=False), view=view)))
    answers = [client.get("/") for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert 50 <= int(answers[1]["Retry-After"]) <= 62


def test_without_block_other_limits_are_still_charged_and_refuse(either):
    free = rate_limit("1/minute", block=False)
    client = either(path("", view_of(free, rate_limit("3/hour"))))
    answers = [client.get("/") for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert [each.json()["allowed"] for each in answers[:3]] == [True, False, False]


def test_without_block_nothing_is_logged_as_a_shadow(either, caplog):
    client = either(path("", view_of(rate_limit("1/minute", block=False))))
    statuses(client)
    assert "in shadow" not in caplog.text
    client = either(path("", view_of(rate_limit("1/minute", shadow=True))))
    assert statuses(client) == [200] * 3
    assert "in shadow" in caplog.text


def test_stacked_decorators_are_one_decision_that_charges_nowhere_if_it_refuses(either, clock):
    inner = rate_limit("5/hour", algorithm="fixed_window")
    client = either(path("", view_of(inner, rate_limit("1/second", algorithm="fixed_window"))))
    for _ in range(5):
        assert statuses(client) == [200, 429, 429]
        clock.advance(1)
    assert statuses(client) == [429] * 3
    assert client.get("/")["RateLimit-Policy"].count(";q=") == 2


def test_the_view_is_told_of_the_refusal_of_several(either):
    limits = rate_limit("5/hour", block=False), rate_limit("1/minute", block=False)
    client = either(path("", view_of(*limits)))
    assert [client.get("/").json()["allowed"] for _ in range(3)] == [True, False, False]


def test_a_view_counts_by_its_name_and_not_by_its_decoration(either):
    def view(request):
        return told(request)

    limit = rate_limit("2/minute")
    client = either(path("a", limit(view)), path("b", limit(view)), path("c", rate_limit("2/minute")(view)))
    assert [client.get(f"/{name}").status_code for name in "abc"] == [200, 200, 429]
    other = either(path("a", limit(view)), path("b", limit(view_of())))
    assert [other.get(f"/{name}").status_code for name in "aabb"] == [200] * 4


def test_another_rate_of_the_same_period_keeps_the_count(either, store):
    def view(request):
        return told(request)

    client = either(path("", rate_limit("3/minute")(view)), store=store)
    assert statuses(client, times=2) == [200, 200]
    client = either(path("", rate_limit("4/minute")(view)), store=store)
    assert statuses(client) == [200, 200, 429]


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


def test_head_counts_as_get_and_options_is_free(either):
    client = either(path("", view_of(rate_limit("1/minute", methods="GET"))))
    assert client.head("/").status_code == 200
    assert client.get("/").status_code == 429
    assert [client.options("/").status_code for _ in range(3)] == [200] * 3


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


def test_a_rate_may_be_a_function_of_the_request(either):
    def rate(request):
        return {"many": "3/minute", "none": None}.get(request.GET["rate"], "1/minute")

    client = either(path("", view_of(rate_limit(rate))))
    assert statuses(client, "/?rate=one") == [200, 429, 429]
    assert statuses(client, "/?rate=none", times=5) == [200] * 5
    assert statuses(client, "/?rate=many") == [200, 200, 429]  # the same period, and one was spent


def test_functions_need_not_take_the_request(either):
    client = either(path("", view_of(rate_limit(lambda: "4/minute", key=lambda: "all", cost=lambda: 2))))
    assert statuses(client) == [200, 200, 429]


def test_costs_exemptions_and_scopes_are_given_the_request(either):
    client = either(
        path("cost", view_of(rate_limit("6/minute", cost=lambda request: int(request.GET["cost"])))),
        path("free", view_of(rate_limit("1/minute", exempt_when=lambda request: "vip" in request.GET))),
        path("by", view_of(rate_limit("1/minute", scope=lambda view, request: request.GET["scope"]))),
    )
    assert statuses(client, "/cost?cost=3") == [200, 200, 429]
    assert statuses(client, "/free?vip=1") == [200] * 3
    assert statuses(client, "/free") == [200, 429, 429]
    assert statuses(client, "/by?scope=a") == statuses(client, "/by?scope=b") == [200, 429, 429]


def test_a_request_that_does_not_count_is_refunded(either):
    def view(request):
        return HttpResponse(status=int(request.GET["status"]))

    only_failures = rate_limit("2/minute", deduct_when=lambda response: response.status_code == 401)
    client = either(path("", view_of(only_failures, view=view)))
    assert statuses(client, "/?status=200", times=5) == [200] * 5
    assert statuses(client, "/?status=401") == [401, 401, 429]


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


def test_error_messages_and_hooks_answer_a_refusal(either):
    def teapot(decision, request):
        return HttpResponse(f"{request.path} {decision.status}", status=418)

    def busy(decision):
        return HttpResponse("busy", status=503)

    client = either(
        path("text", view_of(rate_limit("0/minute", error_message=lambda request: f"no {request.path}"))),
        path("hook", view_of(rate_limit("1/minute", cost=1, on_breach=teapot))),
        path("busy", view_of(rate_limit("1/minute", on_breach=busy))),
    )
    assert client.get("/text").json()["detail"] == "no /text"
    assert [client.get("/hook").content for _ in range(2)][1] == b"/hook over"
    refused = [client.get("/busy") for _ in range(2)][1]
    assert (refused.status_code, refused.content) == (503, b"busy")
    assert 50 <= int(refused["Retry-After"]) <= 62
    assert "RateLimit" in refused


def test_views_of_a_group_count_together(either):
    client = either(
        path("a", view_of(rate_limit("2/minute", group="login"))),
        path("b", async_view_of(rate_limit("2/minute", group=lambda view: "login"))),
        path("c", view_of(rate_limit("2/minute", group="other"))),
    )
    assert [client.get(f"/{name}").status_code for name in "abacc"] == [200, 200, 429, 200, 200]


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
    client = either(path("a", Page.as_view()), path("b", Page.as_view()), path("c", SubPage.as_view()))
    asked = client.get("/a"), client.post("/b"), client.get("/a"), client.get("/c")
    assert [each.status_code for each in asked] == [200, 200, 429, 200]
    assert f"{Page.__module__}.Page" in asked[0]["RateLimit"]
    assert f"{Page.__module__}.SubPage" in asked[3]["RateLimit"]


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


def test_an_exempt_view_is_not_limited(either):
    client = either(
        path("a", exempt(view_of(rate_limit("1/minute")))),
        path("b", view_of(exempt, rate_limit("1/minute"))),
        path("c", exempt(async_view_of(rate_limit("1/minute")))),
        path("d", exempt(type("Exempt", (Page,), {})).as_view()),
        path("f", method_decorator(exempt, name="dispatch")(type("Page2", (Page,), {})).as_view()),
        path("e", view_of(rate_limit("1/minute"))),
    )
    for name in "abcdf":
        assert statuses(client, f"/{name}") == [200] * 3
    assert statuses(client, "/e") == [200, 429, 429]


def test_decorated_functions_that_a_view_calls_decide_by_themselves(either):
    @rate_limit("1/minute")
    def inner(request):
        return told(request)

    client = either(path("a", view_of(view=inner)), path("b", view_of(rate_limit("2/minute"), view=inner)))
    assert statuses(client, "/a") == [200, 429, 429]
    assert client.get("/b").status_code == 429


def test_a_view_that_goes_on_after_a_refusal_is_charged_for_what_it_did(either):
    @rate_limit("3/minute")
    def item(request):
        return HttpResponse()

    def batch(request):
        return JsonResponse([item(request).status_code for _ in range(2)], safe=False)

    client = either(path("", batch))
    assert [client.get("/").json() for _ in range(3)] == [[200, 200], [200, 429], [429, 429]]


def test_whom_a_decorator_above_turns_away_spends_nothing(either):
    def members_only(view):
        def checked(request):
            return view(request) if "member" in request.GET else HttpResponse(status=403)

        return checked

    client = either(path("", view_of(rate_limit("1/minute"), members_only)))
    assert statuses(client, times=5) == [403] * 5
    assert statuses(client, "/?member=1") == [200, 429, 429]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: rate_limit("5/minutee"), InvalidLimit, "minutee"),
        (lambda: rate_limit(""), InvalidLimit, "not a limit"),
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
        (lambda: rate_limit("5/m")(Page), TypeError, "method_decorator"),
        (lambda: rate_limit("5/m")(5), TypeError, "not @rate_limit"),
        (lambda: exempt(5), TypeError, "only a view"),
    ],
    ids=range(18),
)
def test_what_is_wrong_is_said_where_it_is_written(make, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        make()


def test_a_coroutine_function_as_a_key_is_an_error():
    async def key(request):
        return "x"

    with pytest.raises(TypeError, match="would never be awaited"):
        rate_limit("5/minute", key=key)


def test_a_limited_function_needs_a_request():
    with pytest.raises(TypeError, match="called without a request"):
        view_of(rate_limit("5/minute"))("no request")


def test_a_decorated_view_keeps_its_name_and_its_attributes():
    view = view_of(rate_limit("5/minute"), rate_limit("5/hour"))
    assert view.__name__ == "decorated"
    assert view.__wrapped__.__wrapped__.__module__ == __name__


def test_secrets_do_not_become_names(either):
    key = by_header("X-Api-Key")
    client = either(path("", view_of(rate_limit("1/minute", key=key))))
    assert statuses(client, headers={"X-Api-Key": "one"}) == [200, 429, 429]
    assert statuses(client, headers={"X-Api-Key": "two"}) == [200, 429, 429]
    assert "one" not in key.identifier("one")
