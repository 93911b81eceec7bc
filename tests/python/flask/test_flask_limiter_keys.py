"""The configuration of an app that used Flask-Limiter."""

from __future__ import annotations

import logging
import warnings
from ipaddress import ip_address
from uuid import UUID

import pytest
from flask import Flask, Response, request

from overlimit.flask import RateLimit, by_header, by_user_or_address


def ask(app, times, path="/", **options):
    client = app.test_client()
    return [client.open(path, **options).status_code for _ in range(times)]


@pytest.fixture
def limited(make_app):
    """Return a function that makes an app with that configuration and its RateLimit."""

    def make(**config):
        app, options = make_app(**config)
        app.get("/other", endpoint="other")(lambda: "ok")
        return app, RateLimit(app, **options)

    return make


def test_default_limits_with_their_suffixes(limited):
    app, _ = limited(
        RATELIMIT_DEFAULT="4/minute",
        RATELIMIT_DEFAULTS_PER_METHOD=True,
        RATELIMIT_DEFAULTS_COST=2,
        RATELIMIT_DEFAULTS_EXEMPT_WHEN=lambda: "X-Exempt" in request.headers,
        RATELIMIT_DEFAULTS_DEDUCT_WHEN=lambda response: "X-Free" not in request.headers,
    )
    assert ask(app, 3, headers={"X-Exempt": "1"}) == [200] * 3
    assert ask(app, 3, headers={"X-Free": "1"}) == [200] * 3
    assert ask(app, 3) == [200, 200, 429]
    assert ask(app, 3, method="POST") == [200, 200, 429]


def test_application_limits_with_their_suffixes(limited):
    app, _ = limited(
        RATELIMIT_APPLICATION="4/minute",
        RATELIMIT_APPLICATION_PER_METHOD=True,
        RATELIMIT_APPLICATION_COST=lambda: 2,
        RATELIMIT_APPLICATION_EXEMPT_WHEN=lambda: "X-Exempt" in request.headers,
        RATELIMIT_APPLICATION_DEDUCT_WHEN=lambda response: "X-Free" not in request.headers,
    )
    assert ask(app, 3, headers={"X-Exempt": "1"}) == [200] * 3
    assert ask(app, 3, headers={"X-Free": "1"}) == [200] * 3
    assert ask(app, 1) + ask(app, 2, "/other") == [200, 200, 429]
    assert ask(app, 3, method="POST") == [200, 200, 429]


def test_meta_limits_and_their_callback(limited):
    app, _ = limited(
        RATELIMIT_DEFAULT="1/minute",
        RATELIMIT_META="1/hour",
        RATELIMIT_ON_BREACH_CALLBACK=lambda decision: Response("breach", status=429),
        RATELIMIT_ON_META_BREACH_CALLBACK=lambda decision: Response("meta", status=429),
    )
    client = app.test_client()
    assert [client.get("/").text for _ in range(3)] == ["ok", "breach", "meta"]


def test_the_key_function(limited):
    app, _ = limited(RATELIMIT_DEFAULT="1/minute", RATELIMIT_KEY_FUNC=lambda: request.headers["X-Key"])
    for key in ("a", "b"):
        assert ask(app, 2, headers={"X-Key": key}) == [200, 429]


def test_key_func_is_an_alias_of_identifiers(make_app):
    app, options = make_app()
    RateLimit(app, default_limits="1/minute", key_func=lambda: request.headers["X-Key"], **options)
    for key in ("a", "b"):
        assert ask(app, 2, headers={"X-Key": key}) == [200, 429]


def test_key_func_and_identifiers_together_are_an_error():
    with pytest.raises(TypeError, match="key_func"):
        RateLimit(key_func=lambda: "a", identifiers=lambda: "a")


@pytest.mark.parametrize(
    ("value", "legacy", "draft"), [(True, True, True), (False, False, False), (None, False, True)]
)
def test_headers_enabled_chooses_the_fields(limited, value, legacy, draft):
    config = {} if value is None else {"RATELIMIT_HEADERS_ENABLED": value}
    app, _ = limited(RATELIMIT_DEFAULT="1/minute", **config)
    headers = app.test_client().get("/").headers
    assert ("X-RateLimit-Limit" in headers, "RateLimit" in headers) == (legacy, draft)


@pytest.mark.parametrize(
    ("strategy", "algorithm"),
    [
        ("fixed-window", "FixedWindow"),
        ("moving-window", "SlidingLog"),
        ("sliding-window-counter", "SlidingWindowCounter"),
    ],
)
def test_a_strategy_is_one_of_our_algorithms(make_app, strategy, algorithm):
    app, options = make_app(RATELIMIT_STRATEGY=strategy, RATELIMIT_DEFAULT="2/minute")
    del options["algorithm"]
    limiter = RateLimit(app, **options)
    with app.test_client() as client:
        client.get("/")
        assert type(limiter.current_decision.limit).__name__ == algorithm
    assert ask(app, 2) == [200, 429]


def test_a_moving_window_over_ten_thousand_becomes_a_sliding_window_with_a_note(make_app, caplog):
    app, options = make_app(RATELIMIT_STRATEGY="moving-window", RATELIMIT_DEFAULT="10001/minute; 9/minute")
    del options["algorithm"]
    with caplog.at_level(logging.INFO, logger="overlimit"):
        limiter = RateLimit(app, **options)
        with app.test_client() as client:
            client.get("/")
            kinds = {d.limit.quota: type(d.limit).__name__ for d in limiter.current_decision.details}
    assert kinds == {10001: "SlidingWindow", 9: "SlidingLog"}
    assert [("10001" in each.message, "sliding window" in each.message) for each in caplog.records] == [
        (True, True)
    ]


