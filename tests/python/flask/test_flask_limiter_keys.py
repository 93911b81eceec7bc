"""The configuration of an app that used Flask-Limiter."""

from __future__ import annotations

from ipaddress import ip_address
from uuid import UUID

import pytest
from flask import Response, request

from overlimit.flask import RateLimit, by_header, by_user_or_address

WHEN = {
    "EXEMPT_WHEN": lambda: "X-Exempt" in request.headers,
    "DEDUCT_WHEN": lambda response: "X-Free" not in request.headers,
}


@pytest.mark.parametrize(
    ("limits", "suffixes", "elsewhere"),
    [("DEFAULT", "DEFAULTS", [200, 200, 429]), ("APPLICATION", "APPLICATION", [429, 429, 429])],
)
@pytest.mark.parametrize("cost", [2, lambda: 2], ids=["number", "function"])
def test_limits_with_their_suffixes(make_site, limits, suffixes, elsewhere, cost):
    options = {"PER_METHOD": True, "COST": cost, **WHEN}
    config = {f"RATELIMIT_{suffixes}_{name}": value for name, value in options.items()}
    site = make_site(config={f"RATELIMIT_{limits}": "4/minute", **config})
    for path in ("/a", "/b"):
        site.route(path, methods=["GET", "POST"])
    assert site.ask("/a", 3, headers={"X-Exempt": "1"}) == [200] * 3
    assert site.ask("/a", 3, headers={"X-Free": "1"}) == [200] * 3
    assert site.ask("/a", 3) + site.ask("/b", 3) == [200, 200, 429, *elsewhere]
    assert site.ask("/a", 3, method="POST") == [200, 200, 429]


def test_meta_limits_and_their_callback(make_site):
    site = make_site(
        config={
            "RATELIMIT_DEFAULT": "1/minute",
            "RATELIMIT_META": "1/hour",
            "RATELIMIT_ON_BREACH_CALLBACK": lambda decision: Response("breach", status=429),
            "RATELIMIT_ON_META_BREACH_CALLBACK": lambda decision: Response("meta", status=429),
        }
    )
    assert [site.open("/free").text for _ in range(3)] == ["free", "breach", "meta"]


def test_key_func_and_identifiers_together_are_an_error():
    with pytest.raises(TypeError, match="key_func"):
        RateLimit(key_func=lambda: "a", identifiers=lambda: "a")


@pytest.mark.parametrize(
    ("strategy", "algorithm"),
    [
        ("fixed-window", "FixedWindow"),
        ("moving-window", "SlidingLog"),
        ("sliding-window-counter", "SlidingWindowCounter"),
    ],
)
def test_a_strategy_is_one_of_our_algorithms(make_site, strategy, algorithm):
    site = make_site(config={"RATELIMIT_STRATEGY": strategy, "RATELIMIT_DEFAULT": "2/minute"}, algorithm=None)
    assert type(site.decision("/free").limit).__name__ == algorithm
    assert site.ask("/free", 2) == [200, 429]


@pytest.mark.parametrize("scheme", ["unix", "redis+unix", "valkey+unix", "redis", ""])
def test_their_storage_urls_and_options_work(make_site, redis_server, prefix, scheme):
    place = f"127.0.0.1:{redis_server.port}/0" if scheme == "redis" else redis_server.socket_path
    config = {"RATELIMIT_STORAGE_URI": f"{scheme}://{place}?timeout=10", "RATELIMIT_KEY_PREFIX": prefix}
    store = None
    if not scheme:
        config = {"RATELIMIT_STORAGE_OPTIONS": {"key_prefix": prefix, "socket_timeout": 10}}
        store = redis_server.tcp_url()
    site = make_site(config=config, store=store, default_limits="2/minute", on_error="raise")
    assert site.decision("/free").source == "store"
    assert site.ask("/free", 2) == [200, 429]
    assert redis_server.ask("KEYS", f"*{prefix}*")


@pytest.mark.parametrize("trusted", [True, False])
def test_valkeys_is_a_url_with_tls(make_site, tls_server, prefix, trusted):
    url = tls_server.tls_url().replace("rediss://", "valkeys://")
    config = {
        "RATELIMIT_STORAGE_URI": f"{url}?timeout=10",
        "RATELIMIT_STORAGE_OPTIONS": {"ssl_ca_certs": tls_server.ca} if trusted else {},
    }
    site = make_site(config=config, store=None, default_limits="1/minute", key_prefix=prefix, on_error="deny")
    assert site.ask("/free", 2) == ([200, 429] if trusted else [503, 503])


def test_options_go_before_the_configuration(make_site, clock):
    site = make_site(
        config={
            "RATELIMIT_DEFAULT": "9/minute",
            "RATELIMIT_DEFAULTS_COST": 9,
            "RATELIMIT_META": "1/minute",
            "RATELIMIT_ENABLED": False,
            "RATELIMIT_HEADERS_ENABLED": True,
            "RATELIMIT_STRATEGY": "moving-window",
        },
        default_limits="2/second",
        default_limits_cost=1,
        meta_limits="5/minute",
        enabled=True,
        headers=None,
    )
    assert type(site.decision("/free").limit).__name__ == "FixedWindow"
    assert "X-RateLimit-Limit" not in site.open("/free").headers
    assert site.ask("/free", 2) == [429, 429]
    clock.advance(1)
    assert site.ask("/free", 1) == [200]


@pytest.mark.parametrize("where", ["option", "limit", "configuration"])
@pytest.mark.parametrize(
    ("returned", "identifier"),
    [
        (lambda: ("shop", "a:b", 7), "shop:a\\:b:7"),
        (lambda: [UUID(int=5)], "00000000-0000-0000-0000-000000000005"),
        (lambda: ip_address("2001:db8::1"), "2001:db8::/64"),
        (lambda: ("shop", ""), "anonymous"),
        (lambda: 0, "0"),
        (by_user_or_address, "ip:192.0.2.1"),
        (by_header("X-Absent"), "anonymous"),
    ],
)
def test_what_a_key_function_returns_is_one_identifier(make_site, where, returned, identifier):
    site = make_site(
        config={"RATELIMIT_KEY_FUNC": returned} if where == "configuration" else {},
        **({"key_func": returned} if where == "option" else {}),
    )
    of_limit = {"key_func": returned} if where == "limit" else {}
    site.route("/", site.limiter.limit("2/minute", **of_limit))
    assert [each.identifier for each in site.decision("/").details] == [identifier]
    assert site.ask("/", 2) == [200, 429]


def test_a_list_of_key_functions_is_told_what_to_write():
    with pytest.raises(TypeError, match="key_func must be a function without parameters"):
        RateLimit(key_func=[by_user_or_address])
