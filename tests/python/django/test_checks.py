"""What ``manage.py check`` says, with the app installed."""

from __future__ import annotations

import re
import sys

import pytest
from django.core.checks import Warning, run_checks
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path, re_path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.views import APIView

from overlimit.django import by_path_parameter, rate_limit
from overlimit.django.drf import OverlimitThrottle
from overlimit.django.migration_hints import OF_SETTINGS
from overlimit.django.settings import problems

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

    serve(path("", rate_limit(limited)), path("static", rate_limit("5/minute")))
    messages = run_checks(tags=["overlimit"])
    assert [each.id for each in messages] == ["overlimit.E002"] * 2
    assert all("not @rate_limit" in each.msg for each in messages)
    assert messages[0].obj.endswith(".limited")
    assert messages[0].obj.startswith(__name__)
    assert messages[1].obj == "<URLPattern 'static'>"


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


def of_tenant(name, **options):
    """Return a view of its own that is limited by a parameter of the path."""

    def limited(request, **kwargs):
        return HttpResponse()

    limited.__qualname__ = f"of_{name}"
    return rate_limit("5/minute", key=["ip", f"path:{name}"], **options)(limited)


class Misspelt(View):
    @rate_limit("5/minute", key=by_path_parameter("tenent"), methods="POST")
    def post(self, request, tenant):
        return HttpResponse()


def test_a_parameter_that_no_path_of_a_view_has_is_reported(serve):
    serve(
        path("<tenant>/", include([path("a", of_tenant("tenent")), path("b", Misspelt.as_view())])),
        re_path(r"^c/(?P<shop>\w+)$", of_tenant("x")),
        path("d", of_tenant("nothing")),
    )
    messages = run_checks(tags=["overlimit"])
    assert [(each.id, each.obj.rpartition(".")[2], type(each)) for each in messages] == [
        ("overlimit.W003", name, Warning) for name in ("of_tenent", "Misspelt", "of_x", "of_nothing")
    ]
    hints = [each.msg.rpartition(": ")[2] for each in messages]
    assert hints == ["did you mean 'tenant'?", "did you mean 'tenant'?", "there is shop", "there is none"]
    assert "by_path_parameter('tenent')" in messages[0].msg


def test_parameters_of_any_path_of_a_view_are_known(serve):
    of_both, of_given, of_prefix = map(of_tenant, ("tenant", "given", "prefix"))
    serve(
        path("a", of_both),
        path("<slug:tenant>/a", of_both),
        path("b", of_given, {"given": 5}),
        re_path(r"^(?P<prefix>\w+)/", include([path("c", of_prefix)])),
        path("d/", include([path("d", of_given)]), {"given": 5}),
    )
    assert found() == []


class OfPath(OverlimitThrottle):
    limits = "5/minute"
    key = "path:pkk"


class Idle(OverlimitThrottle):
    key = "user_or_ip"


class Throttled(APIView):
    throttle_classes = (OfPath, Idle)


class Scoped(APIView):
    throttle_classes = (Idle,)
    throttle_scope = "burst"


class ByDefault(APIView):
    pass


def test_throttles_that_limit_nothing_or_nobody_are_reported(serve, monkeypatch):
    monkeypatch.setattr(APIView, "throttle_classes", [OverlimitThrottle, OfPath])
    with override_settings(REST_FRAMEWORK={"DEFAULT_THROTTLE_RATES": {"burst": None}}):
        serve(
            path("<int:pk>", Throttled.as_view()),
            path("scoped", Scoped.as_view()),
            path("default", ByDefault.as_view()),
        )
        messages = run_checks(tags=["overlimit"])
    assert [(each.id, each.obj, type(each)) for each in messages] == [
        (f"overlimit.{number}", f"{__name__}.Throttled", Warning) for number in ("W003", "W004")
    ]
    assert "did you mean 'pk'?" in messages[0].msg
    assert f"{__name__}.Idle limits nothing here" in messages[1].msg


@pytest.mark.parametrize("key", OF_SETTINGS)
def test_settings_of_django_ratelimit_are_reported(serve, monkeypatch, key):
    monkeypatch.delitem(sys.modules, "django_ratelimit", raising=False)
    serve(path("", view), default_limits="5/minute")
    with override_settings(**{key: False, "RATELIMIT_OF_OUR_OWN": "5/minute"}):
        assert found() == [("overlimit.W002", f"{key} has no effect on OVERLIMIT: {OF_SETTINGS[key]}.")]
        monkeypatch.setitem(sys.modules, "django_ratelimit", sys)
        assert found() == []


def test_what_is_written_instead_of_settings_of_django_ratelimit_is_read():
    written = re.findall(r"OVERLIMIT = (\{.*?\})", " ".join(OF_SETTINGS.values()))
    assert len(written) == 8
    for each in written:
        assert not [*problems(eval(each.replace("...", "None")))]


@rate_limit("5/minute")
def limited_processor(request):
    return {}


def test_a_context_processor_that_is_limited_is_reported(serve):
    serve(path("", view))
    processors = [f"{__name__}.limited_processor", "django.template.context_processors.request", "no.where"]
    engine = {"BACKEND": "django.template.backends.django.DjangoTemplates"}
    with override_settings(TEMPLATES=[{**engine, "OPTIONS": {"context_processors": processors}}]):
        said = f"{processors[0]} is limited, but a context processor answers no request: limit the views"
        assert found() == [("overlimit.E002", said)]
