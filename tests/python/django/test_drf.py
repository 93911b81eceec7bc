"""``OverlimitThrottle``: exact, together with others, by what authentication has found."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory, override_settings
from django.urls import path
from rest_framework.authentication import BaseAuthentication
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from overlimit import InvalidLimit
from overlimit.django import rate_limit
from overlimit.django.drf import OverlimitThrottle

from .conftest import OURS, statuses

REST = {"DEFAULT_THROTTLE_RATES": {"burst": "2/min", "never": None, "search": "3/hour"}}


class ByToken(BaseAuthentication):
    def authenticate(self, request):
        name = request.headers.get("X-Token")
        return name and (SimpleNamespace(is_authenticated=True, pk=name), name)


class Burst(OverlimitThrottle):
    limits = "2/minute"
    key = "user_or_ip"
    algorithm = "fixed_window"


class Sustained(OverlimitThrottle):
    limits = "3/hour"
    key = "user_or_ip"
    algorithm = "fixed_window"


class OfScope(OverlimitThrottle):
    scope = "burst"


class Never(OverlimitThrottle):
    scope = "never"


def view_with(*throttles, **attributes):
    def get(self, request):
        decision = getattr(request, "rate_limit", None)
        return Response({"remaining": None if decision is None else decision.remaining})

    own = {"authentication_classes": [ByToken], "throttle_classes": throttles, "get": get, **attributes}
    return type("Page", (APIView,), own).as_view()


@pytest.fixture(autouse=True)
def rest():
    with override_settings(REST_FRAMEWORK=REST):
        yield


def test_a_view_is_throttled_with_the_exact_wait(either, clock):
    client = either(path("", view_with(Burst)))
    assert [client.get("/").json()["remaining"] for _ in range(2)] == [1, 0]
    clock.advance(20.5)
    refused = client.get("/")
    assert refused.status_code == 429
    wait = int(refused["Retry-After"])
    assert f"{wait} second" in refused.json()["detail"]
    assert refused["RateLimit"].endswith(f";r=0;t={wait}")
    clock.advance(wait - 1)
    assert statuses(client, times=1) == [429]
    clock.advance(1)
    assert statuses(client) == [200, 200, 429]


def test_all_throttles_of_a_view_are_one_decision(either, clock):
    client = either(path("", view_with(Burst, Sustained)))
    assert statuses(client, times=9) == [200, 200] + [429] * 7
    clock.advance(60)
    assert statuses(client) == [200, 429, 429]
    clock.advance(60)
    refused = client.get("/")
    assert refused.status_code == 429
    assert 3000 <= int(refused["Retry-After"]) <= 3600
    assert refused["RateLimit-Policy"].count(";q=") == 2


def test_another_throttle_is_asked_too(serve):
    asked = []

    class Other(BaseThrottle):
        def allow_request(self, request, view):
            asked.append(view)
            return len(asked) < 2

        def wait(self):
            return 7

    client = serve(path("", view_with(Burst, Other)))
    answers = [client.get("/") for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert answers[1]["Retry-After"] == "7"


def test_users_are_those_of_the_api(serve):
    client = serve(path("", view_with(Burst)), default_limits=None)
    ann = {"X-Token": "ann"}
    assert statuses(client, headers=ann) == [200, 200, 429]
    assert statuses(client, headers={"X-Token": "ben"}) == [200, 200, 429]
    assert client.get("/", headers=ann, REMOTE_ADDR="192.0.2.7").status_code == 429
    assert statuses(client) == [200, 200, 429]


def test_views_with_the_same_throttle_count_together(serve):
    client = serve(path("a", view_with(Burst)), path("b", view_with(Burst)), path("c", view_with(OfScope)))
    assert [client.get(f"/{name}").status_code for name in "abacc"] == [200, 200, 429, 200, 200]


def test_a_rate_may_be_that_of_a_scope(either):
    client = either(path("", view_with(OfScope)))
    assert statuses(client) == [200, 200, 429]
    assert client.get("/")["RateLimit"].startswith('"burst";r=0;')


def test_the_scope_may_be_the_view_s(either):
    client = either(
        path("a", view_with(OverlimitThrottle, throttle_scope="burst")),
        path("b", view_with(OverlimitThrottle)),
    )
    assert statuses(client, "/a") == [200, 200, 429]
    assert statuses(client, "/b") == [200] * 3


def test_a_rate_of_none_is_no_limit(either):
    client = either(path("", view_with(Never)))
    assert statuses(client, times=5) == [200] * 5


def test_an_unknown_scope_is_named(serve):
    client = serve(path("", view_with(OverlimitThrottle, throttle_scope="brst")))
    client.raise_request_exception = True
    with pytest.raises(ImproperlyConfigured, match="did you mean 'burst'"):
        client.get("/")


def test_fields_show_throttles_and_decorators_together(either):
    class Page(APIView):
        throttle_classes = (Burst,)

        @rate_limit("5/hour", name="get")
        def get(self, request):
            return Response({})

    answer = either(path("", Page.as_view())).get("/")
    assert answer["RateLimit"].startswith('"Burst";r=1;')
    assert ', "get";r=4;' in answer["RateLimit"]


def test_the_site_limits_too_and_a_refusal_charges_neither(serve):
    client = serve(path("", view_with(Burst)), application_limits="3/minute", algorithm="fixed_window")
    assert statuses(client, times=5) == [200, 200, 429, 429, 429]
    client = serve(path("a", view_with(Burst)), path("b", view_with()), application_limits="3/minute")
    assert statuses(client, "/a", times=5) == [200, 200, 429, 429, 429]
    assert statuses(client, "/b") == [200, 429, 429]


def test_a_failed_store_is_a_503_where_nothing_may_pass(serve):
    url = "redis://127.0.0.1:1/0?timeout=0.2"
    for on_error, status in (("deny", 503), ("allow", 200), ("local", 200)):
        client = serve(path("", view_with(Burst)), store=url, on_error=on_error, clock=None)
        answer = client.get("/")
        assert answer.status_code == status
        assert ("Retry-After" in answer) == (status == 503)


@pytest.mark.parametrize(
    ("attributes", "error", "said"),
    [
        ({"limits": "5/minutee"}, InvalidLimit, "minutee"),
        ({"rate": "5/minute"}, TypeError, "did you mean 'limits'"),
        ({"limit": "5/minute"}, TypeError, "did you mean 'limits'"),
        ({"limits": "5/m", "key": "usr"}, ValueError, "did you mean 'user'"),
        ({"limits": "5/m", "cost": -1}, ValueError, "cost"),
        ({"limits": "5/m", "on_breach": print}, TypeError, "REST framework answers"),
        ({"limits": "5/m", "algoritm": "fixed_window"}, TypeError, "did you mean 'algorithm'"),
    ],
    ids=range(7),
)
def test_what_is_wrong_is_said_where_it_is_written(attributes, error, said):
    with pytest.raises(error, match=said):
        type("Wrong", (OverlimitThrottle,), attributes)


def test_functions_and_words_are_attributes(serve):
    class Own(OverlimitThrottle):
        limits = "1/minute"
        exempt_when = lambda request: request.user.is_authenticated  # noqa: E731 - as users write it

        def key(request):
            return f"agent:{request.headers['X-Agent']}"

    client = serve(path("", view_with(Own)))
    assert statuses(client, headers={"X-Agent": "a", "X-Token": "ann"}) == [200] * 3
    assert statuses(client, headers={"X-Agent": "a"}) == [200, 429, 429]
    assert statuses(client, headers={"X-Agent": "b"}) == [200, 429, 429]


def test_several_throttles_are_one_call_to_redis(serve, redis_server):
    client = serve(
        path("", view_with(Burst, OfScope, Sustained)), store=f"{redis_server.tcp_url()}?timeout=10"
    )
    client.get("/")
    redis_server.ask("CONFIG", "RESETSTAT")
    assert client.get("/").status_code == 200
    assert "cmdstat_evalsha:calls=1," in redis_server.ask("INFO", "commandstats").decode()


def test_limits_of_the_site_are_one_more_call_to_redis(serve, redis_server):
    url = f"{redis_server.tcp_url()}?timeout=10&prefix=with-the-site"
    page = path("", view_with(Burst, OfScope, Sustained))
    client = serve(page, middleware=[OURS], store=url, default_limits="9/minute", application_limits="9/hour")
    client.get("/")
    redis_server.ask("CONFIG", "RESETSTAT")
    assert client.get("/").status_code == 200
    assert "cmdstat_evalsha:calls=2," in redis_server.ask("INFO", "commandstats").decode()


def test_a_throttle_that_a_view_asks_itself_decides(either):
    class Page(APIView):
        throttle_classes = (Sustained,)

        def get(self, request):
            return Response([Burst().allow_request(request, self) for _ in range(3)])

    client = either(path("", Page.as_view()))
    assert client.get("/").json() == [True, True, False]
    assert client.get("/").json() == [False] * 3


def test_a_throttle_works_without_a_view(clock):
    with override_settings(OVERLIMIT={"CLOCK": clock}):
        throttles = [Burst() for _ in range(3)]
        request = RequestFactory().get("/")
        assert [each.allow_request(request, None) for each in throttles] == [True, True, False]
        assert throttles[2].wait() == 60
        with pytest.raises(TypeError, match="asked with a request"):
            Burst().allow_request("no request", None)
