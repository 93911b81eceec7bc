"""What ``manage.py check`` says, with the app installed."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.views import APIView

from overlimit.django import rate_limit
from overlimit.django.drf import OverlimitThrottle

from .conftest import OURS


def view(request):
    return HttpResponse()


def found(tag="overlimit"):
    return [(each.id, each.msg) for each in run_checks(tags=[tag])]


def test_a_site_that_is_right_has_no_messages(serve):
    limits = {"default_limits": "5/minute", "key": "user", "exempt": ["/health"], "on_error": "deny"}
    serve(path("", view), path("b", rate_limit("5/minute")(view)), **limits)
    assert found() == []


def test_each_wrong_setting_is_reported(serve):
    serve(path("", view), default_limits="5/minutee", stroe="memory://", key="usr", headers="legacy")
    messages = found()
    assert [number for number, _ in messages] == ["overlimit.E001"] * 3
    said = " ".join(message for _, message in messages)
    assert all(word in said for word in ("minutee", "did you mean 'STORE'", "did you mean 'user'"))


def test_a_setting_that_is_no_dict_is_reported(serve, settings_of):
    serve(path("", view))
    settings_of("5/minute")
    assert [number for number, _ in found()] == ["overlimit.E001"]


@pytest.fixture
def settings_of():
    overrides = []

    def override(given):
        overrides.append(override_settings(OVERLIMIT=given))
        overrides[-1].enable()

    yield override
    for each in overrides:
        each.disable()


def test_limits_without_the_middleware_are_reported(serve):
    serve(path("", view), middleware=["django.middleware.common.CommonMiddleware"], default_limits="5/minute")
    messages = run_checks(tags=["overlimit"])
    assert [each.id for each in messages] == ["overlimit.W001"]
    assert OURS in messages[0].hint


def test_a_view_whose_limit_the_algorithm_does_not_know_is_reported(serve):
    bad = rate_limit("5/minute burst 10")(view)
    serve(path("a/", include([path("b", bad)])), algorithm="fixed_window")
    messages = run_checks(tags=["overlimit"])
    assert [(each.id, each.obj) for each in messages] == [("overlimit.E002", f"{__name__}.view")]


def test_a_decorator_that_was_not_called_is_reported(serve):
    def limited(request):
        return HttpResponse()

    serve(path("", rate_limit(limited)))
    assert [(number, "not @rate_limit" in message) for number, message in found()] == [
        ("overlimit.E002", True)
    ]


class Page(View):
    def get(self, request):
        return HttpResponse()

    @method_decorator(rate_limit("5/minute burst 10", methods="POST"))
    def post(self, request):
        return HttpResponse()


def test_methods_of_classes_are_looked_at(serve):
    serve(path("", Page.as_view()), algorithm="fixed_window")
    messages = run_checks(tags=["overlimit"])
    assert [(each.id, each.obj) for each in messages] == [("overlimit.E002", f"{__name__}.Page")]


class OfScope(OverlimitThrottle):
    scope = "bursts"


class OfAlgorithm(OverlimitThrottle):
    limits = "5/minute burst 10"


class Api(APIView):
    throttle_classes = (OfScope, OfAlgorithm)


def test_throttles_are_looked_at(serve):
    rates = {"DEFAULT_THROTTLE_RATES": {"burst": "5/minute"}}
    with override_settings(REST_FRAMEWORK=rates):
        serve(path("", Api.as_view()), algorithm="fixed_window")
        messages = run_checks(tags=["overlimit"])
    assert [(each.id, each.obj) for each in messages] == [("overlimit.E002", f"{__name__}.Api")] * 2
    assert "did you mean 'burst'" in messages[0].msg
    assert "burst 10" in messages[1].msg
