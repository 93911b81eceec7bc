"""Who is limited where no option says so: the address, and the user if one is logged in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from overlimit._addresses import PEERS, Addresses, grouped
from overlimit.http.identifying.builtin import by_address, by_user, user_id
from overlimit.http.identifying.identifiers import ReadsRequest
from overlimit.http.request import Request

_REMEMBERED = 4096
_MOST_ADDRESSES = 64


@dataclass(frozen=True, eq=False)
class _AddressAndUser(ReadsRequest):
    """Reads what both functions do; as the default it is asked in most requests, and made to be fast.

    There is one for the same addresses, so two are equal if they are the same, which is quick to tell.
    """

    addresses: Addresses

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def read(self, request: Request) -> tuple[str, ...]:
        return self.identifiers(request)

    def identifiers(self, request: Request) -> tuple[str, ...]:
        addresses = self.addresses
        address = request.peer_address()
        if addresses.header is not None:
            address = addresses.client(address, request.joined(addresses.header))
        user = request.user()
        if type(user) is not str:
            user = None if user is None else user_id(user)
        return named(address, addresses.ipv6_prefix, user)

    def with_addresses(self, addresses: Addresses) -> _AddressAndUser:
        return _of_addresses(addresses)


@lru_cache(_MOST_ADDRESSES)
def _of_addresses(addresses: Addresses) -> _AddressAndUser:
    known = by_address.with_addresses(addresses), by_user.with_addresses(addresses)
    return _AddressAndUser(known, addresses)


@lru_cache(_REMEMBERED)
def named(address: str | None, ipv6_prefix: int, user: str | None) -> tuple[str, ...]:
    """Return the identifiers of an address, as it is counted, and of a user. Those of the last are kept."""
    of_address = f"ip:{grouped(address, ipv6_prefix)}"
    return (of_address, f"user:{user}") if user else (of_address,)


by_address_and_user = _of_addresses(PEERS)
"""The address, and the user if one is logged in: all of them are limited."""
