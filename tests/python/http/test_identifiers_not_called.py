"""``by_header`` and its like are called in the program; where they are not, every adapter says so at once."""

from __future__ import annotations

import pytest

import overlimit.asgi
import overlimit.django
import overlimit.fastapi
import overlimit.flask
import overlimit.wsgi
from overlimit.django import by_get, by_post
from overlimit.flask import by_cookie, by_header, by_json, by_path_parameter


def app(*_):
    raise AssertionError


USES = {
    "flask": lambda given: overlimit.flask.RateLimit(identifiers=given),
    "flask, one limit": lambda given: overlimit.flask.rate_limit("1/s", identifiers=[given]),
    "flask, key_func": lambda given: overlimit.flask.RateLimit(key_func=given),
    "fastapi": lambda given: overlimit.fastapi.RateLimit(identifiers=given),
    "fastapi, key_func": lambda given: overlimit.fastapi.RateLimit(key_func=given),
    "fastapi, a dependency": lambda given: overlimit.fastapi.RateLimit().dependency("1/s", identifiers=given),
    "django": lambda given: overlimit.django.rate_limit("1/s", key=["ip", given]),
    "wsgi": lambda given: overlimit.wsgi.RateLimitMiddleware(app, limits="1/s", identifiers=given),
    "asgi": lambda given: overlimit.asgi.RateLimitMiddleware(app, limits="1/s", identifiers=given),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_not_called_is_an_error_where_it_is_written(use):
    for given in (by_header, by_cookie, by_json, by_path_parameter):
        with pytest.raises(TypeError, match=rf"not be {given.__name__} itself: write {given.__name__}\("):
            USES[use](given)
        USES[use](lambda request="": request)


def test_those_of_django_too():
    for given in (by_get, by_post):
        with pytest.raises(TypeError, match=rf"key must not be {given.__name__} itself"):
            overlimit.django.rate_limit("1/s", key=given)
