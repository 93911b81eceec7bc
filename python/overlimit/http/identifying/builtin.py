"""Built-in ``identifiers`` functions for every framework.

Adapters of frameworks export them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, TypeVar

from overlimit._addresses import PEERS, Addresses, grouped
from overlimit._forwarded import checked_header_name
from overlimit._messages.texts import nearest, short_repr
from overlimit.http.callables import StandsForFunctions, check_callable, dotted_name
from overlimit.http.identifying.identifiers import ReadsRequest, escaped, makes_an_identifier
from overlimit.http.request import Request

C = TypeVar("C", bound=Callable[..., object])

_HEX_DIGITS = 32
_IDS = (str, bytes, int, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)
_log = logging.getLogger("overlimit")
_told_of: set[str] = set()


Normalise = Callable[[str], str] | None
"""Brings values that mean the same to one form before they are counted, as ``str.casefold`` does."""


@dataclass(frozen=True)
class BuiltinIdentifier(ReadsRequest):
    """Reads an identifier from a request; functions of equal names and addresses are called once."""

    written: str
    """How a program writes it."""
    beginnings: tuple[str, ...]
    """What its identifiers begin with."""
    find: Callable[[Request, Addresses], str] = field(compare=False)
    """Returns the identifier; an empty string if there is none."""
    name_of: Callable[[Any, Addresses], str] = field(compare=False)
    """Returns the identifier that a value counts as."""
    addresses: Addresses = PEERS
    """How addresses are found and grouped."""
    reads_body: bool = False
    """Whether it reads the body of a request."""
    path_parameter: str | None = None
    """The parameter of the path that it reads, if it reads one."""

    def read(self, request: Request) -> str:
        """Return the identifier; an empty string if there is none."""
        return self.find(request, self.addresses)

    def identifier(self, value: object) -> str:
        """Return the identifier that a value counts as, such as a header's."""
        return self.name_of(value, self.addresses)

    def may_return(self, identifier: str) -> bool:
        """Return whether an identifier begins as those of this function do."""
        return identifier.startswith(self.beginnings)

    def with_addresses(self, addresses: Addresses) -> BuiltinIdentifier:
        """Return the same function for other addresses."""
        return replace(self, addresses=addresses)

    @property
    def name(self) -> str:
        """How it is written."""
        return self.written

    def __repr__(self) -> str:
        return self.written

    def __hash__(self) -> int:  # asked several times in each request
        return hash(self.written)


def _address(request: Request, addresses: Addresses) -> str:
    return f"ip:{addresses.counted(request)}"


def _name_of_address(address: object, addresses: Addresses) -> str:
    return f"ip:{grouped(str(address), addresses.ipv6_prefix)}"


def _user(request: Request, addresses: Addresses) -> str:
    return _name_of_user(request.user(), addresses)


def _name_of_user(user: object, _: Addresses) -> str:
    known = user_id(user)
    return f"user:{known}" if known else ""


def _user_or_address(request: Request, addresses: Addresses) -> str:
    return _user(request, addresses) or _address(request, addresses)


def _name_of_user_or_address(value: object, addresses: Addresses) -> str:
    try:
        return _name_of_address(ipaddress.ip_address(value), addresses)  # type: ignore[arg-type]
    except ValueError:
        return _name_of_user(value, addresses)


by_address = BuiltinIdentifier((), "by_address", ("ip:",), _address, _name_of_address)
"""``ip:`` and the client's address."""

by_user = BuiltinIdentifier((), "by_user", ("user:",), _user, _name_of_user)
"""``user:`` and the id of the user who is logged in; empty if there is none."""

by_user_or_address = BuiltinIdentifier(
    (), "by_user_or_address", ("user:", "ip:"), _user_or_address, _name_of_user_or_address
)
"""The user if one is logged in, else the address."""

everybody = BuiltinIdentifier((), "everybody", ("all",), lambda request, _: "all", lambda value, _: "all")
"""The same identifier for all requests."""


