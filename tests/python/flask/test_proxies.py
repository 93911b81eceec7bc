"""Whose address is limited when proxies stand in front."""

from __future__ import annotations

import pytest

from overlimit.flask import RateLimit, get_address


def identity(site, peer, *forwarded):
    headers = {"X-Forwarded-For": ", ".join(forwarded)} if forwarded else {}
    return site.decision("/free", ip=peer, headers=headers).identifier


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "client"),
    [
        (0, "192.0.2.1", ["198.51.100.9"], "192.0.2.1"),
        (0, "192.0.2.1", [], "192.0.2.1"),
        (1, "10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
        (1, "10.0.0.1", ["203.0.113.66", "198.51.100.9"], "198.51.100.9"),
        (1, "10.0.0.1", [], "10.0.0.1"),
        (2, "10.0.0.1", ["198.51.100.9", "10.0.0.2"], "198.51.100.9"),
        (2, "10.0.0.1", ["203.0.113.66", "198.51.100.9", "10.0.0.2"], "198.51.100.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["203.0.113.66", "198.51.100.9"], "198.51.100.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["203.0.113.66", "198.51.100.9", "10.0.0.2"], "198.51.100.9"),
        (["10.0.0.0/8"], "192.0.2.1", ["198.51.100.9"], "192.0.2.1"),
        (["10.0.0.1"], "10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
        (["10.0.0.1"], "10.0.0.2", ["198.51.100.9"], "10.0.0.2"),
        (["10.0.0.0/8", "2001:db8::/32"], "2001:db8::1", ["198.51.100.9"], "198.51.100.9"),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
    ],
)
def test_it_is_the_rightmost_that_is_no_trusted_proxys(make_site, trusted, peer, forwarded, client):
    site = make_site(default_limits="9/minute", trusted_proxies=trusted)
    assert identity(site, peer, *forwarded) == f"ip:{client}"


@pytest.mark.parametrize("trusted", [0, 1, ["10.0.0.0/8"]], ids=str)
def test_a_forged_header_never_gives_a_fresh_quota(make_site, trusted):
    site = make_site(default_limits="2/minute", trusted_proxies=trusted)
    peer = "192.0.2.1" if trusted == 0 else "10.0.0.1"
    real = [] if trusted == 0 else ["198.51.100.9"]
    statuses = []
    for number in range(5):
        forwarded = ", ".join([f"203.0.113.{number}", *real])
        statuses += site.ask("/free", 1, ip=peer, headers={"X-Forwarded-For": forwarded})
    assert statuses == [200, 200, 429, 429, 429]


@pytest.mark.parametrize(
    "rubbish", ["unknown", "_hidden", "1.2.3", ",,", "x" * 500, "[::1", '"', "1.2.3.4.5:80"]
)
@pytest.mark.parametrize("trusted", [1, 2, ["10.0.0.0/8"]], ids=str)
def test_rubbish_in_the_header_is_limited_like_anything_else(make_site, rubbish, trusted):
    site = make_site(default_limits="2/minute", trusted_proxies=trusted)
    assert site.ask("/free", 3, ip="10.0.0.1", headers={"X-Forwarded-For": rubbish}) == [200, 200, 429]


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("198.51.100.9:51234", "198.51.100.9"),
        ("  198.51.100.9  ", "198.51.100.9"),
        ("[2001:db8:1:2::7]:443", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.9", "198.51.100.9"),
    ],
)
def test_an_address_is_read_however_a_proxy_writes_it(make_site, forwarded, client):
    site = make_site(default_limits="9/minute", trusted_proxies=1)
    assert identity(site, "10.0.0.1", forwarded) == f"ip:{client}"


@pytest.mark.parametrize(
    ("ipv6_prefix", "address", "client"),
    [
        (None, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (64, "2001:db8:1:2::", "2001:db8:1:2::/64"),
        (56, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
        (48, "2001:db8:1:2::1", "2001:db8:1::/48"),
        (128, "2001:db8:1:2::1", "2001:db8:1:2::1"),
        (None, "::ffff:192.0.2.1", "192.0.2.1"),
        (None, "192.0.2.1", "192.0.2.1"),
    ],
)
def test_ipv6_addresses_count_by_their_network(make_site, ipv6_prefix, address, client):
    options = {} if ipv6_prefix is None else {"ipv6_prefix": ipv6_prefix}
    site = make_site(default_limits="9/minute", **options)
    assert identity(site, address) == f"ip:{client}"


def test_neighbours_in_one_network_share_a_limit(make_site):
    site = make_site(default_limits="2/minute")
    assert [site.ask("/free", 1, ip=f"2001:db8::{n}")[0] for n in range(1, 4)] == [200, 200, 429]
    assert site.ask("/free", 1, ip="2001:db8:0:1::1") == [200]


def test_a_user_is_limited_beside_the_address_found(make_site):
    site = make_site(default_limits="2/minute", trusted_proxies=1)
    headers = {"X-Forwarded-For": "198.51.100.9"}
    assert site.ask("/free", 2, user="ann", ip="10.0.0.1", headers=headers) == [200, 200]
    assert site.ask("/free", 1, user="ben", ip="10.0.0.1", headers=headers) == [429]
    assert site.ask("/free", 1, user="ann", ip="10.0.0.1", headers={"X-Forwarded-For": "198.51.100.8"}) == [
        429
    ]
    assert site.ask("/free", 1, user="ben", ip="10.0.0.1", headers={"X-Forwarded-For": "198.51.100.8"}) == [
        200
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"trusted_proxies": -1},
        {"trusted_proxies": True},
        {"trusted_proxies": ["nonsense"]},
        {"trusted_proxies": "10.0.0.0/8"},
        {"ipv6_prefix": 0},
        {"ipv6_prefix": 129},
        {"ipv6_prefix": "64"},
    ],
    ids=str,
)
def test_malformed_options_are_errors_that_name_them(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        RateLimit(**options)


def test_two_rate_limits_may_trust_different_proxies(make_site, store, clock):
    site = make_site(default_limits="9/minute", trusted_proxies=1)
    other = RateLimit(site.app, default_limits="8/minute", store=store, clock=clock)
    with site.app.test_client() as client:
        client.get(
            "/free", headers={"X-Forwarded-For": "198.51.100.9"}, environ_base={"REMOTE_ADDR": "10.0.0.1"}
        )
        who = {detail.limit.quota: detail.identifier for detail in other.current_decision.details}
    assert who == {9: "ip:198.51.100.9", 8: "ip:10.0.0.1"}


def test_functions_of_ones_own_may_ask_for_the_address(make_site):
    site = make_site(
        default_limits="9/minute", trusted_proxies=1, identifiers=lambda: f"tenant:{get_address()}"
    )
    assert identity(site, "10.0.0.1", "198.51.100.9") == "tenant:198.51.100.9"
    assert identity(site, "10.0.0.1", "2001:db8::1") == "tenant:2001:db8::/64"
    assert get_address() == "unknown"
