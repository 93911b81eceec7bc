"""Whose address it is: behind proxies that may lie, and by network."""

from __future__ import annotations

import pytest

from overlimit._addresses import Addresses, checked_ipv6_prefix, grouped

PEER = "192.0.2.9"
NOT_ADDRESSES = ["unknown", "_hidden", "", " ", "evil\r\n", "256.1.1.1", "1.2.3.4:x", "[::1", "a" * 999]
HEADERS = [
    None,
    "",
    ",",
    "1.1.1.1",
    "1.1.1.1, 2.2.2.2",
    "unknown",
    ",,,,",
    ["1.1.1.1", "2.2.2.2"],
    *NOT_ADDRESSES,
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("trusted", [0, [], ()])
def test_without_trusted_proxies_the_header_is_ignored(header, trusted):
    assert Addresses(trusted).client(PEER, header) == PEER


@pytest.mark.parametrize(
    ("count", "header", "client"),
    [
        (1, "1.1.1.1", "1.1.1.1"),
        (1, "6.6.6.6, 1.1.1.1", "1.1.1.1"),
        (2, "6.6.6.6, 1.1.1.1, 10.0.0.2", "1.1.1.1"),
        (2, ["6.6.6.6", "1.1.1.1,10.0.0.2"], "1.1.1.1"),
        (2, ["1.1.1.1", "10.0.0.2"], "1.1.1.1"),
        (3, "1.1.1.1, 10.0.0.3, 10.0.0.2", "1.1.1.1"),
        (1, "::ffff:1.1.1.1", "1.1.1.1"),
    ],
)
def test_a_count_takes_the_entry_that_the_outermost_proxy_wrote(count, header, client):
    assert Addresses(count).client(PEER, header) == client


@pytest.mark.parametrize("header", ["6.6.6.6", "6.6.6.6, 7.7.7.7", ["6.6.6.6"], "10.0.0.1"])
@pytest.mark.parametrize("count", [3, 10**30])
def test_a_header_that_is_too_short_lets_nobody_choose_an_address(header, count):
    assert Addresses(count).client(PEER, header) == PEER


@pytest.mark.parametrize("peer", [None, ""])
def test_a_peer_on_a_unix_socket_counts_as_a_proxy_and_is_in_no_network(peer):
    assert Addresses(1).client(peer, "1.1.1.1") == "1.1.1.1"
    assert Addresses(2).client(peer, "1.1.1.1") == peer
    assert Addresses(["0.0.0.0/0", "::/0"]).client(peer, "1.1.1.1") == peer


@pytest.mark.parametrize("hop", NOT_ADDRESSES)
def test_an_entry_that_is_no_address_stands_for_whoever_reported_it(hop):
    assert Addresses(1).client(PEER, f"6.6.6.6, {hop}") == PEER
    assert Addresses(2).client(PEER, f"6.6.6.6, {hop}, 10.0.0.2") == "10.0.0.2"
    assert Addresses([PEER]).client(PEER, f"6.6.6.6, {hop}") == PEER
    assert Addresses([PEER, "10.0.0.0/8"]).client(PEER, f"6.6.6.6, {hop}, 10.0.0.2") == "10.0.0.2"


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("10.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2", "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6, 1.1.1.1", "10.0.0.2,10.9.9.9"], "1.1.1.1"),
        ("10.0.0.1", "6.6.6.6, 2001:db8::1, 10.0.0.2", "2001:db8::1"),
        ("2001:db8:ffff::1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),
        ("::ffff:10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "1.1.1.1, ::ffff:10.0.0.2", "1.1.1.1"),
        ("198.51.100.7", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    ],
)
def test_networks_are_followed_to_the_first_stranger(peer, header, client):
    assert Addresses(["10.0.0.0/8", "2001:db8:ffff::/48", "198.51.100.7"]).client(peer, header) == client


@pytest.mark.parametrize("peer", ["192.0.2.9", "11.0.0.1", "2001:db8::1", "::ffff:192.0.2.9", "unix:/run"])
def test_a_stranger_s_header_is_ignored(peer):
    assert Addresses(["10.0.0.0/8"]).client(peer, "10.0.0.3, 1.1.1.1, 10.0.0.2") == peer


@pytest.mark.parametrize(
    ("hop", "address"),
    [
        ("1.2.3.4:567", "1.2.3.4"),
        ('"1.2.3.4"', "1.2.3.4"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ('"[2001:db8::1]:80"', "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%eth0]:80", "fe80::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[::ffff:102:304]:80", "1.2.3.4"),
        ("  1.2.3.4\t", "1.2.3.4"),
    ],
)
def test_an_entry_is_read_with_all_that_proxies_add(hop, address):
    assert Addresses(1).client(PEER, hop) == address
    assert Addresses([PEER]).client(PEER, f"6.6.6.6,{hop}") == address


@pytest.mark.parametrize(
    "trusted", [True, False, 1.0, None, "1", "10.0.0.0/8", b"10.0.0.0/8", [1], [None], [b"10.0.0.1"]]
)
def test_trusted_of_a_wrong_type_is_an_error_that_names_it(trusted):
    with pytest.raises(TypeError, match="trusted_proxies"):
        Addresses(trusted)


@pytest.mark.parametrize(
    "trusted", [-1, ["10.0.0.1/8"], ["10.0.0.0/33"], ["nginx"], [""], ["10.0.0.0-9"], ["::ffff:10.0.0.0/104"]]
)
def test_trusted_that_cannot_be_is_an_error_that_names_it(trusted):
    with pytest.raises(ValueError, match="trusted_proxies"):
        Addresses(trusted)


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        (None, "unknown"),
        ("", "unknown"),
        ("unix:/run/app.sock", "unix:/run/app.sock"),
    ],
)
def test_ipv6_is_counted_by_network_and_the_rest_as_it_is(address, group):
    assert grouped(address) == group


@pytest.mark.parametrize(
    ("prefix", "group"),
    [
        (1, "::/1"),
        (48, "2001:db8:1::/48"),
        (56, "2001:db8:1:200::/56"),
        (127, "2001:db8:1:2ff::6/127"),
        (128, "2001:db8:1:2ff::7"),
    ],
)
def test_the_network_is_as_large_as_the_prefix_says(prefix, group):
    assert grouped("2001:db8:1:2ff::7", prefix) == group
    assert grouped("192.0.2.1", prefix) == "192.0.2.1"


@pytest.mark.parametrize("prefix", [0, -1, 129])
def test_a_prefix_outside_1_to_128_is_an_error(prefix):
    with pytest.raises(ValueError, match="ipv6_prefix"):
        grouped("192.0.2.1", prefix)


@pytest.mark.parametrize("prefix", [True, 64.0, "64", None])
def test_a_prefix_that_is_no_whole_number_is_an_error(prefix):
    with pytest.raises(TypeError, match="ipv6_prefix"):
        checked_ipv6_prefix(prefix)


@pytest.mark.parametrize("trusted", [1, [PEER]])
def test_a_long_header_is_read_like_a_short_one(trusted):
    assert Addresses(trusted).client(PEER, "6.6.6.6, " * 10_000 + "1.1.1.1") == "1.1.1.1"
