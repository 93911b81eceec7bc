"""The address as proxies report it: in which header fields, and of whom that is believed."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from django.core.exceptions import ImproperlyConfigured

import overlimit.flask
from every_adapter import ADAPTERS, serving
from overlimit._addresses import Addresses, group_address

PROXY, STRANGER = "10.0.0.1", "198.51.100.7"
NOBODY = [
    "unknown",
    "_hidden",
    "",
    "1.1.1.1, 6.6.6.6",
    "1.1.1",
    "6.6.6.6;1.1.1.1",
    "for=6.6.6.6",
    "[::1",
    "\x00",
]


def counts(site, *values, header, peer=PROXY):
    """Return the statuses of requests with these values, of each several lines if it is a list."""
    lines = [[value] if isinstance(value, str) else value for value in values]
    return site.statuses(*([(header, line) for line in each] for each in lines), peer=peer)


@pytest.fixture(params=ADAPTERS)
def serve(request):
    return lambda **options: serving(request.param, limits="1/minute", **options)


@pytest.mark.parametrize("trusted", [1, 2, ["10.0.0.0/8"]], ids=str)
def test_one_address_in_a_field_of_its_own(serve, trusted):
    header = "CF-Connecting-IP"
    with serve(address_header=header, trusted_proxies=trusted) as site:
        same = ["1.1.1.1", "1.1.1.1:4711", "::ffff:1.1.1.1", " 1.1.1.1 "]
        assert counts(site, *same, header=header) == [200, 429, 429, 429]
        assert counts(site, "2001:db8::1", "[2001:db8::2]:80", header=header) == [200, 429]
        assert counts(site, *NOBODY, ["1.1.1.1", "6.6.6.7"], header=header) == [200] + [429] * len(NOBODY)
        assert counts(site, "9.9.9.9", "9.9.9.8", header="X-Forwarded-For") == [429, 429]


def test_elements_of_the_standard_field(serve):
    with serve(address_header="Forwarded", trusted_proxies=2) as site:
        nearest = 'for="10.0.0.2:_port";by=10.0.0.1'
        same = [
            "for=1.1.1.1",
            "FOR=1.1.1.1:80",
            'proto=https; For="1.1.1.1" ;by=_x',
            'x="a,b";for=1.1.1.1',
        ]
        asked = [f"for=6.6.6.{number}, {each}, {nearest}" for number, each in enumerate(same)]
        assert counts(site, *asked, header="Forwarded") == [200, 429, 429, 429]
        assert counts(site, ["for=1.1.1.1", nearest], ["for=2.2.2.2", nearest], header="forwarded") == [
            429,
            200,
        ]
        unread = ["for=unknown", "for=_hidden", 'for="', "by=3.3.3.3", "for=3.3.3.3;for=3.3.3.4"]
        asked = [f"for=6.6.6.{number}, {each}, {nearest}" for number, each in enumerate(unread)]
        assert counts(site, *asked, header="Forwarded") == [200, 429, 429, 429, 429]
        assert counts(site, "for=6.6.6.6", "for=6.6.6.7", header="Forwarded") == [200, 429]


@pytest.mark.parametrize(
    ("header", "value"),
    [("X-Forwarded-For", "6.6.6.{}"), ("Forwarded", "for=6.6.6.{}"), ("X-Real-IP", "6.6.6.{}")],
)
def test_what_strangers_send_changes_nothing(serve, header, value):
    with serve(address_header=header, trusted_proxies=["10.0.0.0/8"]) as site:
        values = [value.format(number) for number in range(4)]
        assert counts(site, *values, header=header, peer=STRANGER) == [200, 429, 429, 429]
        assert counts(site, *values, header=header) == [200] * 4


def test_a_field_that_nobody_is_trusted_to_write_is_an_error(serve):
    for trusted in ({}, {"trusted_proxies": 0}, {"trusted_proxies": []}):
        with (
            pytest.raises((ValueError, ImproperlyConfigured), match="'X-Real-IP' is believed of proxies"),
            serve(address_header="X-Real-IP", **trusted),
        ):
            pass


@pytest.mark.parametrize("prefix", [None, 48, 128])
def test_addresses_that_functions_return_are_grouped(serve, prefix):
    given = iter(
        ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:0:1::1"]
    )
    by = [200, 429, 200, 429, 429, 429] if prefix == 48 else [200, 429, 200, 429, 200, 429]
    if prefix == 128:
        by = [200, 429, 200, 200, 200, 429]
    with serve(identifiers=lambda *_: ip_address(next(given)), ipv6_prefix=prefix) as site:
        assert site.statuses(*[()] * 6) == by


@pytest.mark.parametrize("prefix", [64, 48])
def test_what_functions_return_is_reset_by_the_same_object(prefix):
    from flask import Flask

    app = Flask("reset")
    address = ip_address("2001:db8::1")
    limiter = overlimit.flask.RateLimit(
        app, default_limits="1/minute", identifiers=lambda: address, ipv6_prefix=prefix
    )
    app.add_url_rule("/", view_func=lambda: "ok")
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    limiter.reset(ip_address("2001:db8:1::1"))
    assert client.get("/").status_code == 429
    limiter.reset(ip_address("2001:db8::9"))
    assert client.get("/").status_code == 200


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
