"""One request or websocket of an app: when it is decided, and how that is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from anyio import from_thread
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from overlimit.fastapi.errors import RateLimitExceeded, RefusedRequest, StoreFailed
from overlimit.http.asgi.requests import DECISION, AsgiRequest, Message, Receive, Scope, Send
from overlimit.http.asgi.responses import Answering, closing, refuse
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.deciding.steps import run_async

if TYPE_CHECKING:
    from overlimit.fastapi.app_state import AppState

CONVERSATION = "overlimit.conversation"
"""The key under which a scope has its conversation."""

current: ContextVar[Conversation | None] = ContextVar("overlimit.conversation", default=None)
"""The conversation that is being handled, also in a thread of its path function."""


class StarletteRequest(AsgiRequest):
    """Reads a scope, so that what is limited is what a path function is given."""

    __slots__ = ("validated",)
    assumed_type = "application/json"  # FastAPI reads it as that, if it is not strict

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.validated: Mapping[str, object] = MappingProxyType({})
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


class Conversation:
    """What the middleware of an app and its routes know of one request."""

    __slots__ = ("_answering", "_send", "_sends", "ledger", "plan", "request", "state")

    def __init__(self, state: AppState, send: Send) -> None:
        self.state = state
        self._send = self._sends = send
        self._answering: Answering | None = None
        self.ledger: RequestLedger | None = None
        self.plan: RoutePlan | None = None
        """What is to be decided; None: nothing, or it was."""
        self.request: StarletteRequest | None = None

    def send(self, message: Message) -> Awaitable[None]:
        """Send to the client, once it was decided with the header fields."""
        return self._send(message) if self._answering is None else self._answering(message)

    async def fail(self) -> None:
        """Refund a request that an exception ends, if a 500 does not count."""
        if self._answering is not None:
            await self._answering.fail()

    def end(self) -> None:
        """Let go of the request, whose scope and ways lead back here."""
        self.request = self.ledger = self._answering = None
        self._sends = self._send

    def begin(self, plan: RoutePlan, request: StarletteRequest, send: Send) -> None:
        """Note what is to be decided for the route that was found."""
        request.begin()
        self.plan, self.request, self._sends = plan, request, send

    def note_values(self, values: Mapping[str, object]) -> None:
        """Note what the path function is given for the parameters of the path."""
        if self.request is not None:
            self.request.validated = values

    async def decide(self, connection: HTTPConnection) -> Response | None:
        """Charge the request; raise if it is refused, or return the response of ``on_breach``."""
        ledger = self._new_ledger(connection)
        later = ledger.decide_later()
        if later is not None:
            await later
        self._note(ledger)
        return None if ledger.refusal is None else await self._refuse(ledger.refusal)

    def decide_in_thread(self, connection: HTTPConnection) -> Response | None:
        """Decide as `decide` does, in a thread for path functions, which may wait for the store."""
        if self.plan is None or self.plan.needs_loop:
            return from_thread.run(self.decide, connection)
        ledger = self._new_ledger(connection)
        ledger.decide()
        self._note(ledger)
        return None if ledger.refusal is None else from_thread.run(self._refuse, ledger.refusal)

    async def admit(self, websocket: WebSocket) -> bool:
        """Charge a handshake; return whether it may go on, and refuse it if not."""
        ledger = self._new_ledger(websocket)
        await ledger.decide_async()
        self._note(ledger)
        if ledger.refusal is None:
            return True
        if websocket.application_state is WebSocketState.CONNECTING:
            await refuse(ledger.refusal, self._asked, _handshake_of(websocket), self._sends)
        else:
            await websocket.send(closing(ledger.refusal))
        return False

    @property
    def _asked(self) -> StarletteRequest:
        assert self.request is not None
        return self.request

    def _new_ledger(self, connection: HTTPConnection) -> RequestLedger:
        plan, request, self.plan = self.plan, self.request, None
        assert plan is not None
        assert request is not None
        request.arguments = (connection,)
        return RequestLedger(request, plan)

    def _note(self, ledger: RequestLedger) -> None:
        self.ledger = ledger
        self._answering = Answering(self._send, ledger)
        self._asked.scope[DECISION] = ledger.latest

    async def _refuse(self, refusal: StoreAnswer) -> Response:
        arguments = self._asked.arguments
        steps = refusal.asking_hooks(arguments, lambda made: isinstance(made, Response), "a Response")
        response: Response | None = await run_async(steps)
        if response is not None:
            return response
        error: RefusedRequest
        if refusal.store_failed:
            error = StoreFailed(refusal.decision)
        else:
            message = await run_async(refusal.asking_message(arguments))
            error = RateLimitExceeded(refusal.decision, message, refusal.violated())
        error.retry_after_name = refusal.retry_after_name
        raise error


def _handshake_of(websocket: WebSocket) -> Receive:
    async def receive() -> Message:
        """Return the handshake, which a dependency may have received already."""
        if websocket.client_state is WebSocketState.CONNECTING:
            return await websocket.receive()
        return {"type": "websocket.connect"}

    return receive
