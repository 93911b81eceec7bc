"""The identifiers of the current request, for functions of an app that add to them."""

from __future__ import annotations

from quart import current_app, has_app_context

from overlimit._addresses import PEERS, UNKNOWN, Addresses
from overlimit.http.identifying.builtin import by_address, by_user, does_as
from overlimit.http.identifying.default import by_address_and_user
from overlimit.quart.app_state import EXTENSION
from overlimit.quart.conversation import QuartRequest, this_request


@does_as(by_address, by_user)
def get_identifiers() -> list[str]:
    """Return ``["ip:" + address]``, and ``"user:" + id`` if a user is logged in.

    The address is the client's, by the ``trusted_proxies`` of the app's first RateLimit, of IPv6 the network.
    The user is ``g.user``: a str or int as it is, others, if authenticated, by ``get_id()`` or ``id``.
    """
    asked = this_request()
    if asked is None:
        return [f"ip:{UNKNOWN}"]
    return [*by_address_and_user.with_addresses(_addresses_of_app()).identifiers(QuartRequest(asked))]


@does_as(by_address)
def get_address() -> str:
    """Return the address that `get_identifiers` counts, for ``identifiers`` functions of your own."""
    asked = this_request()
    return UNKNOWN if asked is None else _addresses_of_app().counted(QuartRequest(asked))


def _addresses_of_app() -> Addresses:
    state = current_app.extensions.get(EXTENSION) if has_app_context() else None
    first = None if state is None else state.rate_limits.first
    return PEERS if first is None else first.addresses
