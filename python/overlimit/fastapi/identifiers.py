"""The identifiers of a request, for functions of an app that add to them."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from overlimit._addresses import PEERS, Addresses
from overlimit.fastapi.conversation import StarletteRequest
from overlimit.http.asgi.conversations import CONVERSATION
from overlimit.http.identifying.builtin import by_address, by_user, does_as
from overlimit.http.identifying.default import by_address_and_user


@does_as(by_address, by_user)
def get_identifiers(connection: HTTPConnection) -> list[str]:
    """Return ``["ip:" + address]``, and ``"user:" + id`` if a user is logged in.

    The address is the client's, by the ``trusted_proxies`` of the app's first RateLimit; an IPv6 address
    counts as its network. The user is ``request.scope["user"]``: a str or int is the id itself, any other
    object counts when it is authenticated, by its ``id``, ``get_id()`` or ``identity``.
    """
    addresses = _addresses_for(connection)
    return [*by_address_and_user.with_addresses(addresses).identifiers(StarletteRequest(connection.scope))]


@does_as(by_address)
def get_address(connection: HTTPConnection) -> str:
    """Return the address that `get_identifiers` counts, for ``identifiers`` functions of your own."""
    return _addresses_for(connection).counted(StarletteRequest(connection.scope))


def _addresses_for(connection: HTTPConnection) -> Addresses:
    conversation = connection.scope.get(CONVERSATION)
    first = None if conversation is None else conversation.state.rate_limits.first
    return PEERS if first is None else first.addresses
