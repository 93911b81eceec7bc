"""What goes wrong with Flask-Limiter 4.1 and goes right here, where no other file is about it."""

from __future__ import annotations

import gc
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from flask import request


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
