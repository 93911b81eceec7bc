"""``@rate_limit`` on functions: who is refused, what is charged, and what the view is told."""

from __future__ import annotations

from functools import partial

import pytest
from django.http import HttpResponse, JsonResponse
from django.urls import path

from overlimit.django import current_decision, exempt, rate_limit

from .conftest import statuses
from .decorated import async_view_of, told, view_of


def test_without_block_the_view_is_called_and_finds_the_refusal(either):
    client = either(path("", view_of(rate_limit("2/minute", block=False))), headers="both")
    answers = [client.get("/") for _ in range(4)]
    assert [each["X-RateLimit-Remaining"] for each in answers] == ["1", "0", "0", "0"]
    assert [each.status_code for each in answers] == [200] * 4
    assert [each.json()["allowed"] for each in answers] == [True, True, False, False]
    assert all("Retry-After" not in each for each in answers)
    assert ";r=0;t=" in answers[3]["RateLimit"]


def test_the_current_decision_is_what_the_view_is_told(either):
    def view(request):
        decision = current_decision(request)
        is_same = decision is getattr(request, "rate_limit", None)
        return JsonResponse({"same": is_same, "allowed": bool(decision)})

    client = either(
        path("limited", view_of(rate_limit("1/minute", block=False), view=view)), path("free", exempt(view))
    )
    answers = [client.get("/limited").json() for _ in range(2)]
    assert answers == [{"same": True, "allowed": True}, {"same": True, "allowed": False}]
    assert client.get("/free").json() == {"same": True, "allowed": False}


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


def test_an_exempt_view_is_not_limited(either):
    client = either(
        path("a", exempt(view_of(rate_limit("1/minute")))),
        path("b", view_of(exempt, rate_limit("1/minute"))),
        path("c", exempt(async_view_of(rate_limit("1/minute")))),
        path("e", view_of(rate_limit("1/minute"))),
    )
    for name in "abc":
        assert statuses(client, f"/{name}") == [200] * 3
    assert statuses(client, "/e") == [200, 429, 429]


def test_a_partial_is_the_view_within_it(serve):
    views = {"a": view_of(rate_limit("1/minute", name="own")), "free": exempt(view_of())}
    client = serve(*(path(name, partial(view)) for name, view in views.items()), default_limits="2/minute")
    answers = [client.get("/a") for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert answers[0]["RateLimit-Policy"] == '"own";q=1;w=62'
    assert statuses(client, "/free") == [200] * 3


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


def test_a_limited_function_needs_a_request():
    with pytest.raises(TypeError, match="called without a request"):
        view_of(rate_limit("5/minute"))("no request")
