"""What a refused caller is answered."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from overlimit import Limiter
from overlimit import flask as extension
from overlimit.flask import RateLimit, RateLimitExceeded


@pytest.mark.parametrize("answer", ["later", b"later", ("later", 429), ["later"], {"error": "later"}])
def test_an_on_breach_that_returns_what_only_views_may_return_is_an_error(make_site, answer):
    site = make_site(default_limits="0/minute", on_breach=lambda decision: answer)
    site.route("/")
    site.app.testing = True
    with pytest.raises(TypeError, match="on_breach must return a response, as make_response"):
        site.open("/")


def test_a_rate_limit_handler_of_the_app_is_behind_on_breach(make_site):
    site = make_site(default_limits="1/minute", on_breach=lambda decision: None)
    site.app.register_error_handler(429, lambda error: ("handled", 429))
    assert site.ask("/free", 1) == [200]
    assert site.open("/free").text == "handled"


@pytest.fixture
def heard():
    """Return a context manager: the list of (app, decision) that the signal brings."""

    @contextmanager
    def listen(sender=None):
        found = []

        def note(app, *, decision, **more):
            assert more == {}
            found.append((app, decision))

        options = {} if sender is None else {"sender": sender}
        extension.rate_limited.connect(note, **options)
        try:
            yield found
        finally:
            extension.rate_limited.disconnect(note)

    return listen


def test_each_refusal_is_told_once_with_its_decision(make_site, heard):
    site = make_site(default_limits="1/minute", application_limits="9/minute")
    with heard() as found:
        assert site.ask("/free", 1) == [200]
        assert found == []
        refused = site.decision("/free")
        assert site.ask("/free", 1) == [429]
    assert [app for app, _ in found] == [site.app] * 2
    assert found[0][1] is refused
    assert (refused.allowed, refused.limit.quota, refused.retry_after) == (False, 1, 60.0)


def test_shadow_refusals_are_told_too(make_site, heard):
    site = make_site()
    site.route("/", site.limiter.limit("1/minute", shadow=True), site.limiter.limit("9/minute"))
    with heard() as found:
        assert site.ask("/", 3) == [200] * 3
    assert [(app, decision.allowed) for app, decision in found] == [(site.app, False)] * 2
    assert not site.decision("/").allowed, "which is the current decision"


def test_refusals_by_a_meta_limit_are_told(make_site, heard):
    site = make_site(default_limits="1/minute", meta_limits="1/hour")
    with heard() as found:
        assert site.ask("/free", 3) == [200, 429, 429]
    assert len(found) == 2


def test_it_can_be_heard_for_one_app_only(make_site, heard):
    first, second = (make_site(default_limits="1/minute", key_prefix=prefix) for prefix in "ab")
    with heard(sender=first.app) as found:
        assert first.ask("/free", 2) + second.ask("/free", 2) == [200, 429] * 2
    assert [app for app, _ in found] == [first.app]


def test_two_rate_limits_tell_of_one_refusal_once(make_site, store, clock, heard):
    site = make_site(default_limits="1/minute")
    RateLimit(site.app, default_limits="1/minute", store=store, clock=clock)
    with heard() as found:
        assert site.ask("/free", 2) == [200, 429]
    assert len(found) == 1


def test_it_is_an_answer_by_itself(clock):
    limiter = Limiter("1/minute", algorithm="fixed_window", clock=clock)
    limiter.hit("ann")
    response = RateLimitExceeded(limiter.hit("ann")).get_response()
    assert (response.status_code, response.headers["Retry-After"]) == (429, "60")
