"""The lifespan of an ASGI app: its stores release what they have leased before the server ends.

Servers such as uvicorn handle SIGTERM and then die by it, so nothing runs when the interpreter would exit.
"""

from __future__ import annotations

import logging

from overlimit.http.asgi.requests import ASGIApp, Message, Receive, Scope, Send
from overlimit.stores.process_ends import close_all, leases_anywhere

_log = logging.getLogger("overlimit")


async def run_lifespan(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, answers: bool | None = None
) -> None:
    """Run the lifespan of an app, and close every store that leases once the app has shut down.

    If ``answers``, the server is answered here for an app that has no lifespan, as it raises or returns
    instead; by default if there is a store that leases already. Scopes of other types are handed to the app.
    """
    if scope["type"] != "lifespan":
        await app(scope, receive, send)
        return
    lifespan = _Lifespan(receive, send)
    answers = leases_anywhere() if answers is None else answers
    try:
        await app(scope, lifespan.receive, lifespan.send)
    except Exception:
        if lifespan.is_answered or not answers:
            raise
        _log.debug("an app without a lifespan is given one, so that leases are released", exc_info=True)
    if answers and not lifespan.is_answered:
        await lifespan.answer()


class _Lifespan:
    """What an app receives and sends in its lifespan."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._has_begun = False
        self.is_answered = False
        """Whether the app has said anything."""

    async def receive(self) -> Message:
        message = await self._receive()
        self._has_begun = True
        return message

    async def send(self, message: Message) -> None:
        self.is_answered = True
        if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
            close_all()
        await self._send(message)

    async def answer(self) -> None:
        """Answer in the place of the app."""
        if not self._has_begun:
            await self.receive()
        await self.send({"type": "lifespan.startup.complete"})
        await self.receive()
        await self.send({"type": "lifespan.shutdown.complete"})
