"""Built-in ``identifiers`` functions for every framework.

Adapters of frameworks export them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType

from overlimit.http.answering.fields import checked_header_name
from overlimit.http.identifying.addresses import Addresses
from overlimit.http.identifying.identifiers import Combined, ReadsRequest
from overlimit.http.request import Request

__all__ = [
    "BuiltinIdentifier",
    "by_address",
    "by_address_and_user",
    "by_cookie",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_user",
    "by_user_or_address",
    "user_id",
]

_HEX_DIGITS = 32
_IDS = (str, bytes, int, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)
_log = logging.getLogger("overlimit")
_told_of: set[str] = set()
_PEERS = Addresses.of(None, None)


@dataclass(frozen=True)
class BuiltinIdentifier(ReadsRequest):
    """Reads an identifier from a request; functions of equal names and addresses are called once."""

    text: str
    """How a program writes it."""
    find: Callable[[Request, Addresses], str] = field(compare=False)
    """Returns the identifier; an empty string if there is none."""
    addresses: Addresses = _PEERS
    """How addresses are found and grouped."""

    def read(self, request: Request) -> str:
        """Return the identifier; an empty string if there is none."""
        return self.find(request, self.addresses)

    def with_addresses(self, addresses: Addresses) -> BuiltinIdentifier:
        """Return the same function for other addresses."""
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


by_address = BuiltinIdentifier("by_address", _address)
"""``ip:`` and the client's address."""

by_user = BuiltinIdentifier("by_user", _user)
"""``user:`` and the id of the user who is logged in; empty if there is none."""

by_user_or_address = BuiltinIdentifier("by_user_or_address", _user_or_address)
"""The user if one is logged in, else the address."""

by_address_and_user = Combined([by_address, by_user])
"""The address, and the user if one is logged in: all of them are limited."""


def by_header(name: str) -> BuiltinIdentifier:
    """Identify by a header field: ``header:``, its name in lower case and a hash of its value.

    Raises
    ------
    ValueError
        It cannot be the name of a header.
    """
    known = checked_header_name(name)
    start = f"header:{known.lower()}"
    return BuiltinIdentifier(f"by_header({name!r})", lambda request, _: _hashed(start, request.header(known)))


def by_cookie(name: str) -> BuiltinIdentifier:
    """Identify by a cookie: ``cookie:``, its name and a hash of its value, which may be a secret.

    Raises
    ------
    TypeError, ValueError
        The name is not a string, or empty.
    """
    start = f"cookie:{_checked(name)}"
    return BuiltinIdentifier(f"by_cookie({name!r})", lambda request, _: _hashed(start, request.cookie(name)))


def by_path_parameter(name: str) -> BuiltinIdentifier:
    """Identify by a parameter of the path, as ``tenant`` in ``/<tenant>/orders``: ``path:``, name and value.

    Raises
    ------
    TypeError, ValueError
        The name is not a string, or empty.
    """
    start = f"path:{_checked(name)}"

    def read(request: Request, _: Addresses) -> str:
        value = request.path_parameter(name)
        return "" if value is None else _plain(start, str(value))

    return BuiltinIdentifier(f"by_path_parameter({name!r})", read)


def by_json(name: str) -> BuiltinIdentifier:
    """Identify by a member of the JSON object in the body: ``json:``, its name and value.

    A string and a whole number are used as they are, anything else as JSON.

    Raises
    ------
    TypeError, ValueError
        The name is not a string, or empty.
    """
    start = f"json:{_checked(name)}"

    def read(request: Request, _: Addresses) -> str:
        body = request.json()
        value = body.get(name) if isinstance(body, dict) else None
        if value is None:
            return ""
        return _plain(start, value if isinstance(value, str) else json.dumps(value, sort_keys=True))

    return BuiltinIdentifier(f"by_json({name!r})", read)


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, not {name!r}")
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


def user_id(user: object) -> str | None:
    """Return the id of a user; None if nobody is logged in or there is no id, which is logged once.

    A str, int or UUID is the id itself. Any other object counts when its ``is_authenticated`` (attribute or
    method; missing means yes) is true; its id is ``get_id()`` or ``id``.
    """
    if _is_nobody(user):
        return None
    found = user if _is_id(user) else _id_within(user)
    text = _text(found)
    if not text:
        _tell_of(user)
    return text or None


def _is_nobody(user: object) -> bool:
    if isinstance(user, (NoneType, bool)):
        return not user
    if isinstance(user, (str, bytes, Mapping)):
        return len(user) == 0
    return not (_is_id(user) or _value(user, "is_authenticated", True))


def _is_id(user: object) -> bool:
    return isinstance(user, _IDS) and not isinstance(user, bool)


def _id_within(user: object) -> object:
    return _value(user, "get_id", None) if hasattr(user, "get_id") else getattr(user, "id", None)


def _value(user: object, name: str, missing: object) -> object:
    found = getattr(user, name, missing)
    return found() if callable(found) else found


def _text(found: object) -> str:
    if isinstance(found, NoneType):
        return ""
    return found.decode("utf-8", "surrogateescape") if isinstance(found, bytes) else str(found)


def _tell_of(user: object) -> None:
    kind = user.__class__.__name__
    if kind not in _told_of:
        _told_of.add(kind)
        _log.warning(
            "the user of a request is a %s, which has no id, so the request is not limited by user: let the "
            "user be a str, an int, or an object with get_id() or .id, or return the id from identifiers=",
            kind,
        )
