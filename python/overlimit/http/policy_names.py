"""Names of policies and of header items, made of endpoint, scope and prefix.

A policy name is part of the key in the store, so two different origins never share one: the slots of a name
are joined by a separator that no slot may hold, and whatever cannot be written that way gets a hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["distinct", "policy_name", "shown_name"]

# The first words of all kinds: a prefix that begins so could be taken for one.
_KINDS = frozenset({"application", "blueprint", "default", "fallback", "meta", "route", "shared", "with"})
_LONGEST = 64
_HASH_DIGITS = 16
_SEPARATOR = "--"
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{_LONGEST}}}")
_SLOT = re.compile(r"[A-Za-z0-9_.]+(?:-[A-Za-z0-9_.]+)*")


def policy_name(kind: str, *parts: str, prefix: str = "") -> str:
    """Name a policy of one origin.

    Each kind comes with a fixed number of ``parts``, so no two origins share a name. What would not match
    ``[A-Za-z0-9_.-]{1,64}`` becomes a readable part and 16 hex digits of a hash.
    """
    slots = (prefix, kind, *parts) if prefix else (kind, *parts)
    name = _SEPARATOR.join(slots)
    plain = len(name) <= _LONGEST and all(map(_SLOT.fullmatch, slots))
    reads_as_kind = prefix.partition("-")[0] in _KINDS
    return name if plain and not reads_as_kind else _hashed(name, (prefix, kind, *parts))


def shown_name(text: str) -> str:
    """Return ``text`` when it can stand in a header as it is, else a readable part of it and a hash."""
    return text if _NAME.fullmatch(text) else _hashed(text, (text,))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in order; one that was there before gets the first free number behind it."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken[candidate] = None
    return tuple(taken)


def _hashed(text: str, slots: tuple[str, ...]) -> str:
    # The readable part holds no "--", which every plain name of several slots does: the two never meet.
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", text)[: _LONGEST - _HASH_DIGITS - 1].strip("-")
    digest = hashlib.sha256(ascii(slots).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{readable}-{digest}" if readable else digest
