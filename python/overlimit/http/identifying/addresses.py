"""The address of a client: read through trusted proxies, and grouped by network.

Addresses are parsed by the standard library's ``ipaddress``. An IPv4 address within IPv6
(``::ffff:192.0.2.1``) counts as that IPv4 address, and the zone of an address (``fe80::1%eth0``) is ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from overlimit.http.request import Request

UNKNOWN = "unknown"
"""The address of requests without one, as on a Unix socket or in a test without a server."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_REMEMBERED = 4096
_LONGEST_REMEMBERED = 256
_IPV6_BITS = 128
_PORT = re.compile(r"(:[0-9]{1,5})?")


class Addresses:
    """How the address of a client is found behind proxies, and grouped.

    ``trusted_proxies`` are how many proxies every request passes, or the addresses and networks (CIDR) of all
    of them; with 0, and with an empty list, ``X-Forwarded-For`` is ignored. ``ipv6_prefix`` is how many bits
    of an IPv6 address make one client. Raises TypeError or ValueError that names the one that is wrong.
    """

    __slots__ = ("_find", "_remembered", "ipv6_prefix", "reads_forwarded_for")

    def __init__(self, trusted_proxies: int | Sequence[str] = 0, ipv6_prefix: int = 64) -> None:
        self.ipv6_prefix = checked_ipv6_prefix(ipv6_prefix)
        by = _by_count if isinstance(trusted_proxies, int) else _by_network
        self._find: _Finder | None = by(trusted_proxies)
        self._remembered = lru_cache(_REMEMBERED)(self._find) if self._find else None
        self.reads_forwarded_for = self._find is not None
        """Whether ``X-Forwarded-For`` matters to it."""

    def client(self, peer: str | None, forwarded_for: str | Sequence[str] | None) -> str | None:
        """Return the right-most address that is not a trusted proxy's, or ``peer`` unchanged; never raises.

        ``peer`` is where the connection came from, None or empty on a Unix socket; ``forwarded_for`` are the
        values of ``X-Forwarded-For``, to which each proxy appends the address of its own client. Which of
        them it is, docs/reference/flask.md has as a table: none that a client may have invented. A request
        with fewer entries than there are proxies did not pass them all, and could choose its count by an
        entry; the address of the peer cannot be forged.

        An entry may have a port, brackets, quotes or a zone. One that is not an address (``unknown``,
        ``_hidden``) ends the search: it is the hop to its right, which reported it.
        """
        if not forwarded_for or self._find is None or self._remembered is None:
            return peer
        if not isinstance(forwarded_for, str):
            forwarded_for = ",".join(forwarded_for)
        find = self._remembered if len(forwarded_for) <= _LONGEST_REMEMBERED else self._find
        return find(peer, forwarded_for)

    def counted(self, request: Request) -> str:
        """Return the client's address of a request, as it is counted."""
        client = request.peer_address()
        if self.reads_forwarded_for:
            client = self.client(client, request.forwarded_for())
        return grouped(client, self.ipv6_prefix)


@lru_cache(_REMEMBERED)
def grouped(address: str | None, ipv6_prefix: int = 64) -> str:
    """Return the name under which an address is counted: one person may have a whole IPv6 network.

    IPv4 is the address, IPv6 its network, as in ``2001:db8:1:2::/64``, or with a prefix of 128 the address.
    A string that is not an address stays as it is; None and the empty string are `UNKNOWN`. The results of
    the last few thousand addresses are kept.

    Raises ValueError or TypeError for an ``ipv6_prefix`` outside 1 to 128.
    """
    prefix = checked_ipv6_prefix(ipv6_prefix)
    if not address:
        return UNKNOWN
    known = _address(address)
    if isinstance(known, ipaddress.IPv6Address) and prefix < _IPV6_BITS:
        others = _IPV6_BITS - prefix
        return f"{ipaddress.IPv6Address(int(known) >> others << others)}/{prefix}"
    return address if known is None else str(known)


def is_address(text: str) -> bool:
    """Return whether it is an IP address, whichever way it is written."""
    return _address(text) is not None


def checked_ipv6_prefix(value: object) -> int:
    """Return ``value`` if it can be an IPv6 prefix length; raise an error about ``ipv6_prefix`` if not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"ipv6_prefix must be a whole number from 1 to {_IPV6_BITS}, not {value!r}")
    if not 1 <= value <= _IPV6_BITS:
        raise ValueError(f"ipv6_prefix must be from 1 to {_IPV6_BITS}, not {value}")
    return value


_Finder: TypeAlias = Callable[[str | None, str], str | None]


def _by_count(number: Any) -> _Finder | None:
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


def _by_network(trusted: Any) -> _Finder | None:
    if isinstance(trusted, (str, bytes)) or not isinstance(trusted, Iterable):
        wanted = "a number of proxies or a list of addresses and networks"
        raise TypeError(f"trusted_proxies must be {wanted}, as ['10.0.0.0/8'], not {trusted!r}")
    networks = tuple(map(_network, trusted))

    def client(peer: str | None, forwarded_for: str) -> str | None:
        nearest, address = peer, _address(peer or "")
        hops = reversed(forwarded_for.split(","))
        while address is not None and any(address in network for network in networks):
            address = _address(next(hops, ""))
            nearest = nearest if address is None else str(address)
        return nearest

    return client if networks else None


def _network(member: object) -> Network:
    if not isinstance(member, str):
        raise TypeError(f"trusted_proxies must contain addresses and networks as strings, not {member!r}")
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


PEERS = Addresses()
"""How addresses are found and grouped where no option says so."""
