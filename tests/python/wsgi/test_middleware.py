"""`overlimit.wsgi.RateLimitMiddleware`, besides what the kit tests: docs/reference/middleware.md."""

from __future__ import annotations

from typing import Any

import pytest

from overlimit import InvalidLimit
from overlimit._logging import stores
from overlimit.wsgi import RateLimitMiddleware, by_header


def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"routes": {"PSOT /login": "1/s"}}, ValueError, r"'PSOT': did you mean 'POST'\?"),
        ({"limits": "1/s", "exempt": ["gte /"]}, ValueError, r"'gte': did you mean 'GET'\?"),
        ({"routes": {"WXYZ /login": "1/s"}}, ValueError, "write one such as 'POST', or only the path"),
        ({"routes": {"OPTIONS /": "1/s"}}, ValueError, "OPTIONS requests are never limited"),
        ({"routes": {"/users/<id>": "1/s"}}, ValueError, r"write '/users/\*' instead of '/users/<id>'"),
        ({"routes": {"PUT /a/{b}/c": "1/s"}}, ValueError, r"write 'PUT /a/\*/c' instead"),
        ({"limits": "1/s", "exempt": ["/users/:id"]}, ValueError, r"write '/users/\*' instead"),
        ({"routes": {r"/items/\d+": "1/s"}}, ValueError, r"write '/items/\*' instead of '/items/"),
        ({"limits": "1/s", "exempt": [r"^/a/(\w+)/b.*$"]}, ValueError, r"write '/a/\*/b\*' instead of"),
        ({"routes": {r"POST ^/a\.json$": "1/s"}}, ValueError, "write 'POST /a.json' instead of"),
        ({"limits": "1/s", "exempt": ["^/static/"]}, ValueError, "write '/static/' instead of"),
        ({"limits": "1/s", "exempt": [r"\Ahealth"]}, ValueError, r"such as '/upload/\*' instead of"),
        ({"routes": {"/search?q=*": "1/s"}}, ValueError, r"path without its query.*write '/search'"),
        ({"routes": ["/login"]}, TypeError, r"routes must be a dict .* not \['/login'\]"),
        ({"routes": "/login"}, TypeError, "routes={'/login': '5/minute'}, not '/login'"),
        ({"limits": "1/s", "exempt": "/health"}, TypeError, r"write exempt=\['/health'\]"),
        ({"limits": "1/s", "exempt": 5}, TypeError, r"exempt must be a list of patterns.* not 5"),
        ({}, ValueError, "limits"),
        ({"limits": "5/sec onds"}, InvalidLimit, "5/sec onds"),
        ({"routes": {"/": "5/sec onds"}}, InvalidLimit, "5/sec onds"),
        ({"routes": {"/": ""}}, InvalidLimit, "routes"),
        ({"routes": {"login": "5/minute"}}, ValueError, "login"),
        ({"routes": {5: "5/minute"}}, ValueError, "5"),
        ({"limits": "1/s", "exempt": ["health"]}, ValueError, "health"),
        ({"limits": "1/s", "exempt": lambda environ, more: True}, TypeError, "exempt"),
        ({"limits": "1/s", "cost": -1}, ValueError, "cost"),
        ({"limits": "1/s", "identifiers": lambda environ, more: ""}, TypeError, "identifiers"),
        ({"limits": "1/s", "storage_uri": "memory://"}, TypeError, "storage_uri"),
        ({"limits": "1/s", "headers": "all"}, ValueError, "headers"),
        ({"limits": "1/s", "trusted_proxies": -1}, ValueError, "trusted_proxies"),
        ({"limits": 5}, InvalidLimit, "^limits: limits must be"),
        ({"limits": "", "routes": {"/": "1/s"}}, InvalidLimit, "limits='' is not a limit: leave it out"),
        ({"limits": "1/s", "routes": {"/a": 5}}, InvalidLimit, r"^routes\['/a'\]: limits must be"),
        ({"limits": "1/s", "key_prefix": 5}, TypeError, "key_prefix must be a string, not 5"),
        ({"limits": "1/s", "cost": 0.5}, TypeError, "^cost must be a whole number"),
        (
            {"limits": "1/s", "deduct_when": 5},
            TypeError,
            r"^deduct_when must be .* of the request .*, not 5$",
        ),
        ({"limits": "1/s", "on_breach": 5}, TypeError, r"of the decision, and of the request .*, not 5$"),
        ({"limits": "1/s", "identifiers": 5}, TypeError, "of the request, or without parameters, not 5"),
        ({"limits": "1/s", "deduct_when": lambda: True}, TypeError, "deduct_when must be .*called like that"),
    ],
)
def test_wrong_options_are_errors_that_name_them_and_say_what_to_write(options, error, message):
    with pytest.raises(error, match=message):
        RateLimitMiddleware(hello, **options)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, TypeError),
        (b"429 Too Many Requests", TypeError),
        (None, TypeError),
        ("", ValueError),
        ("Too Many Requests", ValueError),
        ("42", ValueError),
        ("4290", ValueError),
        ("099 Early", ValueError),
        ("600 Late", ValueError),
        ("429 Too\r\nMany", ValueError),
    ],
)
def test_an_answer_of_on_breach_without_a_status_is_an_error_that_says_what_to_write(status, error):
    def answer(environ, start_response):
        start_response(status, [])
        return [b""]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1"}
    middleware = RateLimitMiddleware(hello, limits="0/minute; 1/hour", on_breach=lambda _: answer)
    with pytest.raises(error, match=r"status from 100 to 599, as in '429 Too Many Requests', not "):
        middleware(environ, lambda *_: None)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("/*", "/login"),
        ("/*", "POST /*"),
        ("*", "/*"),
        ("/a/*", "/a"),
        ("/a/*", "/a/*/c"),
        ("/a*", "/ab/*"),
        ("GET /a", "HEAD //a/"),
        ("/*/c", "/a/*/c"),
    ],
)
def test_a_pattern_that_is_never_reached_is_an_error(first, later):
    with pytest.raises(ValueError, match=r"is never reached, because .*: write .* first"):
        RateLimitMiddleware(hello, routes={"/before": "1/s", first: "1/s", later: "2/s"})


