"""Who sends the current request."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from flask import Request

from overlimit.flask.current import EXTENSION, current_globals, current_request, this_app, this_request
from overlimit.http.addresses import UNKNOWN, Proxies, checked_ipv6_prefix, grouped
from overlimit.http.identities import Identify

__all__ = ["Addresses", "get_address", "get_identifiers", "identifiers_from"]

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


def _identifiers(addresses: Addresses) -> tuple[str, ...]:
    try:
        address = addresses.client(current_request())
    except RuntimeError:
        address = None
    user = getattr(current_globals(), "user", None)
    if type(user) is not str:
        found = _user_id(_flask_login_user() if user is None else user)
        user = None if found is None else str(found)
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


def _user_id(user: object) -> object:
    if user is None or isinstance(user, (str, int)):
        return None if isinstance(user, bool) else user
    if not _value(user, "is_authenticated", True):
        return None
    return _value(user, "get_id", None) if hasattr(user, "get_id") else getattr(user, "id", None)


def _value(user: object, name: str, missing: object) -> object:
    found = getattr(user, name, missing)
    return found() if callable(found) else found
