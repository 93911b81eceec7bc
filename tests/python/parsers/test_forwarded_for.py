"""Whatever header fields say, the address is the peer's or one that a trusted proxy reported."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlimit._addresses import UNKNOWN, Addresses, grouped

from .amounts import MANY

pytestmark = pytest.mark.longer_in_prove

ADDRESSES = st.ip_addresses().map(str)
NETWORKS = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]
ENTRIES = (
    ADDRESSES
    | st.text(max_size=12)
    | st.sampled_from(
        [
            "",
            "unknown",
            "_x",
            "[::1]:80",
            '"[2001:db8::1]"',
            "1.2.3.4:99999",
            "fe80::1%eth0",
            "::ffff:1.2.3.4",
            "[",
            "[]",
        ]
    )
)
PEERS = st.none() | st.just("") | ADDRESSES | st.text(max_size=8)


def is_address(text):
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def unmapped(address):
    """Return the IPv4 address that is written as one of IPv6, or any other as it is."""
    return str(getattr(ipaddress.ip_address(address), "ipv4_mapped", None) or address)


@MANY
@given(st.integers(0, 4), PEERS, st.none() | st.text() | st.lists(ENTRIES, max_size=6))
@example(1, "1.2.3.4", "\x00")
@example(1, "1.2.3.4", "[::1")
@example(2, "1.2.3.4", "9" * 5000 + ".1.1.1, 1.2.3.4")
def test_any_header(number, peer, header):
    for field in ("X-Forwarded-For", "Forwarded", "X-Real-IP") if number else ("X-Forwarded-For",):
        for trusted in (number, NETWORKS[:number]):
            found = Addresses(trusted, address_header=field).client(peer, header)
            assert found == peer or is_address(found)


@MANY
@given(st.lists(ADDRESSES, max_size=4), st.lists(ADDRESSES, min_size=1, max_size=4), ADDRESSES)
def test_what_clients_invent_on_the_left_changes_nothing(invented, reported, peer):
    proxies = Addresses(len(reported))
    honest = proxies.client(peer, ", ".join(reported))
    assert proxies.client(peer, ", ".join(invented + reported)) == honest
    assert honest == unmapped(reported[0])


@MANY
@given(
    st.text('for=;:,."\\\t [6]')
    | st.lists(st.sampled_from(['for="', "6.6.6.6", '"', ",", ";x="])).map("".join),
    st.lists(ADDRESSES, min_size=1, max_size=3),
    ADDRESSES,
)
@example('for=6.6.6.6, for="', ["::1"], "10.0.0.1")
@example("", ["::ffff:0:0"], "0.0.0.0")
def test_what_clients_invent_on_the_left_of_elements_changes_nothing_either(invented, reported, peer):
    proxies = Addresses(len(reported), address_header="Forwarded")
    written = ", ".join(f'proto=https;for="[{each}]"' if ":" in each else f"for={each}" for each in reported)
    assert proxies.client(peer, f"{invented},{written}") == proxies.client(peer, written)
    assert proxies.client(peer, written) == unmapped(reported[0])


@MANY
@given(PEERS, st.integers(1, 128))
@example("fe80::1%eth0", 64)
@example("::ffff:1.2.3.4", 1)
@example("0/", 1)
def test_everybody_is_counted_under_some_text(address, prefix):
    found = grouped(address, prefix)
    assert isinstance(found, str)
    assert found
    if not address:
        assert found == UNKNOWN
    again = found if found == address else found.removesuffix(f"/{prefix}")
    assert grouped(again, prefix) == found
