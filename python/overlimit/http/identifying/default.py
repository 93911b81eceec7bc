"""Who is limited where no option says so: the address, and the user if one is logged in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from overlimit.http.identifying.addresses import PEERS, Addresses, grouped
from overlimit.http.identifying.builtin import by_address, by_user, user_id
from overlimit.http.identifying.identifiers import ReadsRequest, with_addresses
from overlimit.http.request import Request

_REMEMBERED = 4096


@dataclass(frozen=True, eq=False)
class _AddressAndUser(ReadsRequest):
    """Reads what both functions do; as the default it is asked in most requests, and made to be fast."""

    addresses: Addresses = PEERS

    def read(self, request: Request) -> tuple[str, ...]:
        addresses = self.addresses
        address = request.peer_address()
        if addresses.reads_forwarded_for:
            address = addresses.client(address, request.forwarded_for())
        user = request.user()
        if type(user) is not str:
            user = None if user is None else user_id(user)
        return _address_and_user(address, addresses.ipv6_prefix, user)

    def with_addresses(self, addresses: Addresses) -> _AddressAndUser:
        known = tuple(with_addresses(each, addresses) for each in self.made_of)
        return replace(self, made_of=known, addresses=addresses)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AddressAndUser) and other.addresses is self.addresses

    def __hash__(self) -> int:
        return id(self.addresses)


@lru_cache(_REMEMBERED)
def _address_and_user(address: str | None, ipv6_prefix: int, user: str | None) -> tuple[str, ...]:
    named = f"ip:{grouped(address, ipv6_prefix)}"
    return (named, f"user:{user}") if user else (named,)


by_address_and_user = _AddressAndUser((by_address, by_user))
"""The address, and the user if one is logged in: all of them are limited."""
