"""What a client sends to get another count, or none; and functions that nobody would await."""

from __future__ import annotations

import io

import pytest
from flask import Flask, request

from overlimit.wsgi import RateLimitMiddleware, by_cookie, by_header


def status(app, method="GET", path="/", **environ):
    """Send a request as a server hands it over."""
    found = []
    given = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "REMOTE_ADDR": "192.0.2.1",
    }
    list(app({**given, **environ}, lambda status, headers, error=None: found.append(int(status[:3]))))
    return found[0]


@pytest.fixture
def served():
    app = Flask(__name__)
    app.route("/", methods=["GET", "POST"])(lambda: request.method)
    return app.wsgi_app


def test_a_method_in_small_letters_is_no_way_around(served):
    app = RateLimitMiddleware(served, routes={"POST /": "1/minute"})
    assert [status(app, method) for method in ("POST", "post", "Post", "GET")] == [200, 429, 429, 200]


def test_a_cookie_that_is_none_for_browsers_hides_no_other(served):
    app = RateLimitMiddleware(served, limits="1/minute", identifiers=by_cookie("s"), anonymous="exempt")
    texts = ("s=a", "s=a; flag", "a,b=1; s=a", "path=/; s=a", "s=b")
    assert [status(app, HTTP_COOKIE=text) for text in texts] == [200, 429, 429, 429, 200]


def test_what_a_server_has_joined_is_what_the_app_reads_too(served):
    app = RateLimitMiddleware(served, limits="1/minute", identifiers=by_header("x-key"))
    assert [status(app, HTTP_X_KEY=key) for key in ("a", "a,1", "a")] == [200, 200, 429]


async def later(*_: object) -> bool:
    return False


async def later_of_one(given: object) -> bool:
    return False


FUNCTIONS = (
    "exempt",
    "deduct_when",
    "on_breach",
    "limits",
    "cost",
    "identifiers",
    "key_func",
    "global_limits",
)


@pytest.mark.parametrize("option", FUNCTIONS)
@pytest.mark.parametrize("function", [later, later_of_one])
def test_coroutine_functions_are_refused_where_they_are_given(served, option, function):
    with pytest.raises(TypeError, match=f"{function.__name__}.. would never be awaited"):
        RateLimitMiddleware(served, **{"limits": "1/minute", option: function})


@pytest.mark.parametrize("option", FUNCTIONS)
def test_a_plain_function_that_returns_a_coroutine_is_named(served, option):
    def returns_it(*arguments: object) -> object:
        return later(*arguments)

    app = RateLimitMiddleware(served, **{"limits": "1/minute", option: returns_it})
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        assert [status(app), status(app)] != [200, 200]
