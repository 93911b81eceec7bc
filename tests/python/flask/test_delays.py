"""A leaky bucket in front of a view: the view is told how long to wait, the request is not held."""

from __future__ import annotations

import pytest

from overlimit import LeakyBucket

pytestmark = pytest.mark.every_store


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


def test_time_does_not_pass_for_the_request(queue, clock):
    before = clock.now()
    assert queue.ask("/", 3) == [200] * 3
    assert clock.now() == before
