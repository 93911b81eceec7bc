"""ASGI apps for tests, and a client that asks them without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class AsgiSite:
    """An app that httpx asks on one event loop."""

    def __init__(self, app: Any) -> None:
        self.asked = app
        self._loop = asyncio.new_event_loop()

    def ask(self, path: str = "/", *, method: str = "GET", ip: str = "192.0.2.1", **options: Any) -> Any:
        """Send one request; an exception of the app is a 500, as servers make it."""
        transport = httpx.ASGITransport(self.asked, client=(ip, 5000), raise_app_exceptions=False)
        return self.run(self._ask(transport, method, path, options))

    async def _ask(self, transport: Any, method: str, path: str, options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            return await client.request(method, path, **options)

    def statuses(self, path: str = "/", times: int = 1, **options: Any) -> list[int]:
        """Return the status codes of so many requests."""
        return [self.ask(path, **options).status_code for _ in range(times)]

    def run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class Handshake:
    """A websocket as a server hands it to an app; the client says these texts and is gone."""

    def __init__(self, path: str = "/ws", *texts: str, ip: str = "192.0.2.1", denial: bool = False) -> None:
        path, _, query = path.partition("?")
        self._scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [],
            "client": (ip, 5000),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}} if denial else {},
        }
        self._received = [
            {"type": "websocket.connect"},
            *({"type": "websocket.receive", "text": text} for text in texts),
            {"type": "websocket.disconnect", "code": 1000},
        ]
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return self._received.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def through(self, app: Any) -> Handshake:
        """Have an app answer it, or the app of a site on its event loop."""
        if isinstance(app, AsgiSite):
            app.run(app.asked(self._scope, self.receive, self.send))
        else:
            asyncio.run(app(self._scope, self.receive, self.send))
        return self

    @property
    def kinds(self) -> list[str]:
        return [message["type"].removeprefix("websocket.") for message in self.sent]


async def HELLO(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body of the request, or do what the header X-Status says."""
    headers = dict(scope["headers"])
    status = headers.get(b"x-status", b"200")
    if status == b"fail":
        raise LookupError("the app failed")
    body, more = b"", True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        body += message.get("body", b"")
    fields = [(b"content-type", b"text/plain"), (b"RateLimit", b"of the app")]
    await send({"type": "http.response.start", "status": int(status), "headers": fields})
    if status == b"299":
        raise LookupError("the app failed after it had begun")
    await send({"type": "http.response.body", "body": body or b"hello"})
