"""ASGI apps without a framework, for tests."""

from __future__ import annotations

import asyncio
from typing import Any


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


async def streaming(scope: Any, receive: Any, send: Any) -> None:
    """Send a response in parts, with a task of its own."""
    await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send_rest() -> None:
        for part in (b"he", b"ll"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"o"})

    await asyncio.create_task(send_rest())
