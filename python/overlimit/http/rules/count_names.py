"""Names of policies and of header items, made of endpoint, scope and prefix.

A policy name is part of the key in the store, so two different origins never share one: the parts of a name
are joined by a separator that no part may contain, and a name that cannot be written like that gets a hash.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from overlimit._core import is_key_name
from overlimit._patterns import counted_method

_GROUP_KINDS = frozenset({"blueprint"})  # what frameworks call their groups of routes
# The first words of all kinds: a prefix that begins with one of them could be taken for a kind.
_KINDS = _GROUP_KINDS | {"application", "default", "fallback", "file", "global", "meta"}
_KINDS |= {"middleware", "other", "route", "shared", "with"}
_OWN_KINDS = frozenset(
    {"file", "middleware", "other", "route", "route-function", "with"}
)  # what a view can know of
_LONGEST = 64
_HASH_DIGITS = 16
_SEPARATOR = "--"
_SLOT = re.compile(r"[A-Za-z0-9_.]+(?:-[A-Za-z0-9_.]+)*")


class CountName(NamedTuple):
    """Where a limit counts: what the names of its policies are made of."""

    kind: str
    """Such as ``route`` or ``application``; each kind with its variants has a fixed number of ``parts``."""
    parts: tuple[str, ...]
    field_name: str
    """Its name in header fields."""
    endpoint: str
    """The endpoint of the request."""
    method: str
    counted: str | None = None
    """What stands for the only endpoint that it counts; None: it counts several together."""
    variants: tuple[str, ...] = ()

    def variant(self, word: str, *parts: str) -> CountName:
        """Return the name of counts apart from these, by what ``parts`` say."""
        return self._replace(variants=(*self.variants, word), parts=(*self.parts, *parts))

    def by_method(self) -> CountName:
        """Return the name of separate counts for each HTTP method."""
        return self.variant("by-method", counted_method(self.method))

    def of_policy(self, number: int) -> CountName:
        """Return the name of one of the policies that the same options make, numbered from 0."""
        return self.variant("member", str(number)) if number else self

    def instead_of_endpoint(self, counted: str) -> CountName:
        """Return the name of counts of what a function names in place of the endpoint."""
        return self.variant("of")._replace(counted=counted)

    @property
    def is_own(self) -> bool:
        """Whether it is of a limit that is there for this code alone, and no default or that of a group."""
        return self.kind in _OWN_KINDS

    @property
    def slots(self) -> tuple[str, ...]:
        """The parts of a policy's name, no two of which are equal unless their counts are the same."""
        of_endpoint = () if self.counted is None else (self.counted,)
        return "-".join((self.kind, *self.variants)), *of_endpoint, *self.parts

    def policy(self, prefix: str) -> str:
        """Return the name of the policy."""
        return policy_name(*self.slots, prefix=prefix)


def policy_name(kind: str, *parts: str, prefix: str = "") -> str:
    """Name a policy of one origin.

    Each kind comes with a fixed number of ``parts``, so no two origins share a name. What would not match
    ``[A-Za-z0-9_.-]{1,64}`` becomes a readable part and 16 hex digits of a hash.
    """
    slots = (prefix, kind, *parts) if prefix else (kind, *parts)
    name = _SEPARATOR.join(slots)
    plain = len(name) <= _LONGEST and all(map(_SLOT.fullmatch, slots))
    reads_as_kind = any(prefix == kind or prefix.startswith(f"{kind}-") for kind in _KINDS)
    return name if plain and not reads_as_kind else _hashed(name, (prefix, kind, *parts))


def usable_field_name(text: str) -> str:
    """Return ``text`` when it can stand in a header as it is, else a readable part of it and a hash."""
    return text if is_key_name(text) else _hashed(text, (text,))


def field_name_of(pattern: str) -> str:
    """Return the name in header fields of limits of a pattern of requests."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", str(pattern)).strip("-") or "root"


def _hashed(text: str, slots: tuple[str, ...]) -> str:
    # The readable part holds no "--", which every plain name of several slots does: the two never meet.
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", text)[: _LONGEST - _HASH_DIGITS - 1].strip("-")
    digest = hashlib.sha256(ascii(slots).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{readable}-{digest}" if readable else digest
