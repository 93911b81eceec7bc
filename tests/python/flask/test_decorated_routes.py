"""What ``rate_limit`` on a route counts, and what it leaves alone."""

from __future__ import annotations

import pytest
from flask import Blueprint

from overlimit import LeakyBucket
from overlimit.flask import rate_limit


def test_the_limit_admits_exactly_its_quota_and_again_after_the_window(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 5) == [200] * 3 + [429] * 2
    clock.advance(59.999999)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 4) == [200] * 3 + [429]


def test_every_limit_of_a_text_holds(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("2/second; 3/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(1)
    assert site.ask("/", 2) == [200, 429]
    clock.advance(58.999999)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 3) == [200, 200, 429]


def test_users_behind_one_address_share_its_limit(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 2, user="ann") == [200, 200]
    assert site.ask("/", 2, user="ben") == [200, 429]
    assert site.ask("/", 3, user="ben", ip="192.0.2.2") == [200, 200, 429]


def test_a_refused_user_costs_the_address_nothing(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 4, user="ann", ip="192.0.2.1") == [200] * 3 + [429]
    assert site.ask("/", 5, user="ann", ip="192.0.2.2") == [429] * 5
    assert site.ask("/", 4, user="ben", ip="192.0.2.2") == [200] * 3 + [429]


def test_one_view_under_two_endpoints_is_counted_per_endpoint(make_site):
    site = make_site()
    view = rate_limit("1/minute", name="shared-view")(lambda: "ok")
    site.app.add_url_rule("/a", "a", view)
    site.app.add_url_rule("/b", "b", view)
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 2) == [200, 429]


def test_two_rules_of_one_endpoint_are_counted_together(make_site):
    site = make_site()
    view = rate_limit("2/minute")(lambda: "ok")
    site.app.add_url_rule("/a", "view", view)
    site.app.add_url_rule("/b", "view", view)
    assert site.ask("/a", 1) + site.ask("/b", 2) == [200, 200, 429]


def test_endpoints_that_read_alike_are_counted_apart(make_site):
    site = make_site()
    endpoints = ["x--1", "x-1", "x 1", "x/1", "x" * 80]
    for number, endpoint in enumerate(endpoints):
        site.app.add_url_rule(f"/{number}", endpoint, rate_limit("1/minute")(lambda: "ok"))
    for number in range(len(endpoints)):
        assert site.ask(f"/{number}", 2) == [200, 429]


def test_a_decorator_of_its_own_algorithm_does_not_follow_the_rate_limit(make_site, clock):
    site = make_site(algorithm="fixed_window")
    site.app.get("/")(rate_limit("2/minute", algorithm="token_bucket")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(30)
    assert site.ask("/", 2) == [200, 429]


def test_a_default_limit_counts_each_undecorated_endpoint_apart(make_site):
    site = make_site(default_limits="2/minute")
    site.app.get("/other")(lambda: "other")
    assert site.ask("/free", 3) == [200, 200, 429]
    assert site.ask("/other", 3) == [200, 200, 429]


def test_an_application_limit_counts_all_routes_together(make_site):
    site = make_site(application_limits="5/minute")
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [200] * 3
    assert site.ask("/free", 3) == [200, 200, 429]


def test_a_request_refused_by_the_application_leaves_its_route_alone(make_site, clock):
    site = make_site(application_limits="1/minute")
    site.app.get("/")(rate_limit("2/hour")(lambda: "ok"))
    assert site.ask("/", 5) == [200] + [429] * 4
    clock.advance(60)
    assert site.ask("/", 1) == [200]
    clock.advance(60)
    assert site.ask("/", 1) == [429]


def test_an_app_without_limits_calls_no_store(make_site, store_calls):
    site = make_site()
    assert site.ask("/free", 3) == [200] * 3
    assert store_calls == []


def test_static_files_are_not_limited(make_site, store_calls, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    site = make_site(static_folder=str(tmp_path), default_limits="1/minute", application_limits="1/minute")
    pages = Blueprint("pages", __name__, static_folder=str(tmp_path), static_url_path="/files")
    site.limiter.limit("1/minute")(pages)
    site.app.register_blueprint(pages, url_prefix="/pages")
    assert site.ask(f"/{tmp_path.name}/a.txt", 3) == [200] * 3
    assert site.ask("/pages/files/a.txt", 3) == [200] * 3
    assert store_calls == []


def test_a_view_that_only_calls_itself_static_is_limited(make_site):
    site = make_site(default_limits="1/minute")
    pages = Blueprint("pages", __name__)
    pages.get("/", endpoint="static")(lambda: "not a file")
    site.app.register_blueprint(pages, url_prefix="/pages")
    assert site.ask("/pages/", 2) == [200, 429]


@pytest.fixture
def queue(make_site):
    """Return a site whose ``/`` answers with the delay, one request each ten seconds and two may wait."""
    site = make_site(application_limits="100/minute")
    limit = site.limiter.limit(LeakyBucket(1, per=10, capacity=2))
    site.app.get("/")(limit(lambda: str(site.limiter.current_decision.delay)))
    return site


def test_the_view_reads_its_delay(queue):
    assert [queue.open("/").text for _ in range(3)] == ["0.0", "10.0", "20.0"]
    refused = queue.open("/")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")


def test_the_delay_shrinks_as_the_queue_drains(queue, at):
    assert queue.ask("/", 3) == [200] * 3
    at(10)
    assert queue.open("/").text == "20.0"
    at(25)
    assert queue.open("/").text == "15.0"
    assert queue.ask("/", 1) == [429]
