"""One request or websocket of an app: when it is decided, and how that is answered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from anyio import CancelScope, from_thread
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from overlimit.fastapi.errors import RateLimitExceeded, RefusedRequest, StoreFailed
from overlimit.http.asgi.conversations import BaseConversation
from overlimit.http.asgi.requests import ASGIApp, AsgiRequest, Message, Receive, Replay, Scope, Send
from overlimit.http.asgi.responses import closing, refuse, send_refusal
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.steps import run_async

_NOTHING: Mapping[str, object] = MappingProxyType({})


class StarletteRequest(AsgiRequest):
    """Reads a scope, so that what is limited is what a path function is given."""

    __slots__ = ("validated",)
    assumed_type = "application/json"  # FastAPI reads it as that, if it is not strict

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.validated = _NOTHING
        """The parameters of the path as the path function gets them, once they are validated."""

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        return HTTPConnection(self.scope).cookies.get(name)

    def path_parameter(self, name: str) -> object:
        """Return a parameter of the path: its value, or before it is validated its text."""
        value = self.validated.get(name)
        if value is None:
            return super().path_parameter(name)
        return value.value if isinstance(value, Enum) else value


class Conversation(BaseConversation):
    """What the middleware of an app and its routes know of one request."""

    __slots__ = ()
    request_of = StarletteRequest

    def note_stream(self, stream: Any) -> None:
        """Note what the response is made of, which `leave` ends as it is run: awaited, or in a thread."""
        if getattr(stream, "ag_code", None) is iterate_in_threadpool.__code__ and stream.ag_frame is not None:
            stream = stream.ag_frame.f_locals.get("iterator", stream)
        self.leave = partial(_leave, stream)

    def note_values(self, values: Mapping[str, object]) -> None:
        """Note what the path function is given for the parameters of the path."""
        if isinstance(self.request, StarletteRequest):
            self.request.validated = values

    async def decide_then_answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide a request or a handshake before the app sees it."""
        if scope["type"] == "websocket":
            if await self.admit(WebSocket(scope, receive, send)):
                await app(scope, receive, send)
            return
        replay = Replay(receive)
        response = await self.decide(Request(scope, replay.receive))
        await (app if response is None else response)(scope, replay.receive_again, send)

    async def decide(self, connection: HTTPConnection) -> Response | None:
        """Charge the request; raise if it is refused, or return the response of ``on_breach``."""
        ledger = self.new_ledger(connection)
        later = ledger.decide_later()
        if later is not None:
            await later
        self.note(ledger)
        return None if ledger.refusal is None else await self._refuse(ledger.refusal)

    def decide_in_thread(self, connection: HTTPConnection) -> Response | None:
        """Decide as `decide` does, in a thread for path functions, which may wait for the store."""
        if self.plan is None or self.plan.needs_loop:
            return from_thread.run(self.decide, connection)
        ledger = self.new_ledger(connection)
        ledger.decide()
        self.note(ledger)
        return None if ledger.refusal is None else from_thread.run(self._refuse, ledger.refusal)

    async def admit(self, websocket: WebSocket) -> bool:
        """Charge a handshake; return whether it may go on, and refuse it if not."""
        ledger = self.new_ledger(websocket)
        await ledger.decide_async()
        self.note(ledger)
        if ledger.refusal is None:
            return True
        if websocket.application_state is WebSocketState.CONNECTING:
            request = cast(AsgiRequest, self.request)
            await refuse(ledger.refusal, request, _handshake_of(websocket), self.sends)
        else:
            await websocket.send(closing(store_failed=ledger.refusal.store_failed))
        return False

    def note_raised(self, connection: HTTPConnection, refused: RefusedRequest) -> None:
        """Note what a limiter of the app's own has refused, which the response shows."""
        self.show_raised(refused, self.request or StarletteRequest(connection.scope))

    async def refuse(self, websocket: WebSocket, refused: RefusedRequest) -> None:
        """Answer the handshake of a websocket whose path function has refused it, or close the websocket."""
        self.note_raised(websocket, refused)
        state, request = websocket.application_state, cast(AsgiRequest, self.request)
        if state is not WebSocketState.DISCONNECTED:
            answer, is_accepted = refused.answer(request.joined("Accept")), state is WebSocketState.CONNECTED
            await send_refusal(answer, request, self.send, is_accepted=is_accepted)

    async def _refuse(self, refusal: StoreAnswer) -> Response:
        steps = refusal.asking_hooks(lambda made: isinstance(made, Response), "a Response")
        response: Response | None = await run_async(steps)
        if response is not None:
            return response
        if refusal.store_failed:
            raise StoreFailed(refusal.decision)
        message = await run_async(refusal.asking_message())
        raise RateLimitExceeded(refusal.decision, message, refusal.violated())


async def _leave(stream: Any) -> None:
    """End a generator, if it is one, whatever has ended its request."""
    with CancelScope(shield=True):
        if hasattr(stream, "aclose"):
            await stream.aclose()
        elif hasattr(stream, "close"):
            await run_in_threadpool(stream.close)


def _handshake_of(websocket: WebSocket) -> Receive:
    async def receive() -> Message:
        """Return the handshake, which a dependency may have received already."""
        if websocket.client_state is WebSocketState.CONNECTING:
            return await websocket.receive()
        return {"type": "websocket.connect"}

    return receive
