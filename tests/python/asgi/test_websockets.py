"""Handshakes and messages of websockets, as a server hands them to an app; docs/reference/middleware.md."""

from __future__ import annotations

import asyncio

import pytest

from asgi_sites import Handshake
from overlimit import Limiter
from overlimit.asgi import RateLimitMiddleware


async def echo(scope, receive, send):
    """Accept, and send back every message until the client is gone."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept", "headers": [(b"x-own", b"1")]})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})
    await send({"type": "websocket.send", "text": f"after {message['code']}"})


@pytest.fixture
def limited(store, clock):
    def make(app=echo, **options):
        options = {"store": store, "clock": clock, "algorithm": "fixed_window", **options}
        return RateLimitMiddleware(app, **options)

    return make


def test_an_accepted_handshake_carries_the_fields_and_a_refused_one_is_closed_before_it(limited):
    app = limited(limits="1/minute")
    accepted = Handshake("/ws", "hi").through(app)
    assert accepted.kinds == ["accept", "send", "send"]
    fields = dict(accepted.sent[0]["headers"])
    assert fields[b"ratelimit"] == b'"application";r=0;t=60'
    assert fields[b"x-own"] == b"1"
    refused = Handshake("/ws", "hi").through(app)
    assert refused.sent == [{"type": "websocket.close", "code": 1008, "reason": "rate limit exceeded"}]


def test_a_refusal_is_a_response_where_the_server_can_send_one(limited):
    app = limited(limits="1/minute")
    Handshake().through(app)
    refused = Handshake(denial=True).through(app)
    assert refused.kinds == ["http.response.start", "http.response.body"]
    fields = dict(refused.sent[0]["headers"])
    assert (refused.sent[0]["status"], fields[b"retry-after"]) == (429, b"60")
    assert (fields[b"content-type"], fields[b"ratelimit"]) == (
        b"application/problem+json",
        b'"application";r=0;t=60',
    )


def test_a_handshake_is_a_get_and_its_path_is_matched(limited):
    app = limited(routes={"GET /ws": "1/minute", "POST /*": "0/minute"}, exempt=["/free"])
    assert [Handshake(path).through(app).kinds[0] for path in ("/ws", "/ws/", "/free", "/other")] == [
        "accept",
        "close",
        "accept",
        "accept",
    ]


def test_an_answer_of_on_breach_is_sent_if_it_can_be(limited):
    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 429, "headers": []})
        await send({"type": "http.response.body", "body": b"later"})

    app = limited(limits="0/minute; 1/hour", on_breach=lambda decision: answer)
    refused = Handshake(denial=True).through(app)
    assert refused.kinds == ["http.response.start", "http.response.body"]
    assert refused.sent[1]["body"] == b"later"
    assert Handshake().through(app).kinds == ["close"]


async def rejecting(scope, receive, send):
    await receive()
    await send({"type": "websocket.close", "code": 4000})


def test_deduct_when_sees_whether_a_handshake_was_accepted(limited):
    asked = []
    for app, status in ((echo, 101), (rejecting, 403)):
        given = limited(
            app, limits="1/minute", deduct_when=lambda response: asked.append(response.status_code)
        )
        assert [Handshake().through(given).kinds[0] for _ in range(2)] == [
            "accept" if status == 101 else "close"
        ] * 2
        assert asked == [status] * 2
        asked.clear()


@pytest.mark.every_store
def test_each_message_is_a_hit_and_a_refused_one_closes_that_websocket(limited):
    app = limited(message_limits="3/minute")
    first = Handshake("/ws", "a", "b").through(app)
    assert [message.get("text") for message in first.sent[1:]] == ["a", "b", "after 1000"]
    second = Handshake("/ws", "c", "d", "e").through(app)
    assert second.kinds == ["accept", "send", "close"]
    assert second.sent[1]["text"] == "c"
    assert second.sent[2]["code"] == 1008
    assert Handshake("/ws", "f", ip="192.0.2.2").through(app).kinds == ["accept", "send", "send"]


def test_what_an_app_sends_after_a_refused_message_reaches_nobody(limited):
    seen = []

    async def pushing(scope, receive, send):
        async def push():
            while True:
                await send({"type": "websocket.send", "text": "tick"})
                await asyncio.sleep(0)

        await receive()
        await send({"type": "websocket.accept"})
        pushes = asyncio.create_task(push())
        while (message := await receive())["type"] == "websocket.receive":
            seen.append(message["text"])
            await asyncio.sleep(0)
        seen.append(message["code"])
        await asyncio.sleep(0)
        assert not pushes.done(), "it is no error either"
        pushes.cancel()
        await send({"type": "websocket.close", "code": 1000})

    websocket = Handshake("/ws", *"abc").through(limited(pushing, message_limits="1/minute"))
    assert seen == ["a", 1008]
    assert websocket.kinds.count("close") == 1
    assert (websocket.kinds[-1], websocket.sent[-1]["code"]) == ("close", 1008)
    assert "send" in websocket.kinds


def test_messages_and_handshakes_count_apart_and_identifiers_are_asked_once_a_websocket(limited):
    asked = []

    async def identifiers(scope):
        asked.append(scope["path"])
        return "ann"

    app = limited(limits="2/minute", message_limits="3/minute", identifiers=identifiers)
    ends = [Handshake("/ws", *texts).through(app).kinds[-1] for texts in ("ab", "cd", "e")]
    assert ends == ["send", "close", "close"]
    assert asked == ["/ws"] * 3


def test_what_an_exempt_websocket_receives_is_not_limited(limited):
    app = limited(message_limits="1/minute", exempt=["/free"])
    assert Handshake("/free", *"abc").through(app).kinds == ["accept", *["send"] * 4]


@pytest.mark.parametrize(
    ("on_error", "ends"), [("allow", ["accept", "send", "send"]), ("deny", ["accept", "close"])]
)
def test_messages_while_the_store_fails(limited, on_error, ends):
    app = limited(message_limits="5/minute", store="redis://localhost:1/0", on_error=on_error, clock=None)
    websocket = Handshake("/ws", "a").through(app)
    assert websocket.kinds == ends
    if on_error == "deny":
        assert websocket.sent[-1]["code"] == 1013


@pytest.mark.parametrize("options", [{"limits": "9/minute"}, {"limits": "9/minute", "exempt": ["/*"]}])
@pytest.mark.parametrize("denial", [True, False])
@pytest.mark.parametrize("accepts", [True, False])
def test_what_a_limiter_of_the_app_refuses_ends_a_websocket(limited, clock, options, denial, accepts):
    own = Limiter("1/minute", name="own", clock=clock)

    async def app(scope, receive, send):
        await receive()
        if accepts:
            await send({"type": "websocket.accept"})
        own.throttle("somebody", timeout=0)(lambda: None)()
        await send({"type": "websocket.close" if accepts else "websocket.accept"})

    app = limited(app, **options)
    assert Handshake(denial=denial).through(app).kinds[0] == "accept"
    refused = Handshake(denial=denial).through(app)
    if accepts or not denial:
        assert refused.kinds == ["accept"] * accepts + ["close"]
        assert refused.sent[-1] == {"type": "websocket.close", "code": 1008, "reason": "rate limit exceeded"}
    else:
        assert refused.kinds == ["http.response.start", "http.response.body"]
        assert dict(refused.sent[0]["headers"])[b"retry-after"] == b"61"
        assert b'"own";r=0;t=61' in dict(refused.sent[0]["headers"])[b"ratelimit"]
