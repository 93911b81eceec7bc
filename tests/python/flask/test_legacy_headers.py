"""The ``X-RateLimit-*`` fields."""

from __future__ import annotations

import pytest

from overlimit.flask import RateLimit

DRAFT = ("RateLimit-Policy", "RateLimit")


def legacy(response, start) -> tuple[str | None, ...]:
    """Return limit, remaining, and the reset in seconds after ``start``."""
    limit, remaining, reset = (
        response.headers.get(f"X-RateLimit-{name}") for name in ("Limit", "Remaining", "Reset")
    )
    return limit, remaining, None if reset is None else int(reset) - start


@pytest.fixture
def start(clock):
    return int(clock.now())


def test_they_say_limit_remaining_and_when_the_limit_is_unused_again(make_site, start, at):
    site = make_site(default_limits="2/minute", headers="legacy")
    at(0.25)
    assert legacy(site.open("/free"), start) == ("2", "1", 61)
    at(30)
    assert legacy(site.open("/free"), start) == ("2", "0", 61)
    refused = site.open("/free")
    assert legacy(refused, start) == ("2", "0", 61)
    assert refused.headers["Retry-After"] == "31"


def test_they_are_of_the_limit_that_binds(make_site, start, at):
    site = make_site(default_limits="2/second; 5/minute; 7/hour", headers="legacy")
    assert [legacy(site.open("/free"), start) for _ in range(3)] == [
        ("2", "1", 1),
        ("2", "0", 1),
        ("2", "0", 1),
    ]
    at(1)
    assert legacy(site.open("/free"), start) == ("2", "1", 2)
    assert legacy(site.open("/free"), start) == ("2", "0", 2)
    at(2)
    assert legacy(site.open("/free"), start) == ("5", "0", 60)
    assert legacy(site.open("/free"), start) == ("5", "0", 60)
    at(60)
    assert legacy(site.open("/free"), start) == ("7", "1", 3600)
    at(61)
    assert legacy(site.open("/free"), start) == ("7", "0", 3600)


def test_application_limits_count_too(make_site, start):
    site = make_site(application_limits="60/minute", default_limits="10/hour", headers="legacy")
    site.route("/", site.limiter.limit("80/second"))
    assert legacy(site.open("/"), start) == ("60", "59", 60)
    assert legacy(site.open("/free"), start) == ("10", "9", 3600)


@pytest.mark.parametrize(
    ("headers", "has_legacy", "has_draft"),
    [("legacy", True, False), ("both", True, True), ("draft", False, True), (None, False, False)],
)
def test_headers_chooses_the_fields(make_site, headers, has_legacy, has_draft):
    site = make_site(default_limits="1/minute", headers=headers)
    for status in (200, 429):
        response = site.open("/free")
        assert response.status_code == status
        assert [name in response.headers for name in DRAFT] == [has_draft] * 2
        names = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
        assert [name in response.headers for name in names] == [has_legacy] * 3
        assert ("Retry-After" in response.headers) is (status == 429)


def test_their_names_come_from_the_configuration(make_app, start):
    app, limiter_options = make_app(
        RATELIMIT_HEADER_LIMIT="X-My-Limit",
        RATELIMIT_HEADER_REMAINING="X-My-Remaining",
        RATELIMIT_HEADER_RESET="X-My-Reset",
        RATELIMIT_HEADERS_ENABLED=True,
    )
    RateLimit(app, default_limits="1/minute", **limiter_options)
    headers = app.test_client().get("/").headers
    assert (headers["X-My-Limit"], headers["X-My-Remaining"]) == ("1", "0")
    assert int(headers["X-My-Reset"]) == start + 60
    assert not [name for name, _ in headers if name.startswith("X-RateLimit")]
    assert headers["RateLimit"] == '"default";r=0;t=60'


def test_retry_after_may_have_another_name(make_app):
    app, limiter_options = make_app(RATELIMIT_HEADER_RETRY_AFTER="X-Retry")
    RateLimit(app, default_limits="1/minute", **limiter_options)
    client = app.test_client()
    assert "X-Retry" not in client.get("/").headers
    assert client.get("/").headers["X-Retry"] == "60"


def test_a_failing_view_carries_them(make_site, start):
    site = make_site(headers="legacy")

    @site.app.get("/")
    @site.limiter.limit("3/minute")
    def broken():
        raise LookupError

    assert legacy(site.open("/"), start) == ("3", "2", 60)


def test_what_waiting_cannot_help_has_no_retry_after(make_site):
    site = make_site(default_limits="0/minute", headers="legacy")
    response = site.open("/free")
    assert (response.status_code, response.headers["X-RateLimit-Limit"]) == (429, "0")
    assert response.headers["X-RateLimit-Remaining"] == "0"
    assert "Retry-After" not in response.headers


def test_an_unlimited_request_has_none(make_site, start):
    site = make_site(headers="both")
    assert legacy(site.open("/free"), start) == (None, None, None)


def test_a_views_own_fields_are_not_doubled(make_site):
    site = make_site(headers="legacy")
    site.app.get("/")(site.limiter.limit("3/minute")(lambda: ("ok", {"X-RateLimit-Limit": "mine"})))
    assert len(site.open("/").headers.getlist("X-RateLimit-Limit")) == 1