def test_fail_on_first_breach_has_no_effect(make_app):
    for value in (True, False):
        app, options = make_app(
            RATELIMIT_FAIL_ON_FIRST_BREACH=value,
            RATELIMIT_KEY_PREFIX=f"p{value}",
            RATELIMIT_DEFAULT="2/minute",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            RateLimit(app, **options)
        assert ask(app, 3) == [200, 200, 429]


@pytest.mark.parametrize("scheme", ["unix", "redis+unix", "valkey+unix", "redis"])
def test_their_storage_urls_work(redis_server, prefix, scheme, clock):
    place = f"127.0.0.1:{redis_server.port}/0" if scheme == "redis" else f"{redis_server.socket_path}"
    app = Flask("stored")
    app.get("/", endpoint="index")(lambda: "ok")
    app.config["RATELIMIT_STORAGE_URI"] = f"{scheme}://{place}"
    app.config["RATELIMIT_KEY_PREFIX"] = prefix
    limiter = RateLimit(
        app, default_limits="2/minute", clock=clock, algorithm="fixed_window", on_error="raise"
    )
    with app.test_client() as client:
        client.get("/")
        assert limiter.current_decision.source == "store"
    assert ask(app, 2) == [200, 429]
    assert redis_server.ask("KEYS", f"*{prefix}*")


def test_storage_options_complete_a_url_that_is_given_as_the_store(redis_server, prefix, clock):
    app = Flask("stored")
    app.get("/", endpoint="index")(lambda: "ok")
    app.config["RATELIMIT_STORAGE_OPTIONS"] = {"key_prefix": prefix, "socket_timeout": 10}
    limiter = RateLimit(
        app, default_limits="2/minute", clock=clock, store=redis_server.tcp_url(), on_error="raise"
    )
    with app.test_client() as client:
        client.get("/")
        assert limiter.current_decision.source == "store"
    assert ask(app, 2) == [200, 429]
    assert redis_server.ask("KEYS", f"{prefix}*")


@pytest.mark.parametrize("trusted", [True, False])
def test_valkeys_is_a_url_with_tls(tls_server, clock, prefix, trusted):
    app = Flask("stored")
    app.get("/", endpoint="index")(lambda: "ok")
    url = tls_server.tls_url().replace("rediss://", "valkeys://")
    app.config["RATELIMIT_STORAGE_URI"] = f"{url}?timeout=10"
    app.config["RATELIMIT_STORAGE_OPTIONS"] = {"ssl_ca_certs": tls_server.ca} if trusted else {}
    RateLimit(app, default_limits="1/minute", clock=clock, key_prefix=prefix, on_error="deny")
    assert ask(app, 2) == ([200, 429] if trusted else [503, 503])


def test_options_go_before_the_configuration(make_app):
    app, options = make_app(
        RATELIMIT_DEFAULT="9/minute",
        RATELIMIT_DEFAULTS_COST=9,
        RATELIMIT_META="1/minute",
        RATELIMIT_ENABLED=False,
        RATELIMIT_HEADERS_ENABLED=True,
        RATELIMIT_STRATEGY="moving-window",
    )
    limiter = RateLimit(
        app,
        default_limits="2/second",
        default_limits_cost=1,
        meta_limits="5/minute",
        enabled=True,
        headers=None,
        **options,
    )
    with app.test_client() as client:
        response = client.get("/")
        assert type(limiter.current_decision.limit).__name__ == "FixedWindow"
        assert "X-RateLimit-Limit" not in response.headers
    assert ask(app, 3) == [200, 429, 429]
    options["clock"].advance(1)
    assert ask(app, 1) == [200]


@pytest.mark.parametrize("where", ["option", "limit", "configuration"])
@pytest.mark.parametrize(
    ("returned", "identifier"),
    [
        (lambda: ("shop", "a:b", 7), "shop:a\\:b:7"),
        (lambda: [UUID(int=5)], "00000000-0000-0000-0000-000000000005"),
        (lambda: ip_address("2001:db8::1"), "2001:db8::1"),
        (lambda: ("shop", ""), "anonymous"),
        (lambda: 0, "0"),
        (by_user_or_address, "ip:192.0.2.1"),
        (by_header("X-Absent"), "anonymous"),
    ],
)
def test_what_a_key_function_returns_is_one_identifier(make_app, where, returned, identifier):
    app, options = make_app(**({"RATELIMIT_KEY_FUNC": returned} if where == "configuration" else {}))
    if where == "option":
        options["key_func"] = returned
    limiter = RateLimit(app, **options)
    of_limit = {"key_func": returned} if where == "limit" else {}
    app.view_functions["index"] = limiter.limit("2/minute", **of_limit)(lambda: "ok")
    with app.test_client() as client:
        statuses = [
            client.get("/", environ_overrides={"REMOTE_ADDR": "192.0.2.1"}).status_code for _ in "123"
        ]
        rows = [detail.identifier for detail in limiter.current_decision.details]
    assert (statuses, rows) == ([200, 200, 429], [identifier])


def test_a_key_function_is_asked_once_per_request_however_many_limits_use_it(make_app):
    asked = []

    def key():
        asked.append(1)
        return "a", "b"

    app, options = make_app()
    limiter = RateLimit(app, key_func=key, application_limits="99/minute", **options)
    view = limiter.limit("9/minute", key_func=key)(limiter.limit("8/minute", key_func=key)(lambda: "ok"))
    app.view_functions["index"] = view
    assert ask(app, 2) == [200, 200]
    assert len(asked) == 2


def test_a_list_of_key_functions_is_told_what_to_write():
    with pytest.raises(TypeError, match="key_func must be a function without parameters"):
        RateLimit(key_func=[by_user_or_address])
