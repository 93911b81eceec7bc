"""Whose id a user object tells."""

from __future__ import annotations

import ipaddress
import logging
import uuid
from collections.abc import Mapping
from types import NoneType

__all__ = ["user_id"]

_IDS = (str, bytes, int, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)
_log = logging.getLogger("overlimit")
_told_of: set[str] = set()


def user_id(user: object) -> str | None:
    """Return the id of who is logged in; None: nobody is, or no id can be told, which is logged once.

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
            "the user of a request is a %s whose id cannot be told, and is not limited as a user: an id is "
            "a str or int itself, or get_id() or .id of an object; name it there, or by identifiers=",
            kind,
        )
