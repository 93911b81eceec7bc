"""Requests of nobody: docs/reference/flask.md, "Who is limited"."""

from __future__ import annotations

import pytest
from flask import Flask, request

from overlimit.flask import RateLimit, rate_limit

pytestmark = pytest.mark.every_store

EMPTY = [None, "", b"", [], (), [""], [None, ""]]


def who():
    return request.headers.get("X-Key")


@pytest.mark.parametrize("nobody", EMPTY, ids=repr)
@pytest.mark.parametrize("option", ["identifiers", "key_func"])
def test_they_share_one_count_or_are_exempt(make_site, nobody, option):
    shared = make_site(default_limits="2/minute", **{option: lambda: nobody})
    assert shared.ask("/free", 3) == [200, 200, 429]
    named = make_site(
        default_limits="2/minute", key_prefix="n", anonymous="share", **{option: lambda: nobody}
    )
    assert named.ask("/free", 3) == [200, 200, 429]
    exempt = make_site(default_limits="2/minute", anonymous="exempt", **{option: lambda: nobody})
    assert exempt.ask("/free", 5) == [200] * 5


def test_who_is_called_anonymous_is_somebody(make_site):
    site = make_site(default_limits="2/minute", anonymous="exempt", identifiers=lambda: "anonymous")
    assert site.ask("/free", 3) == [200, 200, 429]


def test_an_exempt_request_is_charged_nowhere_and_has_no_fields(make_site, store_calls):
    site = make_site(default_limits="2/minute", anonymous="exempt", identifiers=who)
    with site.app.test_client() as client:
        response = client.get("/free")
        assert site.limiter.current_decision is None
    assert "RateLimit" not in response.headers
    assert store_calls == []
    assert site.ask("/free", 3, headers={"X-Key": "a"}) == [200, 200, 429]


def test_other_limits_hold_for_nobody_all_the_same(make_site):
    site = make_site(default_limits="9/minute", application_limits="3/minute")
    by_key = site.limiter.limit("2/minute", key_func=who, anonymous="exempt", override_defaults=False)
    site.route("/a", by_key)
    assert site.quotas("/a") == [3, 9]
    assert site.quotas("/a", headers={"X-Key": "a"}) == [2, 3, 9]
    assert site.ask("/a", 2) == [200, 429]


def test_a_limit_says_so_for_itself(make_site):
    site = make_site(identifiers=who, anonymous="exempt")
    site.route("/open", site.limiter.limit("1/minute"))
    site.route("/closed", site.limiter.limit("1/minute", anonymous="share"))
    assert site.ask("/open", 3) == [200] * 3
    assert site.ask("/closed", 2) == [200, 429]
    assert site.ask("/open", 2, headers={"X-Key": "a"}) == [200, 429]


def test_a_limit_that_exempts_still_replaces_the_defaults(make_site):
    site = make_site(default_limits="1/minute", identifiers=who)
    site.route("/", site.limiter.limit("1/minute", anonymous="exempt"))
    assert site.ask("/", 3) == [200] * 3


def test_application_and_meta_limits_and_shared_ones_exempt_too(make_site):
    site = make_site(application_limits="1/minute", meta_limits="1/hour", identifiers=who, anonymous="exempt")
    site.route("/s", site.limiter.shared_limit("1/minute", "s"))
    assert site.ask("/free", 3) == [200] * 3
    assert site.ask("/free", 3, headers={"X-Key": "a"}) == [200, 429, 429]
    assert site.ask("/s", 3) == [200] * 3


def test_a_function_is_asked_once_per_request(make_site):
    asked = []

    def counted():
        asked.append(1)
        return who()

    site = make_site(application_limits="9/minute", identifiers=counted, anonymous="exempt")
    for decorators in (2, 3):
        limits = [site.limiter.limit(f"{n}/hour", key_func=None) for n in range(5, 5 + decorators)]
        site.route(f"/{decorators}", *limits)
    for path in ("/2", "/3"):
        assert site.ask(path, 1) + site.ask(path, 1, headers={"X-Key": "a"}) == [200, 200]
    assert len(asked) == 4


def test_a_deduction_finds_its_limit_when_others_exempt(make_site):
    site = make_site(identifiers=who)
    site.route(
        "/",
        site.limiter.limit("9/minute", anonymous="exempt", name="key"),
        site.limiter.limit(
            "1/minute", identifiers=lambda: "all", name="all", deduct_when=lambda response: False
        ),
    )
    assert site.ask("/", 3) == [200] * 3
    assert site.ask("/", 3, headers={"X-Key": "a"}) == [200] * 3
    assert site.open("/").headers["RateLimit-Policy"] == '"all";q=1;w=60'


def test_functions_and_blocks_exempt(make_site):
    site = make_site(identifiers=who, anonymous="exempt")
    helper = site.limiter.limit("1/minute")(lambda: "helped")

    @site.app.get("/helped")
    def helped():
        with site.limiter.limit("1/minute", name="block"):
            return helper()

    assert site.ask("/helped", 3) == [200] * 3
    assert site.ask("/helped", 2, headers={"X-Key": "a"}) == [200, 429]


def test_a_fallback_exempts(clock, free_port_url):
    app = Flask("fallback")
    RateLimit(
        app,
        default_limits="5/minute",
        in_memory_fallback="1/minute",
        store=free_port_url,
        identifiers=who,
        anonymous="exempt",
    )
    app.get("/")(lambda: "ok")
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(3)] == [200] * 3
    assert [client.get("/", headers={"X-Key": "a"}).status_code for _ in range(2)] == [200, 429]


@pytest.fixture
def free_port_url():
    return "redis://127.0.0.1:1/0"


def test_too_many_identifiers_are_too_many_all_the_same(make_site):
    site = make_site(
        default_limits="5/minute", anonymous="exempt", identifiers=lambda: [f"u{n}" for n in range(17)]
    )
    assert site.ask("/free", 1) == [500]


@pytest.mark.parametrize("word", ["exempt", "share"])
def test_the_configuration_says_it_too(make_app, word):
    app, options = make_app(RATELIMIT_ANONYMOUS=word, RATELIMIT_DEFAULT="1/minute", RATELIMIT_KEY_FUNC=who)
    RateLimit(app, **options)
    client = app.test_client()
    statuses = [client.get("/").status_code for _ in range(2)]
    assert statuses == ([200, 200] if word == "exempt" else [200, 429])


@pytest.mark.parametrize("word", ["ignore", True, "Exempt"])
def test_another_word_is_an_error_where_it_is_written(word):
    with pytest.raises(ValueError, match="anonymous must be 'share' or 'exempt'"):
        RateLimit(anonymous=word)
    with pytest.raises(ValueError, match="anonymous must be 'share' or 'exempt'"):
        rate_limit("1/minute", anonymous=word)
    app = Flask("configured")
    app.config["RATELIMIT_ANONYMOUS"] = word
    with pytest.raises(ValueError, match="RATELIMIT_ANONYMOUS"):
        RateLimit(app)
