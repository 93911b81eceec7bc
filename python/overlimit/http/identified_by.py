"""Ready-made answers to the question who sends a request, for every framework.

A framework's adapter gives `Request`, and exports the functions here as what its ``identifiers`` take.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from overlimit.http.functions import SaysWhatItIs
from overlimit.http.identities import Combined, Identify, Key
from overlimit.http.legacy import checked_header_name
from overlimit.http.users import user_id

__all__ = [
    "IdentifiedBy",
    "Request",
    "by_address",
    "by_cookie",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_user",
    "by_user_or_address",
    "reading",
]

_HEX_DIGITS = 32


class Request(Protocol):
    """What an adapter tells of a request; what is not there is None."""

    def address(self) -> str:
        """Return the client's address as it is counted, behind trusted proxies and by network."""

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


@dataclass(frozen=True)
class IdentifiedBy(SaysWhatItIs):
    """Tells from a request whom it counts for; those that are made alike are equal, so asked once."""

    text: str
    """How it is written."""
    read: Callable[[Request], str] = field(compare=False)
    """Returns the identifier; an empty text: there is nobody."""

    @property
    def shown(self) -> str:
        """How it is written."""
        return self.text

    def __repr__(self) -> str:
        """Return how it is written."""
        return self.text


@dataclass(frozen=True)
class _Reading(SaysWhatItIs):
    """A ready-made answer to be read from the current request, as one framework tells of it."""

    what: IdentifiedBy
    request: Request

    def __call__(self) -> str:
        return self.what.read(self.request)

    @property
    def shown(self) -> str:
        return self.what.shown


def reading(identify: Identify, request: Request) -> Identify:
    """Return a function of the app with the ready-made parts of it read from ``request``."""
    if isinstance(identify, IdentifiedBy):
        return _Reading(identify, request)
    if isinstance(identify, Key):
        return Key(reading(identify.function, request))
    if isinstance(identify, Combined):
        return Combined(reading(member, request) for member in identify.members)
    return identify


def _address(request: Request) -> str:
    return f"ip:{request.address()}"


def _user(request: Request) -> str:
    known = user_id(request.user())
    return f"user:{known}" if known else ""


by_address = IdentifiedBy("by_address", _address)
"""``ip:`` and the client's address."""

by_user = IdentifiedBy("by_user", _user)
"""``user:`` and the id of who is logged in; without one an empty identity."""

by_user_or_address = IdentifiedBy("by_user_or_address", lambda request: _user(request) or _address(request))
"""The user if one is logged in, else the address."""


def by_header(name: str) -> IdentifiedBy:
    """Go by a header field: ``header:``, its name in lower case and a hash of its value, which may be secret.

    Raises
    ------
    ValueError
        It cannot be the name of a header.
    """
    known = checked_header_name(name)
    start = f"header:{known.lower()}"
    return IdentifiedBy(f"by_header({name!r})", lambda request: _hashed(start, request.header(known)))


def by_cookie(name: str) -> IdentifiedBy:
    """Go by a cookie: ``cookie:``, its name and a hash of its value, which may be secret.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"cookie:{_checked(name)}"
    return IdentifiedBy(f"by_cookie({name!r})", lambda request: _hashed(start, request.cookie(name)))


def by_path_parameter(name: str) -> IdentifiedBy:
    """Go by a parameter of the path, as ``tenant`` in ``/<tenant>/orders``: ``path:``, its name and value.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"path:{_checked(name)}"

    def read(request: Request) -> str:
        value = request.path_parameter(name)
        return "" if value is None else _plain(start, str(value))

    return IdentifiedBy(f"by_path_parameter({name!r})", read)


def by_json(name: str) -> IdentifiedBy:
    """Go by a member of the JSON object in the body: ``json:``, its name and value.

    A text and a whole number are what they say; anything else counts as it is written in JSON.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"json:{_checked(name)}"

    def read(request: Request) -> str:
        body = request.json()
        value = body.get(name) if isinstance(body, dict) else None
        if value is None:
            return ""
        return _plain(start, value if isinstance(value, str) else json.dumps(value, sort_keys=True))

    return IdentifiedBy(f"by_json({name!r})", read)


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name is a text, not {name!r}")
    if not name:
        raise ValueError("a name must not be empty")
    return name.replace("\\", "\\\\").replace(":", "\\:")


def _plain(start: str, value: str) -> str:
    return f"{start}:{value}" if value else ""


def _hashed(start: str, value: str | None) -> str:
    if not value:
        return ""
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{start}:{digest[:_HEX_DIGITS]}"
