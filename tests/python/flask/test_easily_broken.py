"""What is easily broken: switches that overlap, refunds that fail, threads at once, names of all kinds."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit


@pytest.mark.every_store
def test_a_deduct_when_that_raises_keeps_no_other_limit_from_its_refund(make_site, monkeypatch):
    site = make_site()
    monkeypatch.setattr(site.app.logger, "disabled", True)  # the logger is shared by all apps of its name
    site.route(
        "/two",
        site.limiter.limit("10/minute", deduct_when=lambda response: 1 // 0, name="broken"),
        site.limiter.limit("20/minute", deduct_when=lambda response: False, name="sound"),
    )
    assert site.ask("/two", 3) == [500, 500, 500]
    assert site.left("/two")[20] == 19  # its own charge alone: the three before were given back


def test_a_limit_put_on_a_view_after_its_first_request_holds_or_is_an_error(make_site):
    """Never silently nothing: a blueprint's late limit holds, and so does a late ``exempt``."""
    site = make_site(default_limits="9/minute")
    view = site.route("/late")
    site.ask("/late", 1)
    try:
        site.limiter.limit("1/minute")(view)
    except (RuntimeError, AssertionError):
        return
    assert site.ask("/late", 2) == [200, 429]


@pytest.mark.every_store
def test_two_stores_are_all_or_nothing_under_load(make_site):
    site = make_site(default_limits="100/minute")
    second = RateLimit(
        site.app,
        store=MemoryStore(),
        clock=ManualClock(),
        default_limits="5/minute",
        algorithm="fixed_window",
    )
    with ThreadPoolExecutor(12) as threads:
        answers = chain.from_iterable(threads.map(lambda number: site.ask("/free", 4), range(12)))
        assert Counter(answers) == {200: 5, 429: 43}
    second.enabled = False
    assert site.left("/free") == {100: 94}


@pytest.mark.parametrize(
    "endpoint", ['a"b', "back\\slash", "ü日", "a,b;c", "a\r\nX: y", "\ud800", "x" * 300, "default"]
)
def test_fields_are_structured_whatever_the_endpoint_is_called(make_site, endpoint):
    site = make_site(default_limits="10/minute", application_limits="100/minute; 100/minute")
    site.route(
        "/odd",
        site.limiter.limit("5/minute; 100/minute", override_defaults=False),
        site.limiter.limit("5/minute", override_defaults=False, name=endpoint),
        endpoint=endpoint,
    )
    for _ in range(6):
        response = site.open("/odd")
        item = r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"'
        for field, parameters in (
            ("RateLimit-Policy", r";q=\d{1,15};w=\d{1,15}"),
            ("RateLimit", r";r=\d{1,15}(?:;t=\d{1,15})?"),
        ):
            (line,) = response.headers.getlist(field)
            assert re.fullmatch(f"{item}{parameters}(?:, {item}{parameters})*", line)
            names = [found[0] for found in re.findall(f"{item}({parameters})", line)]
            assert len(set(names)) == len(names) == 6
    assert response.status_code == 429
