"""A request or a handshake, as its ASGI scope describes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, TypeAlias

from overlimit.http.callables import Outcomes
from overlimit.http.cookies import cookies_in
from overlimit.http.request import LONGEST_JSON, json_in, may_have_json

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_OUTCOMES = "overlimit.outcomes"
"""The key under which a scope keeps what coroutine functions returned."""


class AsgiRequest:
    """Reads a scope, which functions of the app are given unless ``arguments`` are set to something else."""

    __slots__ = ("arguments", "body", "scope")

    assumed_type = ""
    """The media type of a body whose type is not said."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.arguments: tuple[Any, ...] = (scope,)
        self.body = b""
        """The whole body, once `read_json` has read it."""

    def begin(self) -> None:
        """Begin a decision: no coroutine function has been awaited for it."""
        self.scope[_OUTCOMES] = {}

    @property
    def method(self) -> str:
        """The HTTP method; a handshake of a websocket is a GET."""
        method: str = self.scope.get("method", "GET")
        return method

    @property
    def path(self) -> str:
        """The path below ``root_path``, which it begins with unless the server has left that out."""
        path: str = self.scope["path"]
        root = self.scope.get("root_path", "")
        if not root:
            return path
        root = root.rstrip("/")
        below = path[len(root) :]
        return below if path.startswith(root) and below[:1] in ("", "/") else path

    def peer_address(self) -> str | None:
        """Return the address of the other end, unless it is a Unix socket."""
        client = self.scope.get("client")
        return client[0] if client else None

    def user(self) -> object:
        """Return ``scope["user"]``, or the identity of one that has neither an ``id`` nor ``get_id()``."""
        user = self.scope.get("user")
        if user is None or hasattr(user, "id") or hasattr(user, "get_id"):
            return user
        try:
            return getattr(user, "identity", user) if getattr(user, "is_authenticated", True) else None
        except NotImplementedError:  # as a base class for users may have it
            return getattr(user, "username", user)

    def header(self, name: str) -> str | None:
        """Return the value of a header field; of several that of the first, as frameworks do."""
        return next(self._values(name), None)

    def joined(self, name: str) -> str | None:
        """Return the values of all header fields of this name as one list; None if there is none."""
        return ", ".join(self._values(name)) or None

    def _values(self, name: str) -> Iterator[str]:
        wanted = name.lower().encode("latin-1")
        return (value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        return cookies_in(";".join(self._values("Cookie"))).get(name)

    def path_parameter(self, name: str) -> object:
        """Return a parameter of the path, where a router has put them."""
        return self.scope.get("path_params", {}).get(name)

    def json(self) -> object:
        """Return the body that `read_json` has read, parsed."""
        return json_in(self.body)

    @property
    def may_have_json(self) -> bool:
        """Whether its body is JSON that is not too long, as far as its header fields tell."""
        return may_have_json(self.header("Content-Type") or self.assumed_type, self.header("Content-Length"))


def kept_in(given: Any) -> Outcomes:
    """Return where a scope keeps outcomes, or that of a connection which functions are given."""
    outcomes: Outcomes = getattr(given, "scope", given)[_OUTCOMES]
    return outcomes


class Replay:
    """Lets an app receive what was read of its request before."""

    def __init__(self, receive: Receive, *read: Message) -> None:
        """Begin with messages that were read already."""
        self._receive = receive
        self._read = list(read)

    async def receive(self) -> Message:
        """Read a message, which the app receives again."""
        message = await self._receive()
        self._read.append(message)
        return message

    async def receive_again(self) -> Message:
        """Return what was read, one after the other, and then what comes after that."""
        return self._read.pop(0) if self._read else await self._receive()


_MOST_CHUNKS = 64


async def read_json(request: AsgiRequest, receive: Receive) -> Receive:
    """Read the body of a JSON request unless it is long; return what the app can receive all of it from."""
    if request.scope["type"] != "http" or not request.may_have_json:
        return receive
    message = await receive()
    chunks: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > LONGEST_JSON or not message.get("more_body", False):
            break
        if len(chunks) == _MOST_CHUNKS:
            chunks = [b"".join(chunks)]
        message = await receive()
    body = b"".join(chunks)
    is_whole = message["type"] == "http.request" and not message.get("more_body", False)
    if is_whole and size <= LONGEST_JSON:
        request.body = body
    begun: Message = {"type": "http.request", "body": body, "more_body": not is_whole}
    last = () if message["type"] == "http.request" else (message,)
    return Replay(receive, begun, *last).receive_again
