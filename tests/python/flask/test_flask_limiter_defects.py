"""What goes wrong with Flask-Limiter 4.1 and goes right here, where no other file is about it."""

from __future__ import annotations

import gc
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from flask import request

LONGEST_MS = 1000 * (2 * 3600 + 3600) + 5000
"""What a limit by the hour may take to be unused, and an hour of slack for an injected clock."""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(("seconds", "kept"), [(30, False), (90, True)])
def test_a_date_of_the_view_is_read_in_utc_whatever_the_zone_of_the_machine(
    make_site, monkeypatch, zone, seconds, kept
):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        site = make_site(default_limits="1/minute")
        moment = datetime.fromtimestamp(site.clock.now(), UTC) + timedelta(seconds=seconds)
        date = format_datetime(moment, usegmt=True)
        site.app.register_error_handler(429, lambda error: ("wait", 429, {"Retry-After": date}))
        assert site.ask("/free", 1) == [200]
        assert site.open("/free").headers.getlist("Retry-After") == [date if kept else "60"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_meta_limits_heed_the_prefix(make_site):
    first, second = (
        make_site(default_limits="1/minute", meta_limits="1/hour", key_prefix=prefix) for prefix in "ab"
    )
    for site in (first, second):
        site.route("/other")
    assert first.ask("/free", 2) + first.ask("/other", 1) == [200, 429, 429]
    assert second.ask("/free", 1) + second.ask("/other", 1) == [200, 200]


def test_the_numbers_shown_are_those_of_the_decision(make_site):
    site = make_site()

    @site.app.get("/")
    @site.limiter.limit("5/minute", name="n")
    def index():
        if "X-Nested" in request.headers:
            assert site.ask("/", 2) == [200, 200]
        return "ok"

    assert site.open("/", headers={"X-Nested": "1"}).headers["RateLimit"] == '"n";r=4;t=60'
    assert site.open("/").headers["RateLimit"] == '"n";r=1;t=60'


def test_texts_are_parsed_once_and_not_at_each_request(make_site):
    site = make_site(application_limits="90/minute", default_limits="50/minute")
    site.route("/", site.limiter.limit("40/minute"))
    assert site.ask("/", 1) + site.ask("/free", 1) == [200, 200]
    files = set()
    # What other tests left is not ended now: a generator that ends counts as called.
    gc.disable()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    try:
        statuses = site.ask("/", 3) + site.ask("/free", 3)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert statuses == [200] * 6
    assert [file for file in files if "overlimit" in file]
    assert [file for file in files if "overlimit/limits" in file] == []


@pytest.mark.parametrize("store", ["redis"], indirect=True)
@pytest.mark.parametrize(
    "algorithm", ["fixed_window", "sliding_log", "sliding_window_counter", "token_bucket"]
)
def test_every_key_has_a_time_to_live(make_site, redis_server, prefix, algorithm):
    site = make_site(algorithm=algorithm, application_limits="90/minute", meta_limits="9/hour")
    site.route("/", site.limiter.limit("1/minute"), site.limiter.shared_limit("9/minute", scope="s"))
    site.ask("/", 3, user="ann")
    keys = redis_server.ask("KEYS", f"*{prefix}*")
    assert len(keys) >= 4
    assert [key for key in keys if not 0 < redis_server.ask("PTTL", key) <= LONGEST_MS] == []


@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_a_key_that_lost_its_time_to_live_locks_nobody_out(make_site, redis_server, prefix, clock):
    site = make_site(default_limits="1/minute")
    assert site.ask("/free", 2) == [200, 429]
    for key in redis_server.ask("KEYS", f"*{prefix}*"):
        redis_server.ask("PERSIST", key)
    clock.advance(60)
    assert site.ask("/free", 2) == [200, 429]
