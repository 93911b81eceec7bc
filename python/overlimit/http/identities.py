"""From what an ``identifiers`` callable returns to the identifiers that are charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["ANONYMOUS", "Distinct", "Identifiers", "Identify", "People", "as_identifiers"]

ANONYMOUS = "anonymous"
"""Who has no identity shares this one, and is limited like any other."""

Identifiers = tuple[str | bytes, ...]

Identify = Callable[[], object]
"""Returns who sends the current request: one identifier, or an iterable of them."""


class Distinct(tuple[str, ...]):
    """Identifiers that are known to be neither empty nor alike."""

    __slots__ = ()


class People(dict[Identify, Identifiers]):
    """Whom each callable names in one request; each is asked once, when that is first wanted to be known."""

    __slots__ = ()

    def __missing__(self, identify: Identify) -> Identifiers:
        """Ask; TypeError for what can be no identifiers."""
        found = identify()
        identifiers = self[identify] = found if type(found) is Distinct else as_identifiers(found)
        return identifiers


def as_identifiers(found: object) -> Identifiers:
    """Return the distinct identifiers of one request, at least one.

    ``None``, an empty text and a list of nothing else mean `ANONYMOUS`; empty members of a list that has
    others are left out. The same identifier as str and as bytes counts once.

    Raises
    ------
    TypeError
        ``found`` is neither a str, bytes or None nor an iterable of these.
    """
    if type(found) is list and _are_plain(found):
        return tuple(found)
    known: dict[bytes, str | bytes] = {}
    for member in _members(found):
        if member:
            known.setdefault(_as_bytes(member), member)
    return tuple(known.values()) or (ANONYMOUS,)


def _are_plain(members: list[object]) -> bool:
    for member in members:
        if type(member) is not str or not member:
            return False
    return 0 < len(set(members)) == len(members)


def _members(found: object) -> tuple[str | bytes | None, ...]:
    if found is None or isinstance(found, (str, bytes)):
        return (found,)
    members = tuple(found) if isinstance(found, Iterable) else (found,)
    for member in members:
        if not (member is None or isinstance(member, (str, bytes))):
            raise TypeError(f"an identifier is a str or bytes, not {member!r}")
    return members


def _as_bytes(identifier: str | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
