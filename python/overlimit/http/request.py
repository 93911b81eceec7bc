"""What a web framework tells of a request: all that limits can go by."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Request"]


class Request(Protocol):
    """A request as a framework tells of it; what a request does not have is None."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the functions of the app are called with, behind arguments of their own.

        Nothing where they find the request by themselves, as in Flask; else the request.
        """

    def peer_address(self) -> str | None:
        """Return the address that the connection came from."""

    def user(self) -> object:
        """Return who is logged in: an id, or an object that `user_id` finds one in."""

    def header(self, name: str) -> str | None:
        """Return the value of a header field."""

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""

    def path_parameter(self, name: str) -> object:
        """Return what stands in the path in the place of a parameter."""

    def json(self) -> object:
        """Return the body read as JSON, if it is JSON."""
