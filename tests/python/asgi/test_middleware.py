"""`overlimit.asgi.RateLimitMiddleware`: docs/reference/middleware.md."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from asgi_sites import HELLO
from overlimit import InvalidLimit, Limiter, RateLimitExceeded
from overlimit.asgi import RateLimitMiddleware, by_json


@pytest.mark.parametrize(
    "theirs",
    [
        [(b"RateLimit", b'"\xe9";r=1'), (b"RateLimit-Policy", b'"\xc3\xa9";q=1')],
        [(b"X-RateLimit-Remaining", b"9" * 5000), (b"X-RateLimit-Limit", b"\xff")],
        [(b"X-RateLimit-Remaining", b"1"), (b"X-RateLimit-Limit", b"\xe9"), (b"X-RateLimit-Reset", b"\xb2")],
        [(b"X-RateLimit-Remaining", b"\xb2")],
    ],
)
@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_whatever_an_app_says_of_limits_is_no_error_and_loses_no_field(make_site, theirs, kind):
    async def app(scope, receive, send):
        headers = kind([(b"content-type", b"text/plain"), *theirs, (b"x-last", b"1")])
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    counts = {} if kind is list else {"deduct_when": lambda response: response.header("x-last") == "1"}
    answer = make_site(app, limits="2/minute", headers="both", **counts).ask()
    assert (answer.status_code, answer.text, answer.headers["x-last"]) == (200, "hello", "1")
    assert answer.headers["RateLimit"].endswith('"application";r=1;t=60')
    assert len(answer.headers.get_list("X-RateLimit-Remaining")) == 1


class Known:
    is_authenticated, identity = True, "ann"


class Simple:
    is_authenticated, username = True, "bob"

    @property
    def identity(self):
        raise NotImplementedError


class Nobody:
    is_authenticated = False


@pytest.mark.parametrize(
    ("user", "counted"),
    [(Known(), "user:ann"), (Simple(), "user:bob"), ("eve", "user:eve"), (Nobody(), None)],
)
def test_a_user_of_starlette_is_known_by_identity_or_name(user, counted, store):
    seen = []

    async def app(scope, receive, send):
        seen.append([row.identifier for row in scope["overlimit.decision"].details])

    middleware = RateLimitMiddleware(app, limits="9/minute", store=store)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "user": user, "client": None}
    asyncio.run(middleware(scope, None, None))
    assert seen == [["ip:unknown", counted] if counted else ["ip:unknown"]]


def in_parts(*parts):
    async def body():
        for part in parts:
            yield part

    return body()


def test_a_body_that_comes_in_parts_is_read_whole(make_site):
    site = make_site(limits="1/minute", identifiers=by_json("account"))
    send = {"method": "POST", "headers": {"Content-Type": "application/json"}}
    first = site.ask(content=in_parts(b'{"acc', b'ount": ', b'"ann"}'), **send)
    assert (first.status_code, first.content) == (200, b'{"account": "ann"}')
    bodies = [b'{"account": "ann"}', b'{"account": "bob"}']
    assert [site.ask(content=body, **send).status_code for body in bodies] == [429, 200]


@pytest.mark.parametrize("is_told", [True, False], ids=["Content-Length", "in parts"])
def test_a_body_that_is_too_long_is_not_parsed_and_the_app_gets_all_of_it(make_site, is_told):
    site = make_site(limits="1/minute", identifiers=by_json("account"))
    body = b'{"account": "ann", "more": "' + b"x" * 1_100_000 + b'"}'
    content = body if is_told else in_parts(*(body[at : at + 10_000] for at in range(0, len(body), 10_000)))
    first = site.ask(method="POST", content=content, headers={"Content-Type": "application/json"})
    assert (first.status_code, first.content == body) == (200, True)
    short = {"method": "POST", "headers": {"Content-Type": "application/json"}}
    assert site.ask(content=b'{"account": "ann"}', **short).status_code == 200


def test_a_text_of_on_breach_is_an_error_that_says_what_to_return():
    middleware = RateLimitMiddleware(HELLO, limits="0/minute", on_breach=lambda _: "sold out")
    asking = httpx.AsyncClient(transport=httpx.ASGITransport(middleware)).get("http://site/")
    with pytest.raises(TypeError, match=r"on_breach must return an ASGI app, or None .*, not 'sold out'"):
        asyncio.run(asking)


@pytest.mark.parametrize("own", [[(b"x-own", b"1")], ((b"x-own", b"1"),), [[b"x-own", b"1"]], (), None])
def test_the_app_may_give_its_fields_in_any_sequence_which_stays_as_it_was(own):
    before = None if own is None else list(own)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200} | ({} if own is None else {"headers": own}))
        await send({"type": "http.response.body"})

    middleware = RateLimitMiddleware(app, limits="9/minute")
    for _ in range(3):
        sent = []

        async def send(message, sent=sent):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}
        asyncio.run(middleware(scope, None, send))
        names = [name for name, _ in sent[0]["headers"]]
        assert names == [name for name, _ in own or ()] + [b"ratelimit-policy", b"ratelimit"]
    assert own is None or list(own) == before


def test_messages_of_extensions_pass_unchanged():
    messages = [
        {"type": "http.response.early_hint", "links": [b"</a>; rel=preload"]},
        {"type": "http.response.start", "status": 200, "headers": [], "trailers": True},
        {"type": "http.response.pathsend", "path": "/a"},
        {"type": "http.response.trailers", "headers": [(b"x-sum", b"1")], "more_trailers": False},
    ]

    async def app(scope, receive, send):
        for message in messages:
            await send(dict(message))

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}
    asyncio.run(RateLimitMiddleware(app, limits="9/minute")(scope, None, send))
    assert len(sent[1].pop("headers")) == 2
    del messages[1]["headers"]
    assert sent == messages


def test_scopes_of_another_kind_pass_unchanged():
    seen = []

    async def app(*given):
        seen.append(given)

    given = ({"type": "of.the.future"}, object(), object())
    asyncio.run(RateLimitMiddleware(app, limits="0/minute")(*given))
    assert seen == [given]
    assert given[0] == {"type": "of.the.future"}


def test_a_cancelled_request_is_charged_and_its_cancellation_passes_on(store, clock):
    async def app(scope, receive, send):
        await asyncio.Event().wait()

    middleware = RateLimitMiddleware(
        app, limits="2/minute", deduct_when=lambda response: False, store=store, clock=clock
    )
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}

    async def cancelled():
        task = asyncio.create_task(middleware(dict(scope), None, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    asyncio.run(cancelled())
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(middleware(dict(scope), None, send))
    assert sent[0]["status"] == 429


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "limits"),
        ({"limits": "1/s", "message_limits": ""}, InvalidLimit, "message_limits='' is not a limit"),
        ({"message_limits": "5/sec onds"}, InvalidLimit, r"(?s)^message_limits: .*5/sec onds"),
        ({"limits": "1/s", "exempt": lambda scope, more: True}, TypeError, "exempt"),
        ({"limits": "1/s", "header": None}, TypeError, r"no option 'header': did you mean 'headers'\?"),
        ({"limits": "1/s", "message_limit": "1/s"}, TypeError, r"did you mean 'message_limits'\?"),
    ],
)
def test_wrong_options_are_errors_that_name_them_and_say_what_to_write(options, error, message):
    with pytest.raises(error, match=message):
        RateLimitMiddleware(HELLO, **options)


def test_what_is_no_app_is_an_error():
    with pytest.raises(TypeError, match="the first argument must be the ASGI app, not str"):
        RateLimitMiddleware("app", limits="1/s")
    with pytest.raises(TypeError, match=r"RateLimitMiddleware\(\) takes 1 argument .* as limits='1/s'"):
        RateLimitMiddleware(HELLO, "1/s")


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_route_of_starlette_refuses_is_answered_within_it(make_site, clock, is_async):
    own = Limiter("1/minute", name="own", clock=clock)
    spend = own.throttle("somebody", timeout=0)(lambda: PlainTextResponse("ok"))

    async def on_loop(request):
        return spend()

    starlette = Starlette(
        routes=[Route("/", on_loop if is_async else lambda request: spend())],
        middleware=[Middleware(RateLimitMiddleware, limits="9/minute", clock=clock)],
    )
    site = make_site(starlette, exempt=["/*"], limits="1/minute")
    assert site.statuses("/", 3) == [200, 429, 429]
    refusal = site.ask("/")
    assert refusal.json()["violated-policies"] == ["own"]
    assert re.findall(r'"(\w+)";r=(\d)', refusal.headers["RateLimit"]) == [("application", "5"), ("own", "0")]


def test_what_is_refused_after_the_response_has_begun_reaches_the_server(make_site, clock):
    own = Limiter("1/minute", clock=clock)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        own.throttle("somebody", timeout=0)(lambda: None)()
        await send({"type": "http.response.body", "body": b"ok"})

    site = make_site(app, limits="9/minute")
    assert site.ask("/").text == "ok"
    sent = []

    async def send(message):
        sent.append(message["type"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}
    with pytest.raises(RateLimitExceeded):
        site.run(site.middleware(scope, None, send))
    assert sent == ["http.response.start"]
