"""A coroutine function that nobody awaits would be true: exempt for ever, or never refunded."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.urls import path

from overlimit.django import rate_limit

from .conftest import statuses


async def later():
    return False


async def later_of_one(given):
    return False


async def later_of_two(given, request):
    return False


OPTIONS = (
    "exempt_when",
    "deduct_when",
    "on_breach",
    "scope",
    "group",
    "error_message",
    "cost",
    "key",
    "meta_limits",
)
FUNCTIONS = [later, later_of_one, later_of_two]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("function", FUNCTIONS[:2])
def test_options_refuse_them(option, function):
    with pytest.raises(TypeError):
        rate_limit("1/minute", **{option: function})


@pytest.mark.parametrize("option", ["deduct_when", "on_breach", "scope", "group"])
def test_options_with_two_parameters_refuse_them(option):
    with pytest.raises(TypeError, match="would never be awaited"):
        rate_limit("1/minute", **{option: later_of_two})


@pytest.mark.parametrize("function", FUNCTIONS[:2])
@pytest.mark.parametrize("wrapped", [lambda function: function, lambda function: ["2/minute", function]])
def test_limits_refuse_them(function, wrapped):
    with pytest.raises(TypeError, match="would never be awaited"):
        rate_limit(wrapped(function))


@pytest.mark.parametrize("option", ["exempt_when", "cost", "key"])
def test_throttles_refuse_them_even_without_limits(option):
    from overlimit.django.drf import OverlimitThrottle

    with pytest.raises(TypeError, match="would never be awaited"):
        type("Throttle", (OverlimitThrottle,), {option: staticmethod(later)})


@pytest.mark.parametrize(
    "key", ["EXEMPT", "DEFAULT_LIMITS_DEDUCT_WHEN", "ON_BREACH", "KEY", "DEFAULT_LIMITS"]
)
def test_the_setting_refuses_them(serve, key):
    function = later_of_one if key in ("DEFAULT_LIMITS_DEDUCT_WHEN", "ON_BREACH") else later
    serve(path("", lambda request: HttpResponse()), **{"default_limits": "1/minute", key.lower(): function})
    assert any("never be awaited" in str(found) for found in run_checks())


@pytest.mark.parametrize("option", ["exempt_when", "deduct_when", "on_breach", "scope", "cost", "key"])
def test_a_plain_function_that_returns_a_coroutine_is_named(serve, option):
    def returns_it(*arguments):
        return later_of_one(arguments)

    view = rate_limit("1/minute", **{option: returns_it})(lambda request: HttpResponse())
    client = serve(path("", view))
    client.raise_request_exception = True
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        statuses(client, times=2)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({1: 2}, "keys of OVERLIMIT must be strings, not 1"),
        ({"KEY": []}, r"OVERLIMIT\['KEY'\]: key=\[\] names nobody"),
        ({"TRUSTED_PROXIES": -1}, r"OVERLIMIT\['TRUSTED_PROXIES'\] must not be negative"),
        ({"TRUSTED_PROXIES": "x/y"}, r"OVERLIMIT\['TRUSTED_PROXIES'\]: 'x/y'"),
        ({"IPV6_PREFIX": 0}, r"OVERLIMIT\['IPV6_PREFIX'\] must be from 1"),
    ],
)
def test_what_is_wrong_with_the_setting_names_its_key(given, wrong):
    from overlimit.django.settings import read

    with pytest.raises(ImproperlyConfigured, match=wrong):
        read(given)


def test_a_key_of_nobody_is_refused():
    with pytest.raises(ValueError, match="names nobody"):
        rate_limit("1/minute", key=[])
