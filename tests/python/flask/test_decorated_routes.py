"""What ``rate_limit`` on a route counts, and what it leaves alone."""

from __future__ import annotations

import pytest
from flask import Blueprint

from overlimit import LeakyBucket
from overlimit.flask import rate_limit


def test_one_view_under_two_endpoints_is_counted_per_endpoint(make_site):
    site = make_site()
    view = rate_limit("1/minute", name="shared-view")(lambda: "ok")
    site.app.add_url_rule("/a", "a", view)
    site.app.add_url_rule("/b", "b", view)
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 2) == [200, 429]


def test_a_decorator_of_its_own_algorithm_does_not_follow_the_rate_limit(make_site, clock):
    site = make_site(algorithm="fixed_window")
    site.app.get("/")(rate_limit("2/minute", algorithm="token_bucket")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(30)
    assert site.ask("/", 2) == [200, 429]


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
