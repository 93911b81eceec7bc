"""``manage.py overlimit_limits`` lists what decides requests to each view, and marks what nobody limits."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.urls import include, path, re_path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.static import serve as static
from rest_framework.decorators import api_view
from rest_framework.response import Response
from rest_framework.views import APIView

from overlimit.django import exempt, rate_limit
from overlimit.django.drf import OverlimitThrottle
from overlimit.django.site import site

from .conftest import OURS


def listed(*options):
    out, err = io.StringIO(), io.StringIO()
    call_command("overlimit_limits", *options, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def as_json():
    return json.loads(listed("--json")[0])


def bare(request):
    return HttpResponse()


def plan_of(request):
    return "7/minute"


@rate_limit("3/hour", name="hours")
@rate_limit(plan_of)
def stacked(request, number):
    return HttpResponse()


@rate_limit("2/minute", methods="POST")
def posted(request):
    return HttpResponse()


@exempt
def free(request):
    return HttpResponse()


@method_decorator(rate_limit("9/minute"), name="dispatch")
class Page(View):
    def get(self, request):
        return HttpResponse()

    @method_decorator(rate_limit("4/minute", per_method=True))
    def post(self, request):
        return HttpResponse()


class Burst(OverlimitThrottle):
    limits = "6/minute"


class Api(APIView):
    throttle_classes = (Burst,)

    def get(self, request):
        return Response()


@api_view(["GET"])
@rate_limit("8/minute")
def below_api_view(request):
    return Response()


URLS = (
    path("", bare),
    path("items/<int:number>", stacked),
    path("posted", posted),
    path("free", free),
    path("health", bare, name="health"),
    path("static/<path:path>", static),
    path("a/", include([path("page", Page.as_view()), re_path("^api$", Api.as_view())])),
    path("below", below_api_view),
)


def limits_of(entries):
    return {
        (entry["rule"], ",".join(entry["methods"])): [
            each["limit"] or each["dynamic"] for each in entry["limits"]
        ]
        for entry in entries
    }


def test_every_view_is_listed_with_what_decides_it(serve):
    serve(*URLS, default_limits="5/minute", meta_limits="50/hour", exempt=["/health"])
    site_wide, meta = "5-per-60s", "50-per-3600s"
    entries = as_json()
    assert limits_of(entries) == {
        ("/", "ANY"): [site_wide, meta],
        ("/items/<int:number>", "ANY"): [f"{__name__}.plan_of()", "3-per-3600s", meta],
        ("/posted", "POST"): ["2-per-60s", meta],
        ("/posted", "GET,PUT,PATCH,DELETE"): [site_wide, meta],
        ("/free", "ANY"): [],
        ("/health", "ANY"): [],
        ("/a/page", "GET"): ["9-per-60s", meta],
        ("/a/page", "POST"): ["9-per-60s", meta, "4-per-60s"],
        ("/a/api$", "GET"): [site_wide, meta, "6-per-60s"],
        ("/below", "GET"): ["8-per-60s", meta],
    }
    assert {entry["rule"] for entry in entries if not entry["protected"]} == {"/free", "/health"}


def test_the_policies_are_those_by_which_requests_count(serve):
    client = serve(
        *URLS, default_limits="5/minute", application_limits="100/minute", global_limits="900/minute"
    )
    for address in ("/", "/items/5", "/posted", "/a/page", "/a/api", "/below"):
        assert client.get(address).status_code == 200
    assert [client.post(each).status_code for each in ("/posted", "/a/page")] == [200, 200]
    counted = {limiter.name for limiter in site().rate_limit.limiters()}
    asked = {"/", "/items/<int:number>", "/posted", "/a/page", "/a/api$", "/below"}
    known = {each["policy"] for entry in as_json() if entry["rule"] in asked for each in entry["limits"]}
    assert counted == known


def test_without_the_middleware_only_what_is_decorated_is_protected(serve):
    serve(*URLS, middleware=(), default_limits="5/minute")
    found = limits_of(as_json())
    assert found["/", "ANY"] == []
    assert found["/a/page", "POST"] == ["9-per-60s", "4-per-60s"]
    assert found["/a/api$", "GET"] == ["6-per-60s"]
    assert found["/posted", "GET,PUT,PATCH,DELETE"] == []
    assert found["/posted", "POST"] == ["2-per-60s"]


def test_the_table_marks_what_nothing_protects_and_what_is_in_shadow(serve):
    serve(*URLS, default_limits="5/minute", shadow=True)
    table, told = listed()
    assert "in shadow: refuses nothing" in table
    assert table.count("/free") == 1
    unprotected = table[table.index("Unprotected") :]
    assert all(rule in unprotected for rule in ("/free", "/health", "/a/api$"))
    assert told == ""


def test_no_function_of_the_app_is_called(serve):
    def fails(*_):
        raise AssertionError

    view = rate_limit(fails, key=fails, cost=fails, exempt_when=fails, scope=fails)(bare)
    serve(path("", view), default_limits="5/minute", exempt=fails)
    table, told = listed()
    assert "fails()" in table
    assert "(dynamic)" in table
    assert "OVERLIMIT['EXEMPT'] is" in told


def test_what_is_wrong_is_one_line(serve):
    serve(path("", bare), middleware=(OURS,), default_limits="5/minutee")
    with pytest.raises(CommandError, match="minutee"):
        listed()
