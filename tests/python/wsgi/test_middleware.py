"""`overlimit.wsgi.RateLimitMiddleware` on real servers: docs/reference/middleware.md."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.validate import validator

import pytest

from overlimit import InvalidLimit, ManualClock, MemoryStore, RedisStore
from overlimit._logging import stores
from overlimit.wsgi import RateLimitMiddleware, by_cookie, by_header, by_json, by_user
from servers.http_clients import Answer, Clients

START = 1_800_000_000


def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    status = environ.get("HTTP_X_STATUS", "200 OK")
    if status == "fail":
        raise LookupError("the app failed")
    size = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(size) if size else b"hello"
    start_response(status, [("Content-Type", "text/plain"), ("RateLimit", "of the app")])
    return [body]


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class _Server(WSGIServer):
    def handle_error(self, *_: object) -> None:
        pass


class Site:
    """A server with a middleware around `hello`, which a validator of WSGI stands around on both sides."""

    def __init__(self, app: Any = hello, **options: Any) -> None:
        self.middleware = RateLimitMiddleware(validator(app), **options)
        self._server = make_server("127.0.0.1", 0, self._app, _Server, _Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self._clients = Clients(self._server.server_port, at_once=1)

    def _app(self, environ: Any, start_response: Any) -> Any:
        user = environ.get("HTTP_X_USER")
        return validator(self.middleware)({**environ, "REMOTE_USER": user or ""}, start_response)

    def ask(self, path: str = "/", **options: Any) -> Answer:
        return self._clients.ask(path, **options)

    def statuses(self, path: str = "/", times: int = 1, **options: Any) -> list[int]:
        return [self.ask(path, **options).status for _ in range(times)]

    def stop(self) -> None:
        self._clients.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def make_site(store: MemoryStore | RedisStore, clock: ManualClock) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def make(app: Any = hello, **options: Any) -> Site:
        site = Site(app, **{"store": store, "clock": clock, "algorithm": "fixed_window", **options})
        sites.append(site)
        return site

    yield make
    for site in sites:
        site.stop()


def test_limits_hold_for_all_requests_together(make_site):
    site = make_site(limits="3/minute")
    assert [site.ask(path).status for path in ("/", "/nowhere", "/a/b", "/")] == [200, 200, 200, 429]


def test_global_limits_count_all_clients_and_patterns_together(make_site):
    site = make_site(
        limits="9/minute",
        routes={"/login": "1/minute"},
        exempt=["/health"],
        global_limits="3/minute",
        identifiers=by_user,
    )
    assert site.statuses("/login", 3, headers={"X-User": "ann"}) == [200, 429, 429]
    assert site.statuses("/", 3, headers={"X-User": "bob"}) == [200, 200, 429]
    assert site.statuses("/health", 1) == [200]
    alone = make_site(global_limits="4/minute", cost=2, key_prefix="alone")
    assert alone.statuses(times=3) == [200, 200, 429]
    with pytest.raises(InvalidLimit, match=r"^global_limits: "):
        make_site(global_limits="often")


def test_every_response_carries_the_fields(make_site):
    site = make_site(limits="2/minute", headers="both")
    first, missing, refusal = site.ask(), site.ask(headers={"X-Status": "404 Not Found"}), site.ask()
    assert first.headers["RateLimit"].startswith('"application";r=1;t=')
    assert missing.status == 404
    assert missing.headers["RateLimit-Policy"].startswith('"application";q=2;w=')
    assert refusal.headers["X-RateLimit-Remaining"] == "0"


def test_limits_around_limits_are_shown_together(make_site):
    inner = make_site(limits="2/minute").middleware
    site = make_site(inner, limits="9/minute", key_prefix="outer")
    *_, refusal = [site.ask() for _ in range(3)]
    assert refusal.headers["RateLimit-Policy"] == '"application";q=2;w=60, "application-2";q=9;w=60'
    assert refusal.headers["RateLimit"] == '"application";r=0;t=60, "application-2";r=6;t=60'


@pytest.mark.parametrize(
    ("accept", "sent"),
    [
        ({}, "application/problem+json"),
        ({"Accept": "application/json"}, "application/json"),
        ({"Accept": "text/html,*/*;q=0.8"}, "text/html"),
    ],
)
def test_a_refusal_follows_accept(make_site, accept, sent):
    site = make_site(limits="1/minute")
    site.ask()
    refusal = site.ask(headers=accept)
    assert (refusal.status, refusal.headers["Content-Type"]) == (429, sent)
    assert int(refusal.headers["Retry-After"]) >= 1
    assert refusal.headers["Vary"] == "Accept"
    if sent != "text/html":
        assert refusal.json["violated-policies"] == ["application"]


def test_options_is_free_and_head_is_refused_without_a_body(make_site):
    site = make_site(limits="1/minute")
    assert site.statuses(times=3, method="OPTIONS") == [200] * 3
    assert site.statuses(times=2, method="HEAD") == [200, 429]
    environ = {"REQUEST_METHOD": "HEAD", "PATH_INFO": "/", "REMOTE_ADDR": "127.0.0.1"}
    assert list(site.middleware(environ, lambda *_: None)) == []


def test_the_first_pattern_replaces_the_limits_and_is_one_count(make_site):
    site = make_site(
        limits="1/minute",
        routes={"POST /upload/*": "2/minute", "/login": "1/minute", "/upload/*": "3/minute"},
    )
    posts = [site.ask(path, method="POST").status for path in ("/upload/a", "/upload/b/c", "/upload/")]
    assert posts == [200, 200, 429]
    assert site.statuses("/upload/a", 4) == [200, 200, 200, 429]
    assert site.statuses("/login", 2) == [200, 429]
    assert site.statuses("/", 2) == [200, 429]


def test_neither_slashes_nor_head_are_a_way_around_a_pattern(make_site):
    site = make_site(routes={"GET /login": "1/minute"})
    assert site.statuses("/login") == [200]
    for path in ("/login", "/login/", "//login", "//login//"):
        assert site.statuses(path) == [429], path
    assert site.statuses("/login", method="HEAD") == [429]
    assert site.statuses("/login", method="POST") == [200]
    assert site.statuses("/other", 3) == [200] * 3


def test_paths_are_texts_of_utf_8(make_site):
    site = make_site(routes={"/caf\u00e9": "1/minute"})
    assert site.statuses("/caf%C3%A9", 2) == [200, 429]


@pytest.mark.parametrize(
    "exempt", [["/health", "GET /static/*"], lambda environ: environ["PATH_INFO"] != "/"]
)
def test_what_is_exempt_is_not_limited(make_site, exempt):
    site = make_site(limits="1/minute", exempt=exempt)
    assert site.statuses("/health", 3) + site.statuses("/static/a/b", 2) == [200] * 5
    assert "RateLimit-Policy" not in site.ask("/health").headers
    assert site.statuses("/", 2) == [200, 429]


def test_who_is_limited_by_default(make_site):
    site = make_site(limits="2/minute", trusted_proxies=1)
    ask = [("203.0.113.7", "ann"), ("203.0.113.8", "ann"), ("203.0.113.9", "ann"), ("203.0.113.9", "bob")]
    assert [site.ask(headers={"X-Forwarded-For": ip, "X-User": user}).status for ip, user in ask] == [
        200,
        200,
        429,
        200,
    ]


@pytest.mark.parametrize(
    ("identifiers", "sent"),
    [
        (by_header("X-API-Key"), lambda key: {"headers": {"X-API-Key": key}}),
        (by_cookie("session"), lambda key: {"headers": {"Cookie": f"a=b; session={key}"}}),
        (by_user, lambda key: {"headers": {"X-User": key}}),
        (lambda environ: environ["HTTP_X_API_KEY"], lambda key: {"headers": {"X-API-Key": key}}),
    ],
)
def test_builtin_identifiers_and_functions_of_the_environ(make_site, identifiers, sent):
    site = make_site(limits="1/minute", identifiers=identifiers)
    assert [site.ask(**sent(key)).status for key in ("a", "b", "a")] == [200, 200, 429]


def test_a_body_that_limits_go_by_is_still_there_for_the_app(make_site):
    site = make_site(limits="1/minute", identifiers=by_json("account"))
    body, headers = b'{"account": "ann"}', {"Content-Type": "application/json"}
    first = site.ask(method="POST", body=body, headers=headers)
    assert (first.status, first.body) == (200, body)
    assert site.ask(method="POST", body=body, headers=headers).status == 429
    assert site.ask(method="POST", body=b'{"account": "bob"}', headers=headers).status == 200
    assert site.ask(method="POST", body=b"{", headers=headers).status == 200


def test_limits_and_costs_that_functions_name(make_site):
    site = make_site(
        limits=lambda environ: {"/free": ""}.get(environ["PATH_INFO"], "4/minute"),
        cost=lambda environ: int(environ.get("HTTP_X_COST", 1)),
    )
    assert site.statuses("/free", 5) == [200] * 5
    assert [site.ask(headers={"X-Cost": cost}).status for cost in ("3", "2", "1")] == [200, 429, 200]
    assert make_site(limits=lambda: "1/minute", key_prefix="b").statuses(times=2) == [200, 429]


@pytest.mark.parametrize("nothing", [None, [], ()], ids=repr)
@pytest.mark.parametrize("on_error", ["allow", "raise"])
def test_a_function_that_forgets_to_return_a_limit_fails_the_request(make_site, nothing, on_error):
    for options in ({"limits": lambda environ: nothing}, {"routes": {"/": lambda: nothing}}):
        site = make_site(on_error=on_error, **options)
        with pytest.raises(InvalidLimit, match=r"returned .*, not a limit: return '' for no limit"):
            list(site.middleware({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1"}, lambda *_: None))
        assert site.statuses() == [500]


@pytest.mark.parametrize("takes", [1, 2])
def test_what_does_not_count_is_given_back(make_site, takes):
    functions = {
        1: lambda response: response.status_code == 401,
        2: lambda response, environ: environ.get("HTTP_X_STATUS") == response.status == "401 No",
    }
    site = make_site(limits="1/minute", deduct_when=functions[takes])
    assert site.statuses(times=3) == [200] * 3
    assert site.statuses(times=2, headers={"X-Status": "401 No"}) == [401, 429]


def test_an_app_that_fails_answers_500_to_deduct_when(make_site):
    asked = []
    site = make_site(limits="1/minute", deduct_when=lambda response: asked.append(response.status_code))
    assert site.statuses(times=2, headers={"X-Status": "fail"}) == [500, 500]
    assert asked == [500, 500]


def test_on_breach_answers(make_site):
    def sold_out(decision):
        def answer(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [decision.identifier.encode()]

        return answer

    site = make_site(limits="1/minute", on_breach=sold_out)
    answers = [site.ask(), site.ask()]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[1].body == b"ip:127.0.0.1"
    assert answers[1].headers["RateLimit"].startswith('"application";r=0')


@pytest.mark.parametrize(
    ("status", "given", "sent"),
    [
        ("429 Too Many Requests", None, "ours"),
        ("429 Too Many Requests", "1", "ours"),
        ("503 Service Unavailable", "300", "300"),
        ("200 OK", None, None),
    ],
)
def test_an_answer_of_on_breach_has_a_retry_after(make_site, status, given, sent):
    def refuse(environ, start_response):
        own = [] if given is None else [("retry-after", given)]
        start_response(status, [("Content-Type", "text/plain"), *own])
        return [b"later"]

    site = make_site(limits="1/minute", on_breach=lambda decision: refuse)
    site.ask()
    answer = site.ask()
    assert (answer.status, answer.body) == (int(status[:3]), b"later")
    found = answer.headers.get("Retry-After")
    assert found == sent if sent != "ours" else 1 < int(found) <= 62


def test_in_shadow_nothing_is_refused_and_the_log_says_who_would_be(make_site, caplog):
    caplog.set_level(logging.INFO, logger="overlimit")
    site = make_site(limits="1/minute", routes={"/login": "1/minute"}, shadow=True)
    for path, place in (("/x", "any other path"), ("/login", "/login")):
        caplog.clear()
        assert site.statuses(path, times=3) == [200] * 3
        assert [each.levelno for each in caplog.records] == [logging.WARNING, logging.INFO]
        assert all(
            f"would have refused 'ip:127.0.0.1' at '{place}'" in each.message for each in caplog.records
        )


@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 503), ("raise", 500)])
def test_a_store_that_fails(make_site, on_error, status):
    site = make_site(limits="1/minute", store="redis://localhost:1/0", on_error=on_error, clock=None)
    answer = site.ask()
    assert answer.status == status
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert "RateLimit-Policy" not in answer.headers


def test_the_app_sees_the_decision(store, clock):
    seen = []

    def app(environ, start_response):
        seen.append(environ["overlimit.decision"].remaining)
        return hello(environ, start_response)

    middleware = RateLimitMiddleware(app, limits="5/minute", store=store, clock=clock)
    list(middleware({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1"}, lambda *_: None))
    assert seen == [4]


@pytest.mark.parametrize(
    "environ", [{"REQUEST_METHOD": "OPTIONS"}, {"PATH_INFO": "/health"}, {"PATH_INFO": "/free"}]
)
def test_the_app_sees_that_there_is_no_decision(store, environ):
    seen = []

    def app(environ, start_response):
        seen.append(environ["overlimit.decision"])
        return []

    middleware = RateLimitMiddleware(
        app, limits="5/minute", routes={"/free": lambda: ""}, exempt=["/health"], store=store
    )
    middleware({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1", **environ}, lambda *_: None)
    assert seen == [None]


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
