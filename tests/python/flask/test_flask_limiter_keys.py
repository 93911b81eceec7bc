"""The configuration of an app that used Flask-Limiter."""

from __future__ import annotations

import pytest
from flask import request

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


def test_key_func_and_identifiers_together_are_an_error():
    with pytest.raises(TypeError, match="key_func"):
        RateLimit(key_func=lambda: "a", identifiers=lambda: "a")


@pytest.mark.parametrize("where", ["option", "limit", "configuration"])
@pytest.mark.parametrize(
    ("returned", "identifier"),
    [
        (lambda: ("shop", "a:b", 7), "shop:a\\:b:7"),
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
