"""A websocket as a server hands it to an app."""

from __future__ import annotations

from typing import Any


class Handshake:
    """The client is gone once it was accepted."""

    def __init__(self, path: str, *, denial: bool = False) -> None:
        path, _, query = path.partition("?")
        self._scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [],
            "client": ("192.0.2.1", 5000),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}} if denial else {},
        }
        self._received = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        return self._received.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def through(self, site: Any) -> Handshake:
        site.run(site.asked(self._scope, self.receive, self.send))
        return self

    @property
    def kinds(self) -> list[str]:
        return [message["type"].removeprefix("websocket.") for message in self.sent]
