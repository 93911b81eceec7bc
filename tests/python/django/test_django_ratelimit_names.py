"""Names of django-ratelimit say what to write instead."""

from __future__ import annotations

import pytest

import overlimit.django
from overlimit.django.migration_hints import OF_MODULE


@pytest.mark.parametrize("name", OF_MODULE)
def test_a_name_of_django_ratelimit_says_what_to_write(name):
    with pytest.raises(ImportError) as error:
        exec(f"from overlimit.django import {name}", {})
    assert str(error.value) == f"overlimit.django has no {name}: {OF_MODULE[name]}"


def test_no_such_name_is_an_attribute_error():
    assert not hasattr(overlimit.django, "rate_limits")
    assert not set(OF_MODULE) & set(overlimit.django.__all__)
