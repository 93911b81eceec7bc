"""One request or websocket of an app, and how it is decided."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from quart import Request, Websocket, g, has_request_context, has_websocket_context, request, websocket

from overlimit.http.asgi.conversations import BaseConversation, current
from overlimit.http.asgi.requests import AsgiRequest, Scope, Send
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.deciding.steps import run_async
from overlimit.http.request import LONGEST_JSON
from overlimit.quart.errors import refuse


def this_request() -> Request | Websocket | None:
    """Return the request or the websocket that is being handled; None outside of one."""
    if has_request_context():
        return request._get_current_object()  # type: ignore[no-any-return, attr-defined]
    if has_websocket_context():
        return websocket._get_current_object()  # type: ignore[no-any-return, attr-defined]
    return None


def limited_request() -> Request | Websocket | None:
    """Return the request that is being handled, unless it is for OPTIONS, which is never limited."""
    asked = this_request()
    return None if asked is None or asked.method == "OPTIONS" else asked


class QuartRequest(AsgiRequest):
    """Describes a request to limits, as a view sees it."""

    __slots__ = ("asked",)

    def __init__(self, asked: Request | Websocket) -> None:
        super().__init__(cast(Scope, asked.scope))
        self.asked = asked

    def user(self) -> object:
        """Return ``g.user``, or else what a middleware has put into the scope."""
        user = g.get("user")
        return super().user() if user is None else user

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        return self.asked.cookies.get(name)

    def path_parameter(self, name: str) -> object:
        """Return the value that the view is given by this name."""
        return (self.asked.view_args or {}).get(name)

    async def read_body(self) -> None:
        """Read the body of a JSON request unless it is long; the view can read it again."""
        if isinstance(self.asked, Request) and self.may_have_json:
            body = cast(bytes, await self.asked.get_data())
            self.body = body if len(body) <= LONGEST_JSON else b""


class Conversation(BaseConversation):
    """What the middleware of an app and its views know of one request."""

    __slots__ = ("loop",)

    def __init__(self, state: Any, send: Send | None) -> None:
        super().__init__(state, send or _nobody)
        self.loop = asyncio.get_running_loop()

    @classmethod
    def of(cls, state: Any) -> Conversation:
        """Return that of the current request, which in a context without a server is begun here."""
        if not isinstance(known := current.get(), cls):
            current.set(known := cls(state, None))
        return known

    def ledger_of(self, asked: Request | Websocket, plan: RoutePlan | None = None) -> RequestLedger:
        """Return the ledger of the request, begun with the plan of its view if there is none so far."""
        if self.ledger is None:
            self.begin(plan or self.state.plan_of(asked), QuartRequest(asked), self.sends)
            self.ledger = self.new_ledger(asked)
        return self.ledger

    async def decide(self, ledger: RequestLedger, plan: RoutePlan) -> None:
        """Charge the request by a plan; raise RateLimitExceeded or StoreFailed if it is refused."""
        assert isinstance(self.request, QuartRequest)
        if plan.memories:
            plan.warn_if_apart(False, self.state.app_name)
        if plan.needs_body:
            await self.request.read_body()
        is_own = plan is ledger.plan
        later: Any = ledger.decide_later() if is_own else run_async(ledger.deciding(plan.stores))
        answer = None if later is None else await later
        refusal = ledger.own_refusal if is_own else answer
        self.note(ledger)
        if refusal is not None:
            await refuse(refusal)


async def _nobody(_: object) -> None:
    """Send to nobody, where there is no server."""
