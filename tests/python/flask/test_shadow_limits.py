"""Limits that count and log but refuse nobody."""

from __future__ import annotations

import logging

import pytest

from overlimit.flask import rate_limit


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, logger="overlimit")
    return caplog


@pytest.mark.parametrize("free", [False, True], ids=["bound", "free"])
def test_a_shadow_limit_refuses_nobody_and_says_whom_it_would_have(make_site, log, free):
    site = make_site()
    limit = rate_limit if free else site.limiter.limit
    site.route("/", limit("2/minute", shadow=True))
    decisions = [site.decision("/") for _ in range(4)]
    assert [decision.allowed for decision in decisions] == [True, True, False, False]
    assert site.ask("/", 3) == [200] * 3
    assert [each.levelno for each in log.records] == [logging.WARNING] + [logging.INFO] * 4
    for each in log.records:
        assert (
            "the limit 2-per-60s (index), in shadow, would have refused 'ip:192.0.2.1' at 'index'"
            in each.message
        )


def test_what_a_real_limit_refuses_charges_no_shadow_limit(make_site, clock):
    site = make_site()
    site.route("/", site.limiter.limit("3/hour", shadow=True), site.limiter.limit("1/minute"))
    assert site.ask("/", 8) == [200] + [429] * 7
    for _ in range(2):
        clock.advance(60)
        assert site.decision("/").allowed
    clock.advance(60)
    assert not site.decision("/").allowed


def test_a_shadow_rate_limit_charges_as_if_it_were_real(make_site, store, clock):
    shadow = make_site(application_limits="5/minute", key_prefix="same", shadow=True)
    shadow.route("/", shadow.limiter.limit("2/minute"))
    assert shadow.ask("/", 9) == [200] * 9
    real = make_site(application_limits="5/minute", key_prefix="same")
    assert real.ask("/free", 4) == [200] * 3 + [429]


def test_a_shadow_limit_spends_no_meta_limit(make_site):
    site = make_site(default_limits="9/minute", meta_limits="1/hour")
    site.route("/", site.limiter.limit("1/minute", shadow=True))
    assert site.ask("/", 5) == [200] * 5
    assert site.ask("/free", 1) == [200]
