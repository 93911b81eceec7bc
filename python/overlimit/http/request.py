"""The protocol by which an adapter of a framework describes a request. All its methods are synchronous."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, Protocol

from overlimit._forwarded import environ_key

LONGEST_JSON = 1_048_576
"""The longest body that is read for an identifier, in bytes."""


def may_have_json(content_type: str | None, length: str | None) -> bool:
    """Return whether a body is JSON that is not too long, as far as its header fields tell."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if not (kind == "application/json" or kind.endswith("+json")):
        return False
    length = length or "0"
    return length.isdecimal() and int(length) <= LONGEST_JSON


def json_in(body: bytes) -> object:
    """Return a body, parsed; None if it is no JSON."""
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        return None


class Request(Protocol):
    """A request of any framework; None stands for what it does not have."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the app's functions are called with, after their other arguments.

        It is empty if they find the current request by themselves; else it is the framework's request.
        """

    def peer_address(self) -> str | None:
        """Return the address of the other end of the connection."""

    def user(self) -> object:
        """Return the user who is logged in: an id, or an object from which `user_id` reads one."""

    def header(self, name: str) -> str | None:
        """Return the value of a header field, of several the one that the app reads."""

    def joined(self, name: str) -> str | None:
        """Return the values of all fields of this name, joined by commas: proxies add fields, too."""

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""

    def path_parameter(self, name: str) -> object:
        """Return the value of a parameter of the route's path."""

    def json(self) -> object:
        """Return the body, parsed as JSON."""


class EnvironRequest:
    """Reads of a request what CGI and WSGI have of it, with its header fields joined by the server."""

    __slots__ = ("_environ", "arguments")

    def __init__(self, environ: MutableMapping[str, Any], argument: object) -> None:
        """Read an environ; functions of the app are called with the argument."""
        self._environ = environ
        self.arguments = (argument,)

    def peer_address(self) -> str | None:
        """Return ``REMOTE_ADDR``."""
        return self._environ.get("REMOTE_ADDR") or None

    def header(self, name: str) -> str | None:
        """Return the value of a header field."""
        return self._environ.get(environ_key(name))

    def joined(self, name: str) -> str | None:
        """Return the value of a header field: servers join those of one name."""
        return self.header(name)
