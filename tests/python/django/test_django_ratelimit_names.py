"""What is written as for django-ratelimit says what to write instead."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

import overlimit.django
from overlimit.django.migration_hints import OF_MODULE
from overlimit.django.settings import read


@pytest.mark.parametrize("name", OF_MODULE)
def test_a_name_of_django_ratelimit_says_what_to_write(name):
    with pytest.raises(ImportError) as error:
        exec(f"from overlimit.django import {name}", {})
    assert str(error.value) == f"overlimit.django has no {name}: {OF_MODULE[name]}"


def test_no_such_name_is_an_attribute_error():
    assert not hasattr(overlimit.django, "rate_limits")
    assert not set(OF_MODULE) & set(overlimit.django.__all__)


def test_functions_of_a_group_and_a_request_are_errors_where_they_are_written():
    for write in (
        lambda: overlimit.django.rate_limit(lambda group, request: "1/s"),
        lambda: overlimit.django.rate_limit(["1/s", lambda group, request: "1/s"]),
        lambda: overlimit.django.rate_limit("1/s", key=lambda group, request: "ann"),
        lambda: overlimit.django.rate_limit("1/s", key=["ip", lambda group, request: "ann"]),
        lambda: read({"KEY": lambda group, request: "ann"}),
        lambda: read({"DEFAULT_LIMITS": lambda group, request: "1/s"}),
    ):
        said = r"<lambda>\(\) has the parameters 'group' and 'request', but .* the request only: leave 'gr"
        with pytest.raises((TypeError, ImproperlyConfigured), match=said):
            write()
    overlimit.django.rate_limit(lambda request: "1/s", key=lambda request: "ann")


@pytest.mark.parametrize("arguments", [("ip", "5/m"), ("5/m", "ip")])
def test_a_key_by_position_says_how_it_is_written(arguments):
    with pytest.raises(TypeError, match=r"write the limits first.* rate_limit\('5/m', key='ip'\)"):
        overlimit.django.rate_limit(*arguments)
