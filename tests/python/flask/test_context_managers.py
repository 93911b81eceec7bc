"""Limits around a block of code."""

from __future__ import annotations

import gc

import pytest
from flask import request

from overlimit.flask import RateLimitExceeded, rate_limit


def around(site, path, make_limit, **options):
    """Add a view whose answer is made within a limit."""

    def view(**arguments):
        with make_limit():
            return "ok"

    site.app.add_url_rule(path, options.pop("endpoint", path.strip("/")), view, **options)


@pytest.mark.parametrize("free", [False, True], ids=["bound", "free"])
def test_a_block_raises_what_refuses_the_request(make_site, clock, free):
    site = make_site()
    limit = rate_limit if free else site.limiter.limit
    around(site, "/a", lambda: limit("2/minute"))
    assert site.ask("/a", 3) == [200, 200, 429]
    assert site.open("/a").headers["Retry-After"] == "60"
    clock.advance(60)
    assert site.ask("/a", 3) == [200, 200, 429]


def test_a_refused_block_is_not_entered_and_the_view_may_go_on(make_site, clock):
    site = make_site()
    refusals = []

    @site.app.get("/")
    def index():
        with site.limiter.limit("1/second"):
            text = "ok"
        try:
            with site.limiter.limit("1/day"):
                text += " and more"
        except RateLimitExceeded as refusal:
            refusals.append(refusal.decision)
        return text

    assert site.open("/").text == "ok and more"
    assert site.open("/").status_code == 429
    clock.advance(1)
    assert site.open("/").text == "ok"
    assert [(refusal.status, refusal.retry_after) for refusal in refusals] == [("over", 86399.0)]


def test_a_block_counts_per_endpoint_and_text(make_site):
    site = make_site()
    around(site, "/a", lambda: site.limiter.limit("1/minute"))
    around(site, "/b", lambda: site.limiter.limit("1/minute"))

    @site.app.get("/both")
    def both():
        with site.limiter.limit("3/minute"), site.limiter.limit("3/minute"), site.limiter.limit("4/minute"):
            return "ok"

    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429] * 2
    assert site.ask("/both", 2) == [200, 429]


def test_names_tell_blocks_of_one_text_apart(make_site):
    site = make_site()

    @site.app.get("/")
    def index():
        with site.limiter.limit("1/minute", name="a"), site.limiter.limit("1/minute", name="b"):
            return "ok"

    assert site.ask("/", 2) == [200, 429]


@pytest.mark.parametrize("scope", [lambda: request.view_args["name"]], ids=["text"])
def test_a_block_has_a_scope(make_site, scope):
    site = make_site()
    around(site, "/t/<name>", lambda: site.limiter.limit("1/minute", scope=scope()), endpoint="tenant")
    assert site.ask("/t/1", 2) + site.ask("/t/2", 2) == [200, 429] * 2


def test_a_block_of_a_shared_limit_spans_routes(make_site):
    site = make_site()
    around(site, "/a", lambda: site.limiter.shared_limit("1/minute", scope="s"))
    around(site, "/b", lambda: site.limiter.shared_limit("1/minute", scope="s"))
    assert site.ask("/a", 1) + site.ask("/b", 1) == [200, 429]


def test_a_block_may_be_dynamic_and_have_a_cost(make_site):
    site = make_site()
    around(site, "/a", lambda: site.limiter.limit(lambda: "5/minute", cost=2))
    assert site.ask("/a", 3) == [200, 200, 429]


def test_one_object_may_be_entered_again_and_again(make_site):
    site = make_site()
    kept = site.limiter.limit("4/minute")

    @site.app.get("/")
    def index():
        with kept, kept:
            return "ok"

    assert site.ask("/", 3) == [200, 200, 429]


def test_an_exception_within_a_block_passes_through(make_site):
    site = make_site()

    @site.app.get("/")
    def index():
        with site.limiter.limit("2/minute"):
            raise LookupError

    assert site.ask("/", 3) == [500, 500, 429]


def test_a_block_comes_on_top_of_the_limits_of_the_route(make_site):
    site = make_site(default_limits="2/minute")
    around(site, "/a", lambda: site.limiter.limit("9/minute"))
    assert site.ask("/a", 3) == [200, 200, 429]


def test_a_block_of_an_exempt_view_still_counts(make_site):
    site = make_site(default_limits="1/minute")

    @site.app.get("/")
    @site.limiter.exempt
    def index():
        with site.limiter.limit("2/minute"):
            return "ok"

    assert site.ask("/", 3) == [200, 200, 429]


def test_outside_a_request_a_block_is_not_limited(make_site):
    site = make_site()
    for _ in range(3):
        with site.limiter.limit("1/minute"), rate_limit("1/minute"):
            pass


def test_blocks_made_anew_in_each_request_do_not_pile_up(make_site):
    site = make_site()
    around(site, "/a", lambda: site.limiter.limit(lambda: "2000/minute", cost=lambda: 1))
    assert site.ask("/a", 600) == [200] * 600
    gc.collect()
    before = len(gc.get_objects())
    assert site.ask("/a", 600) == [200] * 600
    gc.collect()
    assert len(gc.get_objects()) - before < 600
    assert site.decision("/a").remaining == 799
