"""Whose address a request comes from: behind trusted proxies, and grouped by network.

Texts are read with the standard library's ``ipaddress``. An IPv4 address within IPv6 (``::ffff:192.0.2.1``)
is that IPv4 address everywhere, and an address is never known by its zone (``fe80::1%eth0``).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from overlimit.http.request import Request

__all__ = ["UNKNOWN", "Addresses", "Proxies", "checked_ipv6_prefix", "grouped"]

UNKNOWN = "unknown"
"""The address of whoever has none: a peer on a Unix socket, a test without a server."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_REMEMBERED = 4096
_LONGEST_REMEMBERED = 256
_IPV6_BITS = 128
_IPV6_PREFIX = 64
_PORT = re.compile(r"(:[0-9]{1,5})?")


class Proxies:
    """The proxies whose word about an address counts.

    Parameters
    ----------
    trusted
        How many proxies every request passes, or the addresses and networks (CIDR) of all of them. With 0,
        and with an empty list, ``X-Forwarded-For`` is ignored.

    Raises
    ------
    TypeError, ValueError
        ``trusted`` is neither; the message says ``trusted_proxies``.
    """

    __slots__ = ("_find", "_remembered")

    def __init__(self, trusted: int | Sequence[str] = 0) -> None:
        """Build it from a number or from addresses and networks."""
        self._find = _by_count(trusted) if isinstance(trusted, int) else _by_network(trusted)
        self._remembered = lru_cache(_REMEMBERED)(self._find) if self._find else None

    def client(self, peer: str | None, forwarded_for: str | Sequence[str] | None) -> str | None:
        """Return the right-most address that is no trusted proxy's, or ``peer`` as it was given.

        Parameters
        ----------
        peer
            The address that the connection came from; None or empty on a Unix socket.
        forwarded_for
            The value of ``X-Forwarded-For``; the values of several such lines are one list, in their order.

        Each proxy adds to the right of the header whom it was asked by, and the peer is the last hop; what
        stands to the left of what trusted proxies added is the client's invention and is never returned.

        With n proxies it is the n-th entry from the right. A header of fewer entries did not pass them all:
        then it's the peer, who cannot lie about its address. Such requests share the count of the proxy that
        they came in at; with any entry of such a header they could choose one.

        With networks the hops are followed from the peer to the left for as long as they are trusted. When
        all of them are, it's the left-most: a host within the trusted networks. A peer without an address is
        in no network: behind a Unix socket give a number.

        An entry may have a port, brackets, quotes or a zone. One that is no address (``unknown``,
        ``_hidden``) ends the search: it's the hop to its right, which reported it. Never raises.
        """
        if not forwarded_for or self._find is None or self._remembered is None:
            return peer
        if not isinstance(forwarded_for, str):
            forwarded_for = ",".join(forwarded_for)
        find = self._remembered if len(forwarded_for) <= _LONGEST_REMEMBERED else self._find
        return find(peer, forwarded_for)


class Addresses(NamedTuple):
    """Under which text the address of a request is counted."""

    proxies: Proxies
    ipv6_prefix: int

    @classmethod
    def of(cls, trusted_proxies: int | Sequence[str] | None, ipv6_prefix: int | None) -> Addresses:
        """Read the two options; None: no proxy, networks of 64 bits.

        Raises
        ------
        ValueError, TypeError
            One of them cannot be used.
        """
        prefix = _IPV6_PREFIX if ipv6_prefix is None else checked_ipv6_prefix(ipv6_prefix)
        return cls(Proxies(trusted_proxies or 0), prefix)

    def counted(self, request: Request) -> str:
        """Return the address of who sent a request, as it is counted."""
        client = self.proxies.client(request.peer_address(), request.header("X-Forwarded-For"))
        return grouped(client, self.ipv6_prefix)


@lru_cache(_REMEMBERED)
def grouped(address: str | None, ipv6_prefix: int = 64) -> str:
    """Return under which text an address is counted: one person has a whole IPv6 network.

    IPv4 is the address, IPv6 its network, as in ``2001:db8:1:2::/64``, or with a prefix of 128 the address.
    What is no address stays as it is; None and the empty text are `UNKNOWN`. The results of the last few
    thousand addresses are kept.

    Raises ValueError or TypeError for an ``ipv6_prefix`` outside 1 to 128.
    """
    prefix = checked_ipv6_prefix(ipv6_prefix)
    if not address:
        return UNKNOWN
    known = _address(address)
    if isinstance(known, ipaddress.IPv6Address) and prefix < _IPV6_BITS:
        return str(ipaddress.IPv6Network((int(known), prefix), strict=False))
    return address if known is None else str(known)


def checked_ipv6_prefix(value: object) -> int:
    """Return ``value`` if it can be an IPv6 prefix length; else raise, saying ``ipv6_prefix``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"ipv6_prefix must be a whole number from 1 to {_IPV6_BITS}, not {value!r}")
    if not 1 <= value <= _IPV6_BITS:
        raise ValueError(f"ipv6_prefix must be from 1 to {_IPV6_BITS}, not {value}")
    return value


_Finder: TypeAlias = Callable[[str | None, str], str | None]


def _by_count(number: int) -> _Finder | None:
    if isinstance(number, bool):
        raise TypeError(f"trusted_proxies must be a number of proxies or a list of networks, not {number}")
    if number < 0:
        raise ValueError(f"trusted_proxies must not be negative: {number}")

    def client(peer: str | None, forwarded_for: str) -> str | None:
        hops = forwarded_for.split(",")[-number:]
        if len(hops) < number:
            return peer
        return next((str(address) for address in map(_address, hops) if address is not None), peer)

    return client if number else None


def _by_network(trusted: object) -> _Finder | None:
    networks = tuple(map(_network, _members(trusted)))

    def client(peer: str | None, forwarded_for: str) -> str | None:
        nearest, address = peer, _address(peer or "")
        hops = reversed(forwarded_for.split(","))
        while address is not None and any(address in network for network in networks):
            address = _address(next(hops, ""))
            nearest = nearest if address is None else str(address)
        return nearest

    return client if networks else None


def _members(trusted: object) -> Iterable[object]:
    if isinstance(trusted, (str, bytes)) or not isinstance(trusted, Iterable):
        wanted = "a number of proxies or a list of addresses and networks"
        raise TypeError(f"trusted_proxies must be {wanted}, as ['10.0.0.0/8'], not {trusted!r}")
    return trusted


def _network(member: object) -> Network:
    if not isinstance(member, str):
        raise TypeError(f"trusted_proxies holds addresses and networks as texts, not {member!r}")
    try:
        network = ipaddress.ip_network(member.strip())
    except ValueError as error:
        raise ValueError(f"trusted_proxies: {error}") from None
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError(f"trusted_proxies: write {member!r} as the IPv4 network that it is")
    return network


def _address(hop: str) -> Address | None:
    try:
        address = ipaddress.ip_address(_without_port(hop.strip().strip('"')))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return address
    return address.ipv4_mapped or ipaddress.IPv6Address(int(address))


def _without_port(hop: str) -> str:
    """Return the host of ``host:port``, ``[host]:port`` and ``[host]``, anything else as it is."""
    if hop.startswith("["):
        host, bracket, port = hop[1:].partition("]")
        return host if bracket and ":" in host and _PORT.fullmatch(port) else hop
    host, _, port = hop.partition(":")
    return host if _PORT.fullmatch(f":{port}") else hop
