"""Options, the app's configuration, and what holds without either."""

from __future__ import annotations

import logging
import traceback

import pytest
from flask import Flask

from overlimit import InvalidLimit, ManualClock
from overlimit.flask import RateLimit, rate_limit
from overlimit.flask.decorator import LimitKeywords
from overlimit.http.options.configuration import KEYS
from overlimit.http.options.rate_limit_options import RateLimitOptions


def make_app(config=None) -> Flask:
    app = Flask("configured")
    app.config.update(config or {})
    app.get("/", endpoint="index")(lambda: "ok")
    return app


def ask(app: Flask, times: int, path: str = "/") -> list[int]:
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


@pytest.mark.parametrize("key", ["RATELIMIT_DEFAULT", "RATELIMIT_APPLICATION"])
def test_limits_are_read_from_the_configuration(key):
    app = make_app({key: "2/minute"})
    RateLimit(app, clock=ManualClock())
    assert ask(app, 3) == [200, 200, 429]


@pytest.mark.parametrize(
    ("key", "option"),
    [("RATELIMIT_DEFAULT", "default_limits"), ("RATELIMIT_APPLICATION", "application_limits")],
)
def test_an_option_goes_before_the_configuration(key, option):
    app = make_app({key: "1/minute"})
    RateLimit(app, clock=ManualClock(), **{option: "2/minute"})
    assert ask(app, 3) == [200, 200, 429]


@pytest.mark.parametrize("clock", [3, 0, "noon", type("Stopped", (), {"now": 5})()])
def test_a_clock_that_is_none_is_an_error_when_it_is_given(clock):
    with pytest.raises(TypeError, match=r"clock must have a now\(\) or be callable, not (int|str|Stopped)"):
        RateLimit(clock=clock)
    with pytest.raises(TypeError, match=r"clock must have a now\(\) or be callable"):
        RateLimit().init_app(make_app(), clock=clock)


def test_a_clock_that_is_called_may_have_data_called_now():
    class Clock:
        now = 5

        def __call__(self):
            return 1_800_000_000.0

    app = make_app({"RATELIMIT_DEFAULT": "1/minute"})
    RateLimit(app, clock=Clock())
    assert ask(app, 2) == [200, 429]


def test_the_store_is_read_from_the_configuration(redis_server, prefix):
    config = {
        "RATELIMIT_STORAGE_URI": redis_server.tcp_url() + "?timeout=10",
        "RATELIMIT_KEY_PREFIX": prefix,
    }
    first, second = make_app(config), make_app(config)
    for app in (first, second):
        RateLimit(app, default_limits="3/hour")
    assert ask(first, 2) + ask(second, 2) == [200] * 3 + [429]


@pytest.mark.parametrize(
    "enabled", [{"config": {"RATELIMIT_ENABLED": False}}, {"options": {"enabled": False}}]
)
def test_a_disabled_rate_limit_lets_everything_pass(enabled, store_calls):
    app = make_app(enabled.get("config"))
    RateLimit(app, default_limits="1/minute", **enabled.get("options", {}))
    app.get("/limited")(rate_limit("1/minute")(lambda: "ok"))
    assert ask(app, 3) + ask(app, 3, "/limited") == [200] * 6
    assert store_calls == []


@pytest.mark.parametrize(
    ("config", "options", "sent"),
    [
        ({}, {}, True),
        ({"RATELIMIT_HEADERS_ENABLED": True}, {}, True),
        ({"RATELIMIT_HEADERS_ENABLED": False}, {}, False),
        ({"RATELIMIT_HEADERS_ENABLED": False}, {"headers": "draft"}, True),
        ({"RATELIMIT_HEADERS_ENABLED": True}, {"headers": None}, False),
    ],
)
def test_headers_follow_option_then_configuration(config, options, sent):
    app = make_app(config)
    RateLimit(app, default_limits="1/minute", **options)
    assert ("RateLimit" in app.test_client().get("/").headers) is sent


def test_a_prefix_keeps_apart_what_shares_a_store(store, clock):
    apps = [make_app({"RATELIMIT_KEY_PREFIX": prefix}) for prefix in ("a", "b", "b")]
    for app in apps:
        RateLimit(app, default_limits="2/minute", application_limits="9/minute", store=store, clock=clock)
    assert ask(apps[0], 3) == [200, 200, 429]
    assert ask(apps[1], 1) == [200]
    assert ask(apps[2], 2) == [200, 429]


def test_without_a_rate_limit_the_decorator_counts_in_memory_and_hints_once(caplog):
    app = make_app()
    app.get("/limited")(rate_limit("2/hour")(lambda: "ok"))
    app.get("/other", endpoint="other")(rate_limit("1/hour")(lambda: "ok"))
    with caplog.at_level(logging.INFO, logger="overlimit"):
        assert ask(app, 3) == [200] * 3
        assert caplog.records == []
        assert ask(app, 3, "/limited") == [200, 200, 429]
        assert ask(app, 2, "/other") == [200, 429]
    assert [record.name for record in caplog.records] == ["overlimit"]
    assert "RateLimit(app" in caplog.text


