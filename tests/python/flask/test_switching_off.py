"""Switching limits off and on while the app runs."""

from __future__ import annotations

import threading

import pytest

from overlimit.flask import RateLimit


def test_only_this_rate_limit_is_switched_off(make_site, store, clock):
    site = make_site(default_limits="1/minute")
    other = RateLimit(site.app, default_limits="3/minute", store=store, clock=clock, algorithm="fixed_window")
    with site.limiter.disabled():
        assert site.ask("/free", 4) == [200] * 3 + [429]
    with other.disabled():
        assert site.ask("/free", 2) == [200, 429]


def test_it_is_off_for_other_threads_too(make_site):
    site = make_site(default_limits="1/minute")
    statuses = []
    with site.limiter.disabled():
        thread = threading.Thread(target=lambda: statuses.extend(site.ask("/free", 3)))
        thread.start()
        thread.join()
    assert statuses == [200] * 3


def test_blocks_of_code_are_entered_while_switched_off(make_site):
    site = make_site()

    @site.app.get("/")
    def index():
        with site.limiter.limit("1/minute"):
            return "ok"

    with site.limiter.disabled():
        assert site.ask("/", 3) == [200] * 3
    assert site.ask("/", 2) == [200, 429]


@pytest.mark.parametrize("way", ["later", "option", "configuration"])
def test_limits_can_be_switched_off_and_on_at_run_time(make_site, way):
    site = make_site(
        default_limits="2/minute",
        config={"RATELIMIT_ENABLED": False} if way == "configuration" else {},
        **({"enabled": False} if way == "option" else {}),
    )
    site.route("/own", site.limiter.limit("1/hour"))
    if way == "later":
        assert site.ask("/free", 1) == [200]
        site.limiter.enabled = False
    assert site.ask("/free", 5) + site.ask("/own", 3) == [200] * 8
    assert not site.limiter.enabled
    assert site.decision("/free") is None
    assert "RateLimit" not in site.open("/free").headers
    site.limiter.enabled = True
    assert site.ask("/free", 3) == ([200, 429, 429] if way == "later" else [200, 200, 429])
    assert site.ask("/own", 2) == [200, 429]
