"""Who sends the current request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import NamedTuple

from flask import Request

from overlimit.flask.current import EXTENSION, current_globals, current_request, this_app, this_request
from overlimit.http import identified_by
from overlimit.http.addresses import UNKNOWN, Proxies, checked_ipv6_prefix, grouped
from overlimit.http.identified_by import IdentifiedBy
from overlimit.http.identities import Identify
from overlimit.http.users import user_id

__all__ = [
    "Addresses",
    "CurrentRequest",
    "by_address",
    "by_cookie",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_user",
    "by_user_or_address",
    "get_address",
    "get_identifiers",
    "identifiers_from",
]

_IPV6_PREFIX = 64
_REMEMBERED = 4096


class Addresses(NamedTuple):
    """Under which text an app counts the address of a request."""

    proxies: Proxies
    ipv6_prefix: int

    @classmethod
    def of(cls, trusted_proxies: int | Sequence[str] | None, ipv6_prefix: int | None) -> Addresses:
        """Read the two options; None: no proxy, networks of 64 bits.

        Raises
        ------
        ValueError, TypeError
            One of them cannot be.
        """
        prefix = _IPV6_PREFIX if ipv6_prefix is None else checked_ipv6_prefix(ipv6_prefix)
        return cls(Proxies(trusted_proxies or 0), prefix)

    def client(self, asked: Request) -> str | None:
        """Return the address of who sent a request; None when it is not known."""
        forwarded_for = asked.environ.get("HTTP_X_FORWARDED_FOR")
        if forwarded_for is None:
            return asked.remote_addr
        return self.proxies.client(asked.remote_addr, forwarded_for)


_ANY_APP = Addresses.of(None, None)


def get_identifiers() -> list[str]:
    """Return ``["ip:" + address]``, and ``"user:" + id`` when a user is logged in.

    The address is that of the client behind the ``trusted_proxies`` of the app's first RateLimit, an IPv6 one
    as its network. The user is ``g.user``, else Flask-Login's ``current_user``. A str or int is the id
    itself. Any other object counts when its ``is_authenticated`` (attribute or method; missing means yes) is
    true; its id is ``get_id()`` or ``id``.
    """
    return list(_identifiers(_addresses_of_app()))


def get_address() -> str:
    """Return the address that `get_identifiers` counts: for ``identifiers`` functions of one's own.

    It is that of the client behind the ``trusted_proxies`` of the app's first RateLimit, an IPv6 one as its
    network; ``unknown`` outside of a request and where there is none.
    """
    asked = this_request()
    if asked is None:
        return UNKNOWN
    addresses = _addresses_of_app()
    return grouped(addresses.client(asked), addresses.ipv6_prefix)


def identifiers_from(addresses: Addresses) -> Identify:
    """Return what `get_identifiers` would be with these addresses."""
    return partial(_identifiers, addresses)


class CurrentRequest:
    """Tells ready-made identifiers of the current request, whose address is read as ``addresses`` says."""

    __slots__ = ("_addresses",)

    def __init__(self, addresses: Addresses | None = None) -> None:
        """Take how addresses are read; None: as the app's first RateLimit does."""
        self._addresses = addresses

    def address(self) -> str:
        """Return the client's address as it is counted."""
        addresses = self._addresses or _addresses_of_app()
        return grouped(addresses.client(current_request()), addresses.ipv6_prefix)

    def user(self) -> object:
        """Return ``g.user``, or else Flask-Login's user."""
        user = getattr(current_globals(), "user", None)
        return _flask_login_user() if isinstance(user, NoneType) else user

    def header(self, name: str) -> str | None:
        """Return the value of a header field."""
        return current_request().headers.get(name)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        return current_request().cookies.get(name)

    def path_parameter(self, name: str) -> object:
        """Return what stands in the path in the place of a parameter."""
        return (current_request().view_args or {}).get(name)

    def json(self) -> object:
        """Return the body read as JSON, if it is JSON."""
        try:
            return current_request().get_json(silent=True)
        except RecursionError:
            return None


class _BySomething(IdentifiedBy):
    """A ready-made ``identifiers`` function, which may be called in a function of one's own, too."""

    def __call__(self) -> str:
        """Return the identifier of the current request; an empty text: it has none."""
        return self.read(_ANY_REQUEST)


_ANY_REQUEST = CurrentRequest()


def _callable(made: IdentifiedBy) -> _BySomething:
    return _BySomething(made.text, made.read)


by_address = _callable(identified_by.by_address)
by_user = _callable(identified_by.by_user)
by_user_or_address = _callable(identified_by.by_user_or_address)


def by_header(name: str) -> Callable[[], str]:
    """Return an ``identifiers`` function that goes by a header field, of whose value it keeps a hash.

    Raises
    ------
    ValueError
        It cannot be the name of a header.
    """
    return _callable(identified_by.by_header(name))


def by_cookie(name: str) -> Callable[[], str]:
    """Return an ``identifiers`` function that goes by a cookie, of whose value it keeps a hash.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    return _callable(identified_by.by_cookie(name))


def by_path_parameter(name: str) -> Callable[[], str]:
    """Return an ``identifiers`` function that goes by a parameter of the route, as ``tenant``.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    return _callable(identified_by.by_path_parameter(name))


def by_json(name: str) -> Callable[[], str]:
    """Return an ``identifiers`` function that goes by a member of the JSON object in the body.

    Raises
    ------
    TypeError, ValueError
        The name is no text, or an empty one.
    """
    return _callable(identified_by.by_json(name))


def _identifiers(addresses: Addresses) -> tuple[str, ...]:
    try:
        address = addresses.client(current_request())
    except RuntimeError:
        address = None
    user = getattr(current_globals(), "user", None)
    if type(user) is not str:
        user = _flask_login_user() if user is None else user
        user = None if user is None else user_id(user)
    return _named(address, addresses.ipv6_prefix, user)


@lru_cache(_REMEMBERED)
def _named(address: str | None, ipv6_prefix: int, user: str | None) -> tuple[str, ...]:
    shown = f"ip:{grouped(address, ipv6_prefix)}"
    return (shown, f"user:{user}") if user else (shown,)


def _addresses_of_app() -> Addresses:
    state = this_app().extensions.get(EXTENSION) if this_request() is not None else None
    first = None if state is None else next(iter(state.bindings), None)
    return _ANY_APP if first is None else first.addresses


def _flask_login_user() -> object:
    # An app that uses Flask-Login has imported it; importing it here would cost each request of all others.
    login = sys.modules.get("flask_login")
    if login is None or not hasattr(this_app(), "login_manager"):
        return None
    return login.current_user
