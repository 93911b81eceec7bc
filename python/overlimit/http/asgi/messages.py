"""Limits of the messages that a websocket receives."""

from __future__ import annotations

from overlimit.http.asgi.requests import AsgiRequest, Message, Receive, Send
from overlimit.http.asgi.responses import closing
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.deciding.settling import DECISION
from overlimit.http.deciding.steps import run_async
from overlimit.http.identifying.identifiers import IdentifierCache
from overlimit.http.rules.app_rate_limits import AppRateLimit


class LimitedMessages:
    """The two ways of a websocket, which ends where a message is refused."""

    def __init__(
        self, plan: RoutePlan, rate_limit: AppRateLimit, request: AsgiRequest, receive: Receive, send: Send
    ) -> None:
        self._plan, self._rate_limit, self._request = plan, rate_limit, request
        self._receive, self._send = receive, send
        self.identifiers: IdentifierCache | None = None
        """Those of the handshake, which messages have too."""
        self._end: Message | None = None

    async def receive(self) -> Message:
        """Return what the client sent, as long as it is admitted, and then that the websocket is closed."""
        message = await self._receive() if self._end is None else self._end
        if message["type"] == "websocket.receive" and not await self._admits():
            return self._end or message
        return message

    async def send(self, message: Message) -> None:
        """Send to the client, unless the websocket was closed."""
        if self._end is None:
            await self._send(message)

    async def _admits(self) -> bool:
        self._request.begin()
        ledger = RequestLedger(self._request, self._plan)
        ledger.identifiers.update(self.identifiers or ())
        refusal = await ledger.decide_async()
        self.identifiers = ledger.identifiers
        if refusal is None:
            return True
        self._request.scope[DECISION] = ledger.decision(self._rate_limit)
        await run_async(refusal.asking_hooks(callable, "an ASGI app"))
        close = closing(store_failed=refusal.store_failed)
        self._end = {**close, "type": "websocket.disconnect"}
        await self._send(close)
        return False
