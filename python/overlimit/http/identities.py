"""From what an ``identifiers`` callable returns to the identifiers that are charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["ANONYMOUS", "Identifiers", "Identify", "People", "as_identifiers"]

ANONYMOUS = "anonymous"
"""Who has no identity shares this one, and is limited like any other."""

Identifiers = tuple[str | bytes, ...]

Identify = Callable[[], object]
"""Returns who sends the current request: one identifier, or an iterable of them."""


People = dict[Identify, Identifiers]
"""Whom each callable has named in a request, so that it is asked only once."""


def as_identifiers(found: object) -> Identifiers:
    """Return the distinct identifiers of one request, at least one.

    ``None``, an empty text and a list of nothing else mean `ANONYMOUS`; empty members of a list that has
    others are left out. A whole number is its text. The same identifier as str and as bytes counts once.

    Raises
    ------
    TypeError
        ``found`` is neither a str, bytes, int or None nor an iterable of these.
    """
    known: dict[bytes, str | bytes] = {}
    for member in _members(found):
        if member:
            known.setdefault(_as_bytes(member), member)
    return tuple(known.values()) or (ANONYMOUS,)


def _members(found: object) -> tuple[str | bytes | None, ...]:
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        return tuple(_member(each) for each in found)
    return (_member(found),)


def _member(found: object) -> str | bytes | None:
    if found is None or isinstance(found, (str, bytes)):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise TypeError(f"an identifier is a str, bytes or int, not {found!r}")


def _as_bytes(identifier: str | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