@pytest.mark.parametrize(
    ("first", "later"),
    [("/login", "/*"), ("POST /*", "/login"), ("/a/b/*", "/a/*"), ("/*/c", "/a/*"), ("/a", "/a/*")],
)
def test_patterns_that_overlap_are_no_error(first, later):
    RateLimitMiddleware(hello, routes={first: "1/s", later: "2/s"})


def test_several_processes_with_a_store_in_memory_are_warned_by_name(monkeypatch, caplog):
    monkeypatch.setattr(stores, "_warned_processes", {})
    middleware = RateLimitMiddleware(hello, limits="5/minute")
    environ = {"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1", "wsgi.multiprocess": True}
    middleware({**environ, "wsgi.input": None}, lambda *_: None)
    assert "RateLimitMiddleware of 'hello' counts requests in memory" in caplog.text
    assert "give it a store=" in caplog.text


def test_a_text_of_on_breach_is_an_error_that_says_what_to_return():
    middleware = RateLimitMiddleware(hello, limits="0/minute", on_breach=lambda _: "sold out")
    with pytest.raises(TypeError, match=r"on_breach must return a WSGI app, or None .*, not 'sold out'"):
        middleware({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *_: None)


def test_what_a_server_has_joined_is_what_the_app_reads_too():
    middleware = RateLimitMiddleware(hello, limits="1/minute", identifiers=by_header("x-key"))
    statuses = []
    for key in ("a", "a,1", "a"):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_X_KEY": key}
        middleware(environ, lambda status, *_: statuses.append(status[:3]))
    assert statuses == ["200", "200", "429"]


def test_limits_by_position_are_an_error_that_names_them():
    with pytest.raises(TypeError, match=r"RateLimitMiddleware\(\) takes 1 argument .* as limits='1/s'"):
        RateLimitMiddleware(hello, "1/s")
    with pytest.raises(TypeError, match="has no option 'storage_uri'"):
        RateLimitMiddleware(hello, limits="1/s", storage_uri="memory://")
    with pytest.raises(TypeError, match="no option 'default_limits': write limits='100/minute'"):
        RateLimitMiddleware(hello, default_limits="1/s")
    with pytest.raises(TypeError, match=r"no option 'header': did you mean 'headers'\?"):
        RateLimitMiddleware(hello, limits="1/s", header=None)


def price(environ):
    return environ["price"]


def ask_for(cost, app=lambda *_: [], **options):
    """Have one request of a price decided."""
    middleware = RateLimitMiddleware(app, cost=price, **options)
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1", "price": cost}
    middleware(environ, lambda *_: None)


@pytest.mark.parametrize(("cost", "error"), [(-1, ValueError), (1.5, TypeError), ("2", TypeError)])
@pytest.mark.parametrize("limits", ["5/minute", ["5/minute", "5/minute"]], ids=["one", "twice"])
def test_the_error_of_a_bad_cost_names_its_function(limits, cost, error):
    with pytest.raises(error) as caught:
        ask_for(cost, limits=limits)
    name = f"{__name__}.price()"
    assert str(caught.value) == f"{name} returned the cost {cost!r}: a cost must be a whole number from 0"


@pytest.mark.parametrize("cost", [2**70, type("Int", (int,), {})(2)], ids=["large", "of its own class"])
def test_a_whole_number_of_any_size_and_class_is_a_cost(cost):
    asked = []
    ask_for(cost, lambda environ, _: [asked.append(environ["overlimit.decision"].cost)], limits="5/minute")
    assert asked == [cost] * (cost < 5)
