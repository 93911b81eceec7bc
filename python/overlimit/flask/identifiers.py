"""The identifiers of the current request."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from types import NoneType
from typing import Any, ParamSpec

from flask import Flask, g, has_app_context
from flask import Request as FlaskRequest

from overlimit._addresses import PEERS, UNKNOWN, Addresses
from overlimit.flask.current import EXTENSION, current_request, this_app, this_request
from overlimit.http.identifying import builtin
from overlimit.http.identifying.builtin import BuiltinIdentifier, does_as, user_id
from overlimit.http.identifying.default import by_address_and_user, named
from overlimit.http.identifying.identifiers import Identify, ReadsRequest
from overlimit.http.request import Request

P = ParamSpec("P")


_current_globals: Callable[[], object] = g._get_current_object
"""Return what ``flask.g`` stands for; RuntimeError without an app."""

_USUAL_GLOBALS = Flask.app_ctx_globals_class
"""Has no attributes but those that an app sets; what an app puts in its place may compute some."""


@does_as(builtin.by_address, builtin.by_user)
def get_identifiers() -> list[str]:
    """Return ``["ip:" + address]``, and ``"user:" + id`` if a user is logged in.

    The address is the client's, by the ``trusted_proxies`` of the app's first RateLimit; an IPv6 address
    counts as its network. The user is ``g.user``, else Flask-Login's ``current_user``. A str or int is the id
    itself. Any other object counts when its ``is_authenticated`` (attribute or method; missing means yes) is
    true; its id is ``get_id()`` or ``id``.
    """
    return list(_identifiers(_addresses_of_app()))


@does_as(builtin.by_address)
def get_address() -> str:
    """Return the address that `get_identifiers` counts, for ``identifiers`` functions of your own.

    It is the client's, by the ``trusted_proxies`` of the app's first RateLimit; an IPv6 address counts as its
    network. It is ``unknown`` outside of a request and if there is none.
    """
    return UNKNOWN if this_request() is None else _addresses_of_app().counted(CURRENT)


class _ByDefault(ReadsRequest):
    """The same as `get_identifiers`, with the addresses of the RateLimit that uses it."""

    name = by_address_and_user.name

    def read(self, request: Request) -> tuple[str, ...]:
        return _identifiers(_addresses_of_app())

    def with_addresses(self, addresses: Addresses) -> Identify:
        return does_as(builtin.by_address, builtin.by_user)(partial(_identifiers, addresses))

    def may_return(self, identifier: str) -> bool:
        return by_address_and_user.may_return(identifier)


BY_DEFAULT = _ByDefault((get_identifiers,))


class _CurrentRequest:
    """Reads the current request, whichever that is."""

    def __init__(self) -> None:
        self.arguments = ()
        """Empty, because functions of the app find the current request by themselves."""

    def peer_address(self) -> str | None:
        return current_request().remote_addr

    def user(self) -> object:
        user = _user_in_globals()
        return _flask_login_user() if isinstance(user, NoneType) else user

    def header(self, name: str) -> str | None:
        return current_request().headers.get(name)

    def joined(self, name: str) -> str | None:
        return self.header(name)

    def cookie(self, name: str) -> str | None:
        return current_request().cookies.get(name)

    def path_parameter(self, name: str) -> object:
        return (current_request().view_args or {}).get(name)

    def json(self) -> object:
        try:
            return current_request().get_json(silent=True)
        except RecursionError:
            return None


CURRENT = _CurrentRequest()
"""The request that is being handled."""


class FlaskIdentifier(BuiltinIdentifier):
    """A built-in ``identifiers`` function, which other functions may call, too."""

    def __call__(self) -> str:
        """Return the identifier of the current request; an empty text if it has none."""
        return self.find(CURRENT, _addresses_of_app())

    def identifier(self, value: object) -> str:
        """Return the identifier that a value counts as, by the options of the app's first RateLimit."""
        return self.name_of(value, _addresses_of_app() if self.addresses is PEERS else self.addresses)


def _callable(made: BuiltinIdentifier) -> FlaskIdentifier:
    return FlaskIdentifier(**vars(made))


by_address = _callable(builtin.by_address)
by_user = _callable(builtin.by_user)
by_user_or_address = _callable(builtin.by_user_or_address)


def _for_flask(make: Callable[P, BuiltinIdentifier]) -> Callable[P, FlaskIdentifier]:
    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> FlaskIdentifier:
        return _callable(make(*args, **kwargs))

    return made


by_header = _for_flask(builtin.by_header)
by_cookie = _for_flask(builtin.by_cookie)
by_path_parameter = _for_flask(builtin.by_path_parameter)
by_json = _for_flask(builtin.by_json)


def _identifiers(addresses: Addresses) -> tuple[str, ...]:
    try:
        address = _client(current_request(), addresses)
    except RuntimeError:
        address = None
    user = _user_in_globals()
    if type(user) is not str:
        user = _flask_login_user() if user is None else user
        user = None if user is None else user_id(user)
    return named(address, addresses.ipv6_prefix, user)


# The same as Addresses.counted without the grouping, which `named` caches; this is called in each request.
def _client(asked: FlaskRequest, addresses: Addresses) -> str | None:
    if addresses.environ_key is None:
        return asked.remote_addr
    return addresses.client(asked.remote_addr, asked.environ.get(addresses.environ_key))


def _user_in_globals() -> object:
    """Return ``g.user``; None if there is none."""
    known: Any = _current_globals()
    # Asking ``g`` for an attribute that it lacks raises an exception within, which costs as much as deciding.
    return known.get("user") if type(known) is _USUAL_GLOBALS else getattr(known, "user", None)


def _addresses_of_app() -> Addresses:
    state = this_app().extensions.get(EXTENSION) if has_app_context() else None
    first = None if state is None else state.rate_limits.first
    return PEERS if first is None else first.addresses


def _flask_login_user() -> object:
    # An app that uses Flask-Login has imported it; importing it here would cost each request of all others.
    login = sys.modules.get("flask_login")
    if login is None or not hasattr(this_app(), "login_manager"):
        return None
    return login.current_user
