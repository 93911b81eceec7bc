"""Ready-made answers to the question who sends a request, for every framework.

A framework's adapter exports them as what its ``identifiers`` take.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from overlimit.http.addresses import Addresses
from overlimit.http.fields import checked_header_name
from overlimit.http.identities import Combined, ReadsRequest
from overlimit.http.request import Request
from overlimit.http.users import user_id

__all__ = [
    "ReadyMade",
    "by_address",
    "by_address_and_user",
    "by_cookie",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_user",
    "by_user_or_address",
]

_HEX_DIGITS = 32
_PEERS = Addresses.of(None, None)


@dataclass(frozen=True)
class ReadyMade(ReadsRequest):
    """Tells from a request whom it counts for; those that are made alike are equal, so asked once."""

    text: str
    """How it is written."""
    find: Callable[[Request, Addresses], str] = field(compare=False)
    """Returns the identifier; an empty text: there is nobody."""
    addresses: Addresses = _PEERS
    """How addresses are read."""

    def read(self, request: Request) -> str:
        """Return the identifier; an empty text: there is nobody."""
        return self.find(request, self.addresses)

    def with_addresses(self, addresses: Addresses) -> ReadyMade:
        """Return the same, read in this way."""
        return replace(self, addresses=addresses)

    @property
    def shown(self) -> str:
        """How it is written."""
        return self.text

    def __repr__(self) -> str:
        """Return how it is written."""
        return self.text


def _address(request: Request, addresses: Addresses) -> str:
    return f"ip:{addresses.counted(request)}"


def _user(request: Request, _: Addresses) -> str:
    known = user_id(request.user())
    return f"user:{known}" if known else ""


def _user_or_address(request: Request, addresses: Addresses) -> str:
    return _user(request, addresses) or _address(request, addresses)


by_address = ReadyMade("by_address", _address)
"""``ip:`` and the client's address."""

by_user = ReadyMade("by_user", _user)
"""``user:`` and the id of who is logged in; without one an empty identity."""

by_user_or_address = ReadyMade("by_user_or_address", _user_or_address)
"""The user if one is logged in, else the address."""

by_address_and_user = Combined([by_address, by_user])
"""The address, and the user if one is logged in: all of them are limited."""


def by_header(name: str) -> ReadyMade:
    """Go by a header field: ``header:``, its name in lower case and a hash of its value, which may be secret.

    Raises
    ------
    ValueError
        It cannot be the name of a header.
    """
    known = checked_header_name(name)
    start = f"header:{known.lower()}"
    return ReadyMade(f"by_header({name!r})", lambda request, _: _hashed(start, request.header(known)))


def by_cookie(name: str) -> ReadyMade:
    """Go by a cookie: ``cookie:``, its name and a hash of its value, which may be secret.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"cookie:{_checked(name)}"
    return ReadyMade(f"by_cookie({name!r})", lambda request, _: _hashed(start, request.cookie(name)))


def by_path_parameter(name: str) -> ReadyMade:
    """Go by a parameter of the path, as ``tenant`` in ``/<tenant>/orders``: ``path:``, its name and value.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"path:{_checked(name)}"

    def read(request: Request, _: Addresses) -> str:
        value = request.path_parameter(name)
        return "" if value is None else _plain(start, str(value))

    return ReadyMade(f"by_path_parameter({name!r})", read)


def by_json(name: str) -> ReadyMade:
    """Go by a member of the JSON object in the body: ``json:``, its name and value.

    A text and a whole number are what they say; anything else counts as it is written in JSON.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    start = f"json:{_checked(name)}"

    def read(request: Request, _: Addresses) -> str:
        body = request.json()
        value = body.get(name) if isinstance(body, dict) else None
        if value is None:
            return ""
        return _plain(start, value if isinstance(value, str) else json.dumps(value, sort_keys=True))

    return ReadyMade(f"by_json({name!r})", read)


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
