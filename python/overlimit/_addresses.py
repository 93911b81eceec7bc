"""The address of a client: read through trusted proxies, and grouped by network.

Addresses are parsed by the standard library's ``ipaddress``, and found in header fields by `_forwarded`. An
IPv4 address within IPv6 (``::ffff:192.0.2.1``) counts as that IPv4 address, and the zone of an address
(``fe80::1%eth0``) is ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, TypeAlias

from overlimit._forwarded import FORWARDED_FOR, checked_address_header, environ_key, hops_in, is_list
from overlimit._messages.texts import short_repr

UNKNOWN = "unknown"
"""The address of requests without one, as on a Unix socket or in a test without a server."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

USUAL_IPV6_PREFIX = 64
"""How many bits of an IPv6 address make one client where nothing else is said."""

_REMEMBERED = 4096
_LONGEST_REMEMBERED = 256
_IPV6_BITS = 128
_PORT = re.compile(r"(:([0-9]{1,5}|_[A-Za-z0-9._-]+))?")  # the second as RFC 7239 hides one


class _Request(Protocol):
    def peer_address(self) -> str | None: ...
    def joined(self, name: str, /) -> str | None: ...


class Addresses:
    """How the address of a client is found behind proxies, and grouped.

    ``trusted_proxies`` are how many proxies every request passes, or the addresses and networks (CIDR) of all
    of them; with 0, and with an empty list, no header field is believed. ``ipv6_prefix`` is how many bits of
    an IPv6 address make one client. ``address_header`` is the field that the proxies write. Raises TypeError
    or ValueError that names the one that is wrong, also for a field that nobody is trusted to write.
    """

    __slots__ = ("_find", "_remembered", "environ_key", "header", "ipv6_prefix")

    def __init__(
        self,
        trusted_proxies: int | Sequence[str] = 0,
        ipv6_prefix: int = USUAL_IPV6_PREFIX,
        address_header: str = FORWARDED_FOR,
    ) -> None:
        self.ipv6_prefix = checked_ipv6_prefix(ipv6_prefix)
        header = checked_address_header(address_header)
        by = _by_count if isinstance(trusted_proxies, int) else _by_network
        self._find: _Finder | None = by(trusted_proxies, header)
        if self._find is None and header.lower() != FORWARDED_FOR.lower():
            raise ValueError(
                f"address_header: {header!r} is believed of proxies only, as anybody could send it: say by "
                "trusted_proxies how many of them every request passes, or their addresses"
            )
        self._remembered = lru_cache(_REMEMBERED)(self._find) if self._find else None
        self.header = header if self._find else None
        """The header field that matters to it; None: none does."""
        self.environ_key = environ_key(header) if self._find else None
        """The same as CGI and WSGI call it."""

    def client(self, peer: str | None, forwarded_for: str | Sequence[str] | None) -> str | None:
        """Return the right-most address that is not a trusted proxy's, or ``peer`` unchanged; never raises.

        ``peer`` is where the connection came from, None or empty on a Unix socket; ``forwarded_for`` are the
        values of the field, to which each proxy appends the address of its own client. A field other than
        ``X-Forwarded-For`` and ``Forwarded`` has one address, and several are none. Which of
        them it is, docs/reference/web.md has as a table: none that a client may have invented. A request
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

    def counted(self, request: _Request) -> str:
        """Return the client's address of a request, as it is counted."""
        client = request.peer_address()
        if self.header is not None:
            client = self.client(client, request.joined(self.header))
        return grouped(client, self.ipv6_prefix)


@lru_cache(_REMEMBERED)
def grouped(address: str | None, ipv6_prefix: int = USUAL_IPV6_PREFIX) -> str:
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


def group_address(
    address: str | ipaddress.IPv4Address | ipaddress.IPv6Address, ipv6_prefix: int = USUAL_IPV6_PREFIX
) -> str:
    """Return the text by which an address is counted, for identifiers of your own.

    One person may have a whole network of IPv6, so such an address counts as its network:
    ``2001:db8:1:2::3`` as ``2001:db8:1:2::/64``. An IPv4 address within IPv6 (``::ffff:192.0.2.1``) counts as
    that IPv4 address. A port, brackets and a zone are left out.

    Parameters
    ----------
    address
        An address as a text, or an object of ``ipaddress``.
    ipv6_prefix
        How many bits of an IPv6 address make one client, from 1 to 128.

    Raises
    ------
    ValueError
        It is a text but no address, or ``ipv6_prefix`` is out of range.
    TypeError
        It is something else, such as None where there is no address.
    """
    if isinstance(address, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return grouped_object(address, ipv6_prefix)
    if not isinstance(address, str):
        raise TypeError(f"address must be a text or an object of ipaddress, not {short_repr(address)}")
    if not is_address(address):
        raise ValueError(f"{short_repr(address)} is no IP address")
    return grouped(address, ipv6_prefix)


def grouped_object(address: Address, ipv6_prefix: int) -> str:
    """Return the text by which an address of ``ipaddress`` is counted; of an interface its address."""
    return grouped(str(getattr(address, "ip", address)), ipv6_prefix)


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


def _by_count(number: Any, header: str) -> _Finder | None:
    if isinstance(number, bool):
        raise TypeError(f"trusted_proxies must be a number of proxies or a list of networks, not {number}")
    if number < 0:
        raise ValueError(f"trusted_proxies must not be negative: {number}")

    hops_from_right = hops_in(header)
    wanted = number if is_list(header) else 1

    def client(peer: str | None, forwarded_for: str) -> str | None:
        # No field has more entries than characters and one.
        hops = list(islice(hops_from_right(forwarded_for), min(wanted, len(forwarded_for) + 1)))
        if len(hops) < wanted:
            return peer
        return next((str(address) for address in map(_address, reversed(hops)) if address is not None), peer)

    return client if number else None


def _by_network(trusted: Any, header: str) -> _Finder | None:
    if isinstance(trusted, (str, bytes)) or not isinstance(trusted, Iterable):
        wanted = "a number of proxies or a list of addresses and networks"
        raise TypeError(f"trusted_proxies must be {wanted}, as ['10.0.0.0/8'], not {trusted!r}")
    networks = tuple(map(_network, trusted))
    hops_from_right = hops_in(header)

    def client(peer: str | None, forwarded_for: str) -> str | None:
        nearest, address = peer, _address(peer or "")
        hops = hops_from_right(forwarded_for)
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