@makes_an_identifier
def by_header(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a header field: ``header:``, its name in lower case and a hash of its value.

    Raises ValueError unless it can be the name of a header, and TypeError unless ``normalise`` is a function
    of the value.
    """
    known = checked_header_name(name)
    start = f"header:{known.lower()}:"
    return by_value("by_header", name, start, lambda request: request.header(known), normalise, hash_of)


@makes_an_identifier
def by_cookie(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a cookie: ``cookie:``, its name and a hash of its value, which may be a secret.

    Raises TypeError or ValueError for a name that is no string or empty, and as `by_header` does.
    """
    start = f"cookie:{_checked(name)}:"
    return by_value("by_cookie", name, start, lambda request: request.cookie(name), normalise, hash_of)


@makes_an_identifier
def by_path_parameter(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a parameter of the path, as ``tenant`` in ``/<tenant>/orders``: ``path:``, name and value.

    Raises TypeError or ValueError for a name that is no string or empty, and as `by_header` does.
    """
    start = f"path:{_checked(name)}:"

    def read(request: Request) -> str | None:
        value = request.path_parameter(name)
        return None if value is None else str(value)

    return replace(by_value("by_path_parameter", name, start, read, normalise), path_parameter=name)


@makes_an_identifier
def by_json(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a member of the JSON object in the body: ``json:``, its name and value.

    A string and a whole number are used as they are, anything else as JSON: ``1`` and ``"1"`` are one count,
    and ``1.0`` is another, so an app that takes them for the same is to bring them to one form by
    ``normalise``.

    Raises TypeError or ValueError for a name that is no string or empty, and as `by_header` does.
    """
    start = f"json:{_checked(name)}:"

    def read(request: Request) -> object:
        body = request.json()
        return body.get(name) if isinstance(body, dict) else None

    return replace(by_value("by_json", name, start, read, normalise), reads_body=True)


def builtins_in(identify: object) -> Iterator[BuiltinIdentifier]:
    """Yield the built-in functions among those that make up a function."""
    if isinstance(identify, BuiltinIdentifier):
        yield identify
    elif isinstance(identify, StandsForFunctions):
        for each in identify.made_of:
            yield from builtins_in(each)
    else:
        yield from getattr(identify, "__dict__", {}).get(_BUILTINS, ())


_BUILTINS = "_overlimit_builtins"


def does_as(*builtins: BuiltinIdentifier) -> Callable[[C], C]:
    """Mark a function that returns what these built-in ones do, for `builtins_in`."""

    def mark(function: C) -> C:
        vars(function)[_BUILTINS] = builtins
        return function

    return mark


def unknown_parameters(identify: object, known: Collection[str]) -> Iterator[str]:
    """Say which parameters a function reads that are not among those which the paths of a view have."""
    for each in builtins_in(identify):
        name = each.path_parameter
        if name is not None and name not in known:
            like = nearest(name, known)
            hint = f"did you mean {like!r}?" if like else f"there is {', '.join(sorted(known)) or 'none'}"
            yield f"{each.written} tells no requests apart, as no path of this view has {name!r}: {hint}"


_LONGEST = 256
"""A client that sends longer values, each another one, fills no store with them."""


def by_field(
    kind: str, name: str, fields: Callable[[Any], Mapping[str, str]], normalise: Normalise
) -> BuiltinIdentifier:
    """Return the function ``by_KIND`` for a field of those that ``fields`` returns, given the app's request.

    A value of more than 256 characters counts by its hash.
    """
    if not isinstance(name, str) or not name:
        raise (ValueError if name == "" else TypeError)(f"by_{kind} takes the name of a field, not {name!r}")
    return by_value(
        f"by_{kind}",
        name,
        f"{kind}:{name}:",
        lambda request: fields(request.arguments[0]).get(name),
        normalise,
        lambda value: value if len(value) <= _LONGEST else hash_of(value),
    )


def by_value(
    kind: str,
    name: str,
    start: str,
    read: Callable[[Request], object],
    normalise: Normalise,
    counted: Callable[[str], str] = str,
) -> BuiltinIdentifier:
    """Return the function for a value that ``read`` returns, for ``by_header`` and the like.

    It is written as ``kind(name)``; its identifiers begin with ``start``, and ``counted`` returns the rest.
    """
    check_callable("normalise", normalise, 0, of="the value")
    more = "" if normalise is None else f", normalise={dotted_name(normalise)}"
    written = f"{kind}({name!r}{more})"

    def name_of(value: object, _: Addresses) -> str:
        found = _text_of(written, value)
        if found and normalise is not None:
            found = normalise(found)
            if not isinstance(found, str):
                raise TypeError(f"normalise of {written} must return a string, not {type(found).__name__}")
        return f"{start}{counted(found)}" if found else ""

    def find(request: Request, addresses: Addresses) -> str:
        return name_of(read(request), addresses)

    made_of = () if normalise is None else (normalise,)
    return BuiltinIdentifier(made_of, written, (start,), find, name_of)


def _text_of(written: str, value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        raise TypeError(
            f"the value for {written} must be a string or what JSON can hold, not {short_repr(value)}"
        ) from None


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, not {name!r}")
    if not name:
        raise ValueError("a name must not be empty")
    return escaped(name)


def hash_of(value: str) -> str:
    """Return 32 hex digits that stand for a value, which may be a secret, or long."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX_DIGITS]


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
