"""What a client sends to get another count, or none: what is limited is what the app reads."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from asgi_sites import HELLO
from overlimit import MemoryStore
from overlimit.asgi import RateLimitMiddleware, by_cookie, by_header, by_json

JSON = (b"content-type", b"application/json")


def statuses(app, *requests, path="/", method="GET", **scoped):
    """Send requests as a server hands them over: each is its header fields, or those and its body."""

    async def ask(headers, body=b""):
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {"type": "http", "method": method, "path": path, "headers": headers, "client": None}
        await app({**scope, **scoped}, receive, send)
        return sent[0]["status"]

    async def ask_all():
        return [await ask(*(each if isinstance(each, tuple) else (each,))) for each in requests]

    return asyncio.run(ask_all())


def test_a_header_that_is_sent_twice_is_no_new_client():
    app = RateLimitMiddleware(HELLO, limits="2/minute", identifiers=by_header("x-key"))
    twice = [[(b"x-key", b"good"), (b"x-key", b"%d" % number)] for number in range(3)]
    assert statuses(app, *twice) == [200, 200, 429]
    assert statuses(app, *(fields[::-1] for fields in twice)) == [200, 200, 200]


def test_all_fields_of_proxies_are_read():
    app = RateLimitMiddleware(HELLO, limits="1/minute", trusted_proxies=2)
    fields = [
        [(b"x-forwarded-for", client), (b"x-forwarded-for", b"10.0.0.1")] for client in (b"1.1.1.1",) * 2
    ]
    assert statuses(app, *fields) == [200, 429]
    assert statuses(app, [(b"x-forwarded-for", b"1.1.1.2"), (b"x-forwarded-for", b"10.0.0.1")]) == [200]


def test_a_cookie_that_is_none_for_browsers_hides_no_other():
    app = RateLimitMiddleware(HELLO, limits="1/minute", identifiers=by_cookie("s"), anonymous="exempt")
    fields = [[(b"cookie", text)] for text in (b"s=a", b"s=a; flag", b"a,b=1; s=a", b"x; s=a")]
    assert statuses(app, *fields) == [200, 429, 429, 429]
    assert statuses(app, [(b"cookie", b"x=1"), (b"cookie", b"s=a")], [(b"cookie", b"s=b")]) == [429, 200]


def test_a_second_content_type_does_not_hide_the_body():
    app = RateLimitMiddleware(HELLO, limits="1/minute", identifiers=by_json("a"), anonymous="exempt")
    hidden = ([JSON, (b"content-type", b"x/y")], b'{"a": "victim"}')
    assert statuses(app, hidden, hidden, method="POST") == [200, 429]


def test_a_method_in_small_letters_is_no_way_around():
    app = RateLimitMiddleware(HELLO, routes={"POST /login": "1/minute"}, exempt=["GET /health"])
    asked = [statuses(app, [], path="/login", method=method) for method in ("POST", "post", "Post", "GET")]
    assert asked == [[200], [429], [429], [200]]


@pytest.mark.parametrize("root", ["", "/pre", "/pre/", "/pre/fix"])
def test_no_number_of_slashes_is_a_way_around_a_pattern(root):
    app = RateLimitMiddleware(HELLO, routes={"/api/login": "1/minute", "/": "1/minute"})
    assert statuses(app, [], path=f"{root.rstrip('/')}/api/login", root_path=root) == [200]
    for first, between, last in itertools.product(("/", "//"), ("/", "//", "///"), ("", "/", "//")):
        below = f"{first}api{between}login{last}"
        for path in {below, root.rstrip("/") + below}:
            assert statuses(app, [], path=path, root_path=root) == [429], path
    assert statuses(app, [], path=f"{root.rstrip('/')}api/login", root_path=root) == [200]
    top = {root.rstrip("/"), f"{root.rstrip('/')}/", "/", "//", ""}
    assert sorted(status for path in top for status in statuses(app, [], path=path, root_path=root)) == [
        200,
        *[429] * (len(top) - 1),
    ]


ALIKE = [
    ("/größe", "/grüße"),
    ("/a-b", "/a/b"),
    ("/a.b", "/a/b"),
    ("/a:b", "/a/b"),
    ("/a_b", "/a-b"),
    ("/A", "/a"),
    ("/x--y", "/x/-y"),
    ("/get/x", "GET /x"),
    ("POST /get", "GET /post"),
    ("POST /x", "GET /x"),
    (f"/{'l' * 200}a", f"/{'l' * 200}b"),
    ("/application", "/default"),
]


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_patterns_that_look_alike_count_apart(kind, request):
    store = MemoryStore() if kind == "memory" else request.getfixturevalue("redis_store")
    for number, pair in enumerate(pair for each in ALIKE for pair in (each, each[::-1])):
        app = RateLimitMiddleware(
            HELLO, routes=dict.fromkeys(pair, "1/hour"), store=store, key_prefix=f"n{number}"
        )
        asked = [pattern.rpartition(" ")[::2] for pattern in pair]
        found = [statuses(app, [], [], path=path, method=method or "PUT") for method, path in asked]
        assert found == [[200, 429]] * 2, pair


def test_what_is_beside_an_exempt_pattern_is_limited():
    app = RateLimitMiddleware(HELLO, limits="1/minute", exempt=["/static/*", "GET /health"])
    assert statuses(app, [], [], path="/static/a") == [200, 200]
    assert statuses(app, [], path="/health", method="POST") == [200]
    for path in ("/staticx", "/x/static/a", "/healthy", "/Health", "/health/x"):
        assert statuses(app, [], path=path) == [429], path
    assert statuses(app, [], [], path="/health", method="HEAD") == [200, 200]


def test_a_plain_function_that_returns_a_coroutine_exempts_nobody():
    async def never(scope):
        return False

    def returns_it(scope):
        return never(scope)

    app = RateLimitMiddleware(HELLO, limits="1/minute", exempt=returns_it)
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        statuses(app, [])


@pytest.mark.parametrize("option", ["cost", "identifiers", "key_func", "limits"])
def test_what_would_have_to_be_awaited_is_named(option):
    async def later(scope):
        return 1

    def returns_it(scope):
        return later(scope)

    given = {"limits": "1/minute", option: returns_it}
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        statuses(RateLimitMiddleware(HELLO, **given), [])


@pytest.mark.parametrize("kind", ["memory", "shared memory"])
@pytest.mark.parametrize(
    "options", [{"limits": "4/hour"}, {"routes": {"/*": "4/hour"}}, {"global_limits": "4/hour"}]
)
def test_middleware_around_another_counts_apart(request, kind, options):
    store = "memory://" if kind == "memory" else request.getfixturevalue("shared_memory_store")
    app = HELLO
    for _ in range(3):
        app = RateLimitMiddleware(app, store=store, **options)
    assert statuses(app, *[[]] * 5) == [200] * 4 + [429]


def test_segments_of_dots_exempt_nothing_however_an_app_reads_them():
    app = RateLimitMiddleware(
        HELLO, routes={"/files/*": "1/minute"}, exempt=["/static/*", "/health"], limits="2/minute"
    )
    for path, answers in {
        "/files/../health": [200, 429],
        "/files/../files/a/": [429],
        "/static/../login": [200, 200, 429],
        "/static/..": [429],
        "/./health": [429],
        "/static/x/../y": [200] * 12,
        "/static/./y": [200] * 12,
        "/.well-known/x": [429],
    }.items():
        assert statuses(app, *[[]] * len(answers), path=path) == answers, path
