"""What an app sends: with the header fields of the decision, refunded if it does not count, or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from http import HTTPStatus
from typing import NamedTuple

from overlimit import _core
from overlimit._core import Decision
from overlimit.errors import RateLimitExceeded
from overlimit.http.answering.fields import RawFields, beside, raw, raw_name, shows_fields
from overlimit.http.answering.refusals import RefusalResponse, retry_after_instead
from overlimit.http.asgi.requests import AsgiRequest, Message, Receive, Send
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.steps import run_async
from overlimit.http.rules.app_rate_limits import AppRateLimit

Fields = list[tuple[str, str]]

_REFUSED, _TRY_AGAIN_LATER = 1008, 1013
_DENIAL = "websocket.http.response"
_RESPONSES = ("http.response.start", f"{_DENIAL}.start")
_STARTS = (*_RESPONSES, "websocket.accept", "websocket.close")


class Response(NamedTuple):
    """The response as the app has begun it; ``deduct_when`` is called with it.

    An accepted websocket is a 101, one that is closed before it was accepted a 403.
    """

    status_code: int
    headers: Fields

    def header(self, name: str) -> str | None:
        """Return the value of a header field, whatever the case of its name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Noting:
    """Sends a response as it is, and knows whether there is one; it is called as ``send``."""

    __slots__ = ("_send", "has_started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_started = False

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message."""
        self.has_started = True
        return self._send(message)


# What has nothing to wait for returns what it calls, which costs less than to await that.
class Answering:
    """Sends the response to a request that was decided; it is called as ``send``."""

    __slots__ = ("_fields", "_ledger", "_send", "has_started")

    def __init__(self, send: Send, ledger: RequestLedger) -> None:
        self._send, self._ledger = send, ledger
        self.has_started = False
        self.show()

    def show(self) -> None:
        """Have the response show what the ledger has noted by now."""
        refused_by = self._ledger.refused_by
        if refused_by is not None:
            self._send = with_retry_after(self._send, *refused_by)
        self._fields = self._ledger.raw_fields()

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message; the first one says whether the request counts, and gets the fields."""
        if self.has_started or message["type"] not in _STARTS:
            return self._send(message)
        # The fields may be of an iterator, which can be read but once.
        if type(message.get("headers")) is not list and message["type"] != "websocket.close":
            message = {**message, "headers": list(message.get("headers") or ())}
        return self._refund_then_start(message) if self._ledger.may_refund else self._start(message)

    async def _refund_then_start(self, message: Message) -> None:
        await run_async(self._ledger.refunding_uncounted(_response_of(message)))
        await self._start(message)

    def _start(self, message: Message) -> Awaitable[None]:
        self.has_started = True
        if message["type"] != "websocket.close" and shows_fields(message.get("status", 200)):
            headers = [*message["headers"]]
            is_added = _core._add_fields(headers, self._fields)
            message = {**message, "headers": headers} if is_added else _with_both(message, self._fields)
        return self._send(message)

    async def fail(self) -> None:
        """Refund a request that an exception ends, if a 500 does not count and nothing was sent."""
        if self._ledger.may_refund and not self.has_started:
            await run_async(self._ledger.refunding_uncounted(Response(500, [])))


def _response_of(message: Message) -> Response:
    of_websockets = {"websocket.accept": 101, "websocket.close": 403}
    status = message.get("status") or of_websockets[message["type"]]
    return Response(status, _texts(message.get("headers", ())))


def _with_both(message: Message, ours: RawFields) -> Message:
    """Return a message with fields of ours besides those of the same names that an app within has set."""
    names = {name for name, _ in ours}
    headers = message["headers"]
    theirs = [field for field in headers if field[0].lower() in names]
    fields = beside(_texts(ours), _texts(theirs))
    return {**message, "headers": [*(field for field in headers if field not in theirs), *raw(fields)]}


def _texts(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]


async def answer_raised(
    error: RateLimitExceeded,
    ledger: RequestLedger,
    rate_limit: AppRateLimit,
    request: AsgiRequest,
    answering: Answering,
) -> None:
    """Answer a refusal that the app has raised by a limiter of its own; raise it if a response has begun."""
    if answering.has_started and request.scope["type"] == "http":
        raise error
    refusal = ledger.raised(error.decision, rate_limit, request.joined("Accept"))
    answering.show()
    await send_refusal(refusal, request, answering, is_accepted=answering.has_started)


async def send_refusal(
    refusal: RefusalResponse, request: AsgiRequest, send: Send, *, is_accepted: bool = False
) -> None:
    """Send a refusal, in the place of a websocket that is not accepted if the server can, or close that."""
    if request.scope["type"] == "http":
        await _send_response(refusal, request, send)
    elif is_accepted or not _takes_denial(request):
        await send(closing(store_failed=refusal[0] is HTTPStatus.SERVICE_UNAVAILABLE))
    else:
        await _send_response(refusal, request, _denying(send))


async def refuse(refusal: StoreAnswer, request: AsgiRequest, receive: Receive, send: Send) -> None:
    """Answer a refused request by the app that ``on_breach`` returned, or else in a type that it accepts.

    A websocket gets such an answer if its server has an extension for it, and is closed if not.
    """
    app = await run_async(refusal.asking_hooks(callable, "an ASGI app"))
    if request.scope["type"] == "websocket":
        await receive()  # the handshake, to which this is the answer
        if not _takes_denial(request):
            await send(closing(store_failed=refusal.store_failed))
            return
        send = _denying(send)
    if app is None:
        answer = await run_async(refusal.asking_response(request.joined("Accept")))
        await _send_response(answer, request, send)
    else:
        await app(request.scope, receive, send)


def _takes_denial(request: AsgiRequest) -> bool:
    return _DENIAL in (request.scope.get("extensions") or {})


def closing(*, store_failed: bool) -> Message:
    """Return the message that closes a websocket because of a refusal."""
    code = _TRY_AGAIN_LATER if store_failed else _REFUSED
    return {"type": "websocket.close", "code": code, "reason": "rate limit exceeded"}


async def _send_response(refusal: RefusalResponse, request: AsgiRequest, send: Send) -> None:
    status, fields, body = refusal
    await send({"type": "http.response.start", "status": status.value, "headers": list(raw(fields))})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


def _denying(send: Send) -> Send:
    """Return what sends an HTTP response in the place of a websocket."""

    async def send_denial(message: Message) -> None:
        kind = message["type"]
        await send({**message, "type": f"websocket.{kind}"} if kind.startswith("http.response") else message)

    return send_denial


def with_retry_after(send: Send, decision: Decision, called: str) -> Send:
    """Return what sends a response, and adds Retry-After, by its name, to a 429 or 503 that is without."""
    name = raw_name(called)

    async def send_it(message: Message) -> None:
        if message["type"] in _RESPONSES and message["status"] in (429, 503):
            fields = message["headers"]
            given = next((value.decode("latin-1") for key, value in fields if key.lower() == name), None)
            seconds = retry_after_instead(decision, given)
            if seconds is not None:
                kept = [field for field in fields if field[0].lower() != name]
                message = {**message, "headers": [*kept, (name, seconds.encode())]}
        await send(message)

    return send_it
