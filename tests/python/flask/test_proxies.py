"""Whose address is limited when proxies stand in front."""

from __future__ import annotations

import pytest

from overlimit.flask import get_address


def identity(site, peer, *forwarded):
    headers = {"X-Forwarded-For": ", ".join(forwarded)} if forwarded else {}
    return site.decision("/free", ip=peer, headers=headers).identifier


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "client"),
    [
        (0, "192.0.2.1", ["198.51.100.9"], "192.0.2.1"),
        (1, "10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
        (1, "10.0.0.1", ["203.0.113.66", "198.51.100.9"], "198.51.100.9"),
        (2, "10.0.0.1", ["203.0.113.66", "198.51.100.9", "10.0.0.2"], "198.51.100.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["203.0.113.66", "198.51.100.9", "10.0.0.2"], "198.51.100.9"),
        (["10.0.0.0/8"], "192.0.2.1", ["198.51.100.9"], "192.0.2.1"),
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


def test_neighbours_in_one_network_share_a_limit(make_site):
    site = make_site(default_limits="2/minute")
    assert [site.ask("/free", 1, ip=f"2001:db8::{n}")[0] for n in range(1, 4)] == [200, 200, 429]
    assert site.ask("/free", 1, ip="2001:db8:0:1::1") == [200]


def test_functions_of_ones_own_may_ask_for_the_address(make_site):
    site = make_site(
        default_limits="9/minute", trusted_proxies=1, identifiers=lambda: f"tenant:{get_address()}"
    )
    assert identity(site, "10.0.0.1", "198.51.100.9") == "tenant:198.51.100.9"
    assert identity(site, "10.0.0.1", "2001:db8::1") == "tenant:2001:db8::/64"
    assert get_address() == "unknown"
