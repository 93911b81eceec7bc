"""One request or websocket of an app whose routes decide it: what the middleware around them knows of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from overlimit.http.asgi.lifespan import run_lifespan
from overlimit.http.asgi.requests import ASGIApp, AsgiRequest, Message, Receive, Scope, Send
from overlimit.http.asgi.responses import Answering
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import NO_PLAN, RoutePlan
from overlimit.http.deciding.settling import DECISION, keep
from overlimit.http.deciding.steps import run_async

CONVERSATION = "overlimit.conversation"
"""The key under which a scope has its conversation."""

current: ContextVar[BaseConversation | None] = ContextVar("overlimit.conversation", default=None)
"""The conversation that is being handled, also in a thread of the app."""


class BaseConversation:
    """What the middleware of an app and its routes know of one request.

    A route that was found says by `begin` what is to be decided. Whoever decides takes a ledger by
    `new_ledger`, and has it answer by `note`.
    """

    __slots__ = ("_answering", "_send", "leave", "ledger", "plan", "prefix", "request", "sends", "state")

    request_of: type[AsgiRequest] = AsgiRequest
    """Describes a request to limits, given its scope."""

    def __init__(self, state: Any, send: Send) -> None:
        """Begin with nothing to decide; ``state`` is what the adapter knows of the app."""
        self.state = state
        self._send = self.sends = send
        """The ways to the client, from the middleware and from the route."""
        self._answering: Answering | None = None
        self.ledger: RequestLedger | None = None
        self.plan: RoutePlan | None = None
        """What is to be decided; None: nothing, or it was."""
        self.request: AsgiRequest | None = None
        self.prefix = ""
        """The paths and hosts of the mounts that it has passed on its way to a route."""
        self.leave: Callable[[], Awaitable[None]] | None = None
        """Ends the stream of the response, which its client may have left; None: there is none."""

    def send(self, message: Message) -> Awaitable[None]:
        """Send to the client, once it was decided with the header fields."""
        return self._send(message) if self._answering is None else self._answering(message)

    def note_stream(self, stream: Any) -> None:
        """Note what the response is made of, which is to be ended with it."""
        raise NotImplementedError

    async def fail(self) -> None:
        """Refund a request that an exception ends, if a 500 does not count."""
        if self._answering is not None:
            await self._answering.fail()

    def end(self) -> None:
        """Let go of the request, whose scope and ways lead back here; a task may still settle it."""
        if self.ledger is not None:
            del self.ledger.identifiers.request
        self.request = self._answering = self.leave = None
        self.sends = self._send

    def begin(self, plan: RoutePlan, request: AsgiRequest, send: Send) -> None:
        """Note what is to be decided for the route that was found."""
        request.begin()
        self.plan, self.request, self.sends = plan, request, send

    async def give_back(self) -> None:
        """Give back what was charged for an app as a whole, whose route is decided in its place."""
        if self.ledger is not None:
            decided, self.ledger, self._answering = self.ledger, None, None
            await run_async(decided.refunding())

    def new_ledger(self, argument: object) -> RequestLedger:
        """Return a ledger for what is to be decided; functions of the app are called with the argument."""
        plan, request, self.plan = self.plan, self.request, None
        assert plan is not None
        assert request is not None
        request.arguments = (argument,)
        if plan.memories:
            plan.warn_if_apart(False, self.state.app_name)
        return RequestLedger(request, plan)

    def note(self, ledger: RequestLedger) -> None:
        """Note what was decided, which the response shows."""
        assert self.request is not None
        self.ledger = ledger
        self._answering = Answering(self._send, ledger)
        self.request.scope[DECISION] = ledger.latest
        keep(ledger, self.request.scope)

    def show_raised(self, refused: Any, request: AsgiRequest) -> None:
        """Have the response show a refusal that was raised, such as by a limiter of the app's own."""
        if self.ledger is None:
            self.request, self.ledger = request, RequestLedger(request, NO_PLAN)
        first = self.state.rate_limits.first
        if first is not None:
            self.ledger.note_raised(refused.decision, first)
        if self.ledger.refused_by is not None:
            _, refused.retry_after_name = self.ledger.refused_by
        self.note(self.ledger)

    async def decide_then_answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide a request before an app sees it, where routes are apps."""
        raise NotImplementedError


class ConversationMiddleware:
    """Adds the header fields to whatever answers a request that a route has decided."""

    def __init__(self, app: ASGIApp, begin: Callable[[Scope, Send], BaseConversation | None]) -> None:
        """Stand around an app; ``begin`` makes the conversation for a request, or leaves it to one around."""
        self._app, self._begin = app, begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the app answer, with a conversation in its scope."""
        conversation = self._begin(scope, send)
        if conversation is None or scope["type"] not in ("http", "websocket"):
            await run_lifespan(self._app, scope, receive, send)
            return
        scope[CONVERSATION] = conversation
        scope[DECISION] = None
        before = current.get()
        current.set(conversation)
        try:
            await self._app(scope, receive, conversation.send)
        except Exception:
            await conversation.fail()
            raise
        finally:
            try:
                # Whoever was sending a stream may have left it at its yield. It is ended here, where it is
                # the stream of this request, and not wherever it is collected.
                if conversation.leave is not None:
                    await conversation.leave()
            finally:
                current.set(before)
                scope.pop(CONVERSATION, None)
                conversation.end()
