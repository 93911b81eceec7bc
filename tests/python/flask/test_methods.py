"""Limits that hold for some HTTP methods, or count each method apart."""

from __future__ import annotations


def test_options_named_explicitly_are_still_exempt(make_site):
    site = make_site()
    site.route("/", site.limiter.limit("1/minute", methods=["GET", "OPTIONS"]), methods=["GET", "OPTIONS"])
    assert site.ask("/", 4, method="OPTIONS") == [200] * 4
    assert site.ask("/", 2) == [200, 429]


def test_standard_methods_and_those_that_another_route_takes_may_be_named(make_site):
    site = make_site()
    limit = site.limiter.limit("1/minute", methods=["PATCH", "CONNECT", "PURGE"])
    site.route("/", limit)
    site.route("/cache", limit, methods=["GET", "PURGE"])
    assert site.ask("/", 2) + site.ask("/cache", 2) == [200] * 4
    assert site.ask("/cache", 2, method="PURGE") == [200, 429]
