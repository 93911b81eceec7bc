"""The identifiers of a request: how they are read from what functions of the app return."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar

from overlimit._addresses import USUAL_IPV6_PREFIX, Addresses, grouped_object
from overlimit._core import MAX_IDENTIFIERS
from overlimit._messages.arguments import checks_arguments
from overlimit._options import is_set
from overlimit.http.callables import (
    StandsForFunctions,
    as_cost,
    check_callable,
    expected_function,
    function_name,
    result_of,
)
from overlimit.http.request import Request

F = TypeVar("F", bound=Callable[..., Any])

ANONYMOUS = "anonymous"
"""The identifier that requests without one share."""

Identifiers = tuple[str | bytes, ...]


class ReadsRequest(StandsForFunctions):
    """Returns the identifiers of a request, which it reads by itself."""

    def read(self, request: Request) -> object:
        """Return one identifier, or an iterable of them."""
        raise NotImplementedError

    def identifiers(self, request: Request) -> Identifiers:
        """Return the distinct identifiers of a request."""
        return as_identifiers(self.read(request))

    def with_addresses(self, addresses: Addresses) -> Identify:
        """Return the same function for other addresses."""
        return replace(self, made_of=tuple(with_addresses(each, addresses) for each in self.made_of))

    def may_return(self, identifier: str) -> bool:
        """Return whether a request may have this identifier."""
        return any(may_return(each, identifier) for each in self.made_of)


Identify = Callable[..., object] | ReadsRequest
"""Returns the identifiers of a request: one, or an iterable of them."""


def ask(identify: Identify, request: Request) -> object:
    """Return what the function returns for a request."""
    if isinstance(identify, ReadsRequest):
        return identify.read(request)
    return result_of(identify, identify(*request.arguments))


def with_addresses(identify: Identify, addresses: Addresses) -> Identify:
    """Return the same function for other addresses."""
    if isinstance(identify, ReadsRequest):
        return identify.with_addresses(addresses)
    if addresses.ipv6_prefix == USUAL_IPV6_PREFIX:
        return identify
    return FromFunctions((identify,), ipv6_prefix=addresses.ipv6_prefix)


def may_return(identify: Identify, identifier: str) -> bool:
    """Return whether a request may have this identifier by the function, of which nothing may be known."""
    return not isinstance(identify, ReadsRequest) or identify.may_return(identifier)


Anonymous = Literal["share", "exempt"]
"""Whether requests without an identifier share a count, or are exempt from the limit."""

NOBODY: Identifiers = (ANONYMOUS,)
"""The identifiers of a request without any; those of a user named "anonymous" are another object."""

_ADDRESSES = ipaddress.IPv4Address, ipaddress.IPv6Address
_TEXTS_OF_THEIR_OWN = uuid.UUID, ipaddress.IPv4Network, ipaddress.IPv6Network


def as_identifiers(found: object, ipv6_prefix: int = USUAL_IPV6_PREFIX) -> Identifiers:
    """Return the distinct identifiers of one request; `NOBODY` if there are none.

    ``None`` and empty strings are left out. Whole numbers, UUIDs and objects of ``ipaddress`` become strings,
    addresses those by which they are counted. The same identifier as str and as bytes counts once. Raises
    TypeError for anything else.
    """
    if type(found) is str and found:
        return (found,)
    if type(found) is tuple and len(found) == 1 and type(found[0]) is str and found[0]:
        return found
    known: dict[bytes, str | bytes] = {}
    for member in [_member(each, ipv6_prefix) for each in _each(found)]:
        if member:
            known.setdefault(_as_bytes(member), member)
    return tuple(known.values()) or NOBODY


class IdentifierCache(dict[Identify, Identifiers]):
    """The identifiers of one request by function, each called once; raises TypeError and ValueError."""

    __slots__ = ("request",)

    request: Request

    def __missing__(self, identify: Identify) -> Identifiers:
        if isinstance(identify, ReadsRequest):
            known = identify.identifiers(self.request)
        else:
            known = as_identifiers(identify(*self.request.arguments))
        if len(known) > MAX_IDENTIFIERS:
            self.refuse_many(identify, known)
        self[identify] = known
        return known

    def refuse_awaitable(self, function: object, returned: object) -> None:
        """Raise TypeError, as a function returned what would have to be awaited; the core calls this, too."""
        result_of(function, returned)

    def check_cost(self, function: object, returned: object) -> None:
        """Raise TypeError or ValueError if a function returned what is no cost; the core calls this."""
        as_cost(function, returned)

    def refuse_many(self, identify: Identify, known: Identifiers) -> NoReturn:
        """Raise ValueError, as a function returned too many; the core calls this, too."""
        raise ValueError(
            f"{function_name(identify)} returned {len(known)} identifiers, where at most {MAX_IDENTIFIERS} "
            "are allowed"
        )


def _members(found: object, ipv6_prefix: int) -> object:
    return found if type(found) is str else [_member(each, ipv6_prefix) for each in _each(found)]


@dataclass(frozen=True)
class FromFunctions(ReadsRequest):
    """All identifiers that one or several functions return."""

    convert: Callable[[Any, int], object] = _members
    """Makes one or several identifiers of what a function returns; given ``ipv6_prefix``, too."""
    ipv6_prefix: int = USUAL_IPV6_PREFIX
    """How many bits of an IPv6 address make one client, where an object of ``ipaddress`` is returned."""

    def with_addresses(self, addresses: Addresses) -> Identify:
        """Return the same functions for other addresses."""
        made_of = tuple(with_addresses(each, addresses) for each in self.made_of)
        return replace(self, made_of=made_of, ipv6_prefix=addresses.ipv6_prefix)

    def read(self, request: Request) -> object:
        """Return the identifiers of all functions."""
        found = [self.convert(ask(each, request), self.ipv6_prefix) for each in self.made_of]
        return found[0] if len(found) == 1 else [identifier for each in found for identifier in _each(each)]


def from_key_function(function: Identify) -> FromFunctions:
    """Return what reads one identifier, whatever the function returns, as Flask-Limiter does."""
    return FromFunctions((function,), as_key)


def as_key(found: object, ipv6_prefix: int = USUAL_IPV6_PREFIX) -> str:
    """Return what a key function returned as one identifier; empty if there is none.

    It is the ``str()`` of it, of an address the text by which it is counted. The parts of a tuple or list are
    joined by ``:``, and a ``:`` or backslash within a part gets a backslash before it. If one part is empty,
    all of it is. Raises TypeError if its text would differ in each request.
    """
    if isinstance(found, (tuple, list)):
        parts = [as_key(part, ipv6_prefix) for part in found]
        return ":".join(map(escaped, parts)) if all(parts) else ""
    if isinstance(found, NoneType):
        return ""
    if isinstance(found, (bytes, bytearray)):
        return found.decode("utf-8", "surrogateescape")
    if isinstance(found, _ADDRESSES):
        return grouped_object(found, ipv6_prefix)
    return as_text("a key function", found)


def as_text(named: str, found: object) -> str:
    """Return the ``str()`` of what a function returned; TypeError if that would differ in each request."""
    if type(found) is not str and (_has_no_text(found) or " at 0x" in str(found)):
        kind = found.__class__.__name__
        raise TypeError(f"{named} must return a string, or an object whose str() is one, not a {kind}")
    return str(found)


def escaped(part: str) -> str:
    """Return a text that can be joined to others by ``:``."""
    return part.replace("\\", "\\\\").replace(":", "\\:")


def _has_no_text(found: object) -> bool:
    """Return whether str() shows its address or an arbitrary order, which differ in each request."""
    if isinstance(found, (set, frozenset, Iterator)) or callable(found):
        return True
    of = found.__class__  # which a proxy answers for its object
    return of.__str__ is object.__str__ and of.__repr__ is object.__repr__


def _each(found: object) -> Iterable[object]:
    is_one = isinstance(found, (str, bytes, Mapping, *_ADDRESSES, *_TEXTS_OF_THEIR_OWN))
    return found if isinstance(found, Iterable) and not is_one else (found,)


def _member(found: object, ipv6_prefix: int) -> str | bytes | None:
    if isinstance(found, (str, bytes)):
        return found if issubclass(type(found), (str, bytes)) else str(found)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(int(found))
    if isinstance(found, _ADDRESSES):
        return grouped_object(found, ipv6_prefix)
    if isinstance(found, _TEXTS_OF_THEIR_OWN):
        return str(found)
    if isinstance(found, NoneType):
        return None
    raise TypeError(f"an identifier must be a str, bytes, int, UUID or IP address, not {found!r}")


def _as_bytes(identifier: str | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")


MAKES_ONE = "makes_an_identifier"


def makes_an_identifier(function: F) -> F:
    """Mark a function that is called in the program, as ``by_header("X-Key")``, and not for each request.

    Its arguments are checked as `checks_arguments` does.
    """
    checked = checks_arguments()(function)
    vars(checked)[MAKES_ONE] = True
    return checked


def _check_was_called(name: str, given: object) -> None:
    if getattr(given, MAKES_ONE, False):
        called = getattr(given, "__name__", "")
        raise TypeError(f"{name} must not be {called} itself: write {called}('...'), with a name")


def identify_by(identifiers: object, key_func: object, arguments: int = 0) -> Identify | None:
    """Return the function that the options of these names stand for; None: neither is set.

    ``arguments`` is the number of arguments for the request with which it is called. Raises TypeError if both
    are set, or one is not what it must be.
    """
    if is_set(identifiers) and is_set(key_func):
        raise TypeError(
            "identifiers and key_func both say who is limited: give one of them, and identifiers=[...] for "
            "several"
        )
    if not is_set(key_func):
        return as_identify("identifiers", identifiers, arguments)
    check_key_func("key_func", key_func, arguments)
    return from_key_function(key_func)  # type: ignore[arg-type]


def check_key_func(name: str, given: object, arguments: int) -> None:
    """Raise TypeError unless it is a built-in function, or one that can be called so."""
    if not isinstance(given, ReadsRequest):
        _check_was_called(name, given)
        check_callable(name, given, arguments)


def as_identify(name: str, given: object, arguments: int = 0) -> Identify | None:
    """Return the function for an option, or for a list; None: it is not set. TypeErrors name the option."""
    if not is_set(given):
        return None
    if isinstance(given, (list, tuple)):
        return FromFunctions(tuple(_as_function(f"each of {name}", member, arguments) for member in given))
    return _as_function(name, given, arguments)


def _as_function(name: str, given: object, arguments: int) -> Identify:
    if isinstance(given, ReadsRequest):
        return given
    if not callable(given):
        raise TypeError(f"{name} must be {expected_function(arguments)}, not {given!r}")
    _check_was_called(name, given)
    check_callable(name, given, arguments, may_yield=True)
    return given
