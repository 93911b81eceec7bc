"""From what an app says of who sends a request to the identifiers that are charged."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Literal

from overlimit.http.addresses import Addresses
from overlimit.http.callables import SelfDescribing, shown
from overlimit.http.request import Request

__all__ = [
    "ANONYMOUS",
    "NOBODY",
    "Anonymous",
    "Combined",
    "IdentifierCache",
    "Identifiers",
    "Identify",
    "Key",
    "ReadsRequest",
    "as_identifiers",
    "as_key",
    "ask",
    "with_addresses",
]

ANONYMOUS = "anonymous"
"""Who has no identity shares this one, and is limited like any other unless told otherwise."""

Identifiers = tuple[str | bytes, ...]


class ReadsRequest(SelfDescribing):
    """Says who sends a request, and reads that from the request itself."""

    __slots__ = ()

    def read(self, request: Request) -> object:
        """Return what a function of an app would return."""
        raise NotImplementedError

    def with_addresses(self, addresses: Addresses) -> Identify:
        """Return what says the same and reads addresses in this way."""
        return self


Identify = Callable[..., object] | ReadsRequest
"""Says who sends a request: returns one identifier, or an iterable of them."""


def ask(identify: Identify, request: Request) -> object:
    """Return what it says of a request."""
    return identify.read(request) if isinstance(identify, ReadsRequest) else identify(*request.arguments)


def with_addresses(identify: Identify, addresses: Addresses) -> Identify:
    """Return what says the same and reads addresses in this way."""
    return identify.with_addresses(addresses) if isinstance(identify, ReadsRequest) else identify


Anonymous = Literal["share", "exempt"]
"""What becomes of requests with an empty identity: they share a count, or the limit is not theirs."""

NOBODY: Identifiers = (ANONYMOUS,)
"""The identifiers of an empty identity: this very object, which those of somebody named so are not."""

_MOST_IDENTIFIERS = 16
_TEXTS_OF_THEIR_OWN = (
    uuid.UUID,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def as_identifiers(found: object) -> Identifiers:
    """Return the distinct identifiers of one request; `NOBODY` of an empty identity.

    ``None``, an empty text and a list of nothing else are empty; empty members of a list that has others are
    left out. Whole numbers, UUIDs and what ``ipaddress`` knows are their text. The same identifier as str and
    as bytes counts once.

    Raises
    ------
    TypeError
        ``found`` is neither one of these nor an iterable of them.
    """
    if type(found) is str and found:
        return (found,)
    known: dict[bytes, str | bytes] = {}
    for member in _members(found):
        if member:
            known.setdefault(_as_bytes(member), member)
    return tuple(known.values()) or NOBODY


class IdentifierCache(dict[Identify, Identifiers]):
    """Whom functions have named in one request, each of which is asked only once: ``identities[function]``.

    Raises TypeError for what is no identifier, ValueError for more identifiers than one call may name.
    """

    __slots__ = ("request",)

    request: Request

    def __missing__(self, identify: Identify) -> Identifiers:
        known = as_identifiers(ask(identify, self.request))
        if len(known) > _MOST_IDENTIFIERS:
            raise ValueError(f"a call names at most {_MOST_IDENTIFIERS} identifiers")
        self[identify] = known
        return known


class Key(ReadsRequest):
    """A key function in the sense of Flask-Limiter: whatever it returns is one identifier."""

    __slots__ = ("function",)

    def __init__(self, function: Identify) -> None:
        """Take the function."""
        self.function = function

    def read(self, request: Request) -> str:
        """Return the key of a request; empty: there is none."""
        found = ask(self.function, request)
        return found if type(found) is str else as_key(found)

    def with_addresses(self, addresses: Addresses) -> Key:
        """Return the key of the same function."""
        return Key(with_addresses(self.function, addresses))

    @property
    def shown(self) -> str:
        """What its function is shown as."""
        return shown(self.function)

    @property
    def made_of(self) -> tuple[object, ...]:
        """Its function."""
        return (self.function,)

    def __eq__(self, other: object) -> bool:
        """Tell whether it is a key of the same function, which then is asked only once for both."""
        return isinstance(other, Key) and self.function == other.function

    def __hash__(self) -> int:
        """Return the same for keys of one function."""
        return hash(self.function)


class Combined(ReadsRequest):
    """Several functions that identify a request together: all whom they name are limited."""

    __slots__ = ("members",)

    def __init__(self, members: Iterable[Identify]) -> None:
        """Take the functions, at least one."""
        self.members = tuple(members)

    def read(self, request: Request) -> list[object]:
        """Return all whom they name."""
        return [identifier for member in self.members for identifier in _each(ask(member, request))]

    def with_addresses(self, addresses: Addresses) -> Combined:
        """Return the same functions together."""
        return Combined(with_addresses(member, addresses) for member in self.members)

    @property
    def shown(self) -> str:
        """What its members are shown as."""
        return ", ".join(map(shown, self.members))

    @property
    def made_of(self) -> tuple[object, ...]:
        """Its members."""
        return self.members

    def __eq__(self, other: object) -> bool:
        """Tell whether it combines the same functions."""
        return isinstance(other, Combined) and self.members == other.members

    def __hash__(self) -> int:
        """Return the same for equal ones."""
        return hash(self.members)


def as_key(found: object) -> str:
    """Return what a key function returned as one identifier; empty: it is an empty identity.

    It is the ``str()`` of it. The parts of a tuple or list are joined by ``:``, with a backslash before each
    ``:`` and backslash that is within a part; with an empty part all of it is empty.

    Raises
    ------
    TypeError
        It has no text of its own that is the same for each request.
    """
    if isinstance(found, (tuple, list)):
        parts = [as_key(part) for part in found]
        return ":".join(map(_escaped, parts)) if all(parts) else ""
    if isinstance(found, NoneType):
        return ""
    if isinstance(found, (bytes, bytearray)):
        return found.decode("utf-8", "surrogateescape")
    if _has_no_text(found):
        kind = found.__class__.__name__
        raise TypeError(f"a key function returns a text, or what str() makes one of, and not a {kind}")
    return str(found)


def _escaped(part: str) -> str:
    return part.replace("\\", "\\\\").replace(":", "\\:")


def _has_no_text(found: object) -> bool:
    """Tell of what str() shows by its address or in an order of its own: a new identity at each request."""
    if isinstance(found, (set, frozenset, Iterator)) or callable(found):
        return True
    of = found.__class__  # of a proxy that of the object behind it
    return of.__str__ is object.__str__ and of.__repr__ is object.__repr__


def _members(found: object) -> tuple[str | bytes | None, ...]:
    return tuple(_member(each) for each in _each(found))


def _each(found: object) -> Iterable[object]:
    is_one = isinstance(found, (str, bytes, Mapping, *_TEXTS_OF_THEIR_OWN))
    return found if isinstance(found, Iterable) and not is_one else (found,)


def _member(found: object) -> str | bytes | None:
    if isinstance(found, (str, bytes)):
        return found if issubclass(type(found), (str, bytes)) else str(found)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(int(found))
    if isinstance(found, _TEXTS_OF_THEIR_OWN):
        return str(found)
    if isinstance(found, NoneType):
        return None
    raise TypeError(f"an identifier is a str, bytes, int, UUID or IP address, not {found!r}")


def _as_bytes(identifier: str | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
