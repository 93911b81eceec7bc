"""``@rate_limit`` on views of Django REST framework."""

from __future__ import annotations

from django.urls import path
from django.utils.decorators import method_decorator
from rest_framework.decorators import api_view, authentication_classes, permission_classes, throttle_classes
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from overlimit.django import rate_limit

from .conftest import statuses
from .test_drf import Burst, ByToken


class NoEntry(BasePermission):
    def has_permission(self, request, view):
        return "member" in request.GET


@api_view(["GET", "POST"])
@authentication_classes([ByToken])
@rate_limit("2/minute", key="user", override_defaults=True)
def below(request):
    return Response({"remaining": request.rate_limit.remaining})


@rate_limit("2/minute")
@api_view(["GET"])
def above(request):
    return Response({"remaining": request.rate_limit.remaining})


@api_view(["GET"])
@throttle_classes([Burst])
def throttled(request):
    return Response()


@api_view(["GET"])
def undecorated(request):
    return Response()


@rate_limit("2/minute")
@api_view(["GET"])
@permission_classes([NoEntry])
@authentication_classes([])
def members(request):
    return Response()


def test_decorators_work_below_and_above_api_view(either):
    client = either(path("a", below), path("b", above), path("c", throttled))
    assert statuses(client, "/a", headers={"X-Token": "ann"}) == [200, 200, 429]
    assert statuses(client, "/a", headers={"X-Token": "ben"}) == [200, 200, 429]
    assert statuses(client, "/b") == statuses(client, "/c") == [200, 200, 429]


def test_a_decorator_below_api_view_replaces_the_default_limits(serve):
    client = serve(path("a", below), path("b", undecorated), path("c", throttled), default_limits="1/minute")
    assert statuses(client, "/a") == [200, 200, 429]
    assert statuses(client, "/b") == [200, 429, 429]
    assert "below" in client.get("/a")["RateLimit"]


def test_a_decorator_above_counts_what_permissions_refuse(either):
    client = either(path("", members))
    assert statuses(client) == [403, 403, 429]


class Items(ViewSet):
    def list(self, request):
        return Response([])

    @method_decorator(rate_limit("1/minute"))
    def create(self, request):
        return Response({})


def test_actions_of_a_viewset_are_limited(serve):
    client = serve(path("", Items.as_view({"get": "list", "post": "create"})), default_limits="2/minute")
    assert statuses(client) == [200, 200, 429]
    assert [client.post("/").status_code for _ in range(2)] == [200, 429]