def test_an_app_with_a_rate_limit_gets_no_hint(caplog):
    app = make_app()
    app.get("/limited")(rate_limit("1/hour")(lambda: "ok"))
    RateLimit(app)
    with caplog.at_level(logging.INFO, logger="overlimit"):
        assert ask(app, 2, "/limited") == [200, 429]
    assert caplog.records == []


def test_a_rate_limit_added_later_takes_over(clock):
    app = make_app()
    app.get("/limited")(rate_limit("1/hour")(lambda: "ok"))
    assert ask(app, 2, "/limited") == [200, 429]
    RateLimit(app, default_limits="1/minute", clock=clock)
    assert ask(app, 2, "/limited") == [200, 429]
    assert ask(app, 2) == [200, 429]


@pytest.mark.parametrize("key", ["DEFAULT", "APPLICATION", "META", "IN_MEMORY_FALLBACK"])
def test_a_malformed_limit_is_an_error_that_names_its_key(key):
    app = Flask("site")
    app.config[f"RATELIMIT_{key}"] = "5/minut"
    with pytest.raises(InvalidLimit, match=f"RATELIMIT_{key}"):
        RateLimit(app)


def test_an_app_may_have_a_clock_of_its_own():
    limiter = RateLimit(default_limits="1/minute", algorithm="fixed_window")
    app, clock = Flask("site"), ManualClock(1_700_000_000)
    app.get("/")(lambda: "ok")
    limiter.init_app(app, clock=clock)
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    clock.advance(60)
    assert client.get("/").status_code == 200


def test_names_of_headers_are_checked_at_once():
    with pytest.raises(TypeError, match="HeaderNames"):
        RateLimit(header_names={"limit": "X-L"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key_prefix": 5}, TypeError, "key_prefix must be a string, not 5"),
        ({"key_prefix": b"shop"}, TypeError, "key_prefix must be a string, not b'shop'"),
        ({"local_share": "half"}, InvalidLimit, "local_share must be a number above 0 and at most 1"),
        ({"local_share": 2}, InvalidLimit, "local_share must be a number above 0 and at most 1, not 2"),
        ({"default_limits_deduct_when": 5}, TypeError, "must be a function of the response, not 5"),
        ({"on_breach": 5}, TypeError, "on_breach must be a function of the decision, not 5"),
    ],
)
def test_an_option_of_a_wrong_type_is_an_error_when_it_is_given(options, error, message):
    with pytest.raises(error, match=message):
        RateLimit(**options)


@pytest.mark.parametrize("key", ["RATELIMIT_KEY_FUNC", "RATELIMIT_REQUEST_IDENTIFIER"])
def test_a_function_in_the_configuration_is_checked_when_the_app_is_set_up(key):
    app = Flask("site")
    app.config[key] = lambda request: "me"
    with pytest.raises(TypeError, match=f"{key}.* must be a function without parameters; .*called like that"):
        RateLimit(app)


def test_an_unknown_algorithm_is_an_error_at_once():
    with pytest.raises(InvalidLimit, match="algorithm"):
        RateLimit(algorithm="leaky")


URLS = (
    "redis://:s3cret@h",
    "redis://user:s3cret@h:6379/0?timeout=1",
    "rediss://:a@b/s3cret#?@h/0",
    "redis://:s3cret with 'blanks'\n@h",
    "redis://h:1/0?password=s3cret&timeout=1",
    "user:s3cret@h:6379",
)
URL_KEYS = [key for key in KEYS if key not in ("RATELIMIT_STORAGE_URI", "RATELIMIT_STORAGE_OPTIONS")]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("wrap", [lambda url: url, lambda url: [url]], ids=["text", "list"])
def test_no_error_shows_the_password_of_a_url_that_was_put_elsewhere(url, wrap):
    misplaced = wrap(url)
    calls = [(lambda key=key: RateLimit(make_app({key: misplaced}))) for key in URL_KEYS]
    calls += [(lambda name=name: RateLimit(**{name: misplaced})) for name in RateLimitOptions.__annotations__]
    calls += [
        (lambda name=name: rate_limit("5/minute", **{name: misplaced}))
        for name in LimitKeywords.__annotations__
    ]
    errors = []
    for call in (*calls, lambda: rate_limit(misplaced)):
        try:
            call()
        except (TypeError, ValueError) as error:
            errors.append("".join(traceback.format_exception_only(error)))
    assert len(errors) > 60
    assert [error for error in errors if "s3cret" in error] == []


def test_an_error_about_a_url_still_shows_where_it_leads():
    with pytest.raises(ValueError, match=r"^RATELIMIT_ENABLED .* not 'redis://\*\*\*@cache:6379/0'$"):
        RateLimit(make_app({"RATELIMIT_ENABLED": "redis://:s3cret@cache:6379/0"}))
