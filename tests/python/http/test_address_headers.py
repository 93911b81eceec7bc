"""The address as proxies report it: in which header fields, and of whom that is believed."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from overlimit._addresses import Addresses, group_address

PROXY = "10.0.0.1"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('for=6.6.6.6, for="', "for=1.1.1.1, for=10.0.0.2"),
        ('for=6.6.6.6;x="\\', 'for="1.1.1.1", for=10.0.0.2'),
        ('for="6.6.6.6', 'for=1.1.1.1;host="a,for=6.6.6.6;x=", for=10.0.0.2'),
        ('for=6.6.6.6, for="[', 'for="1.1.1.1:80", for="10.0.0.2"'),
        ("," * 9000, "for=1.1.1.1, for=10.0.0.2"),
    ],
)
def test_no_quotation_mark_reaches_into_what_proxies_have_written(left, right):
    for trusted in (2, ["10.0.0.0/8"]):
        addresses = Addresses(trusted, address_header="Forwarded")
        assert addresses.client(PROXY, f"{left}, {right}") == "1.1.1.1"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (5, "address_header must be the name"),
        ("", "address_header: "),
        ("X Real IP", "address_header: "),
        ("HTTP_CF_CONNECTING_IP", "write 'Cf-Connecting-Ip'"),
    ],
)
def test_what_is_no_name_of_a_field_is_an_error_where_it_is_given(header, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Addresses(1, address_header=header)


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("2001:db8::1", "2001:db8::/64"),
        ("[2001:DB8::1]:80", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        (ip_address("::ffff:192.0.2.1"), "192.0.2.1"),
        (ip_address("2001:db8::1"), "2001:db8::/64"),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_texts_are_grouped_as_addresses_are(address, group):
    assert group_address(address) == group
    assert group_address(address, 128) == group.replace("::/64", "::1")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("",), ValueError),
        (("unknown",), ValueError),
        ((None,), TypeError),
        ((b"::1",), TypeError),
        (("::1", 0), ValueError),
        (("::1", "64"), TypeError),
    ],
)
def test_what_is_no_address_has_no_group(given, error):
    with pytest.raises(error):
        group_address(*given)
