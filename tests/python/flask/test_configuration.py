"""Options, the app's configuration, and what holds without either."""

from __future__ import annotations

import inspect
import logging
import re
import traceback

import pytest
from flask import Flask

from overlimit import InvalidLimit
from overlimit.flask import RateLimit, rate_limit
from overlimit.flask.decorator import LimitKeywords
from overlimit.http.options.configuration import KEYS
from overlimit.http.options.rate_limit_options import RateLimitOptions

from .conftest import ask


def make_app(config=None) -> Flask:
    app = Flask("configured")
    app.config.update(config or {})
    app.get("/", endpoint="index")(lambda: "ok")
    return app


@pytest.mark.parametrize("clock", [3, 0, "noon", type("Stopped", (), {"now": 5})()])
def test_a_clock_that_is_none_is_an_error_when_it_is_given(clock):
    with pytest.raises(
        TypeError, match=r"clock must have a now\(\) or be callable, .* not (3|0|'noon'|<.*Stopped)"
    ):
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


@pytest.mark.parametrize("key", ["DEFAULT", "APPLICATION", "GLOBAL", "META", "IN_MEMORY_FALLBACK"])
def test_a_malformed_limit_is_an_error_that_names_its_key(key):
    app = Flask("site")
    app.config[f"RATELIMIT_{key}"] = "5/minut"
    with pytest.raises(InvalidLimit, match=f"RATELIMIT_{key}"):
        RateLimit(app)


@pytest.mark.parametrize("key", ["RATELIMIT_KEY_FUNC", "RATELIMIT_REQUEST_IDENTIFIER"])
def test_a_function_in_the_configuration_is_checked_when_the_app_is_set_up(key):
    app = Flask("site")
    app.config[key] = lambda request: "me"
    with pytest.raises(TypeError, match=f"{key}.* must be a function without parameters; .*called like that"):
        RateLimit(app)


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
        except (TypeError, ValueError, OSError) as error:
            errors.append("".join(traceback.format_exception_only(error)))
    assert len(errors) > 60
    assert [error for error in errors if "s3cret" in error] == []


def test_an_error_about_a_url_still_shows_where_it_leads():
    with pytest.raises(ValueError, match=r"^RATELIMIT_ENABLED .* not 'redis://\*\*\*@cache:6379/0'$"):
        RateLimit(make_app({"RATELIMIT_ENABLED": "redis://:s3cret@cache:6379/0"}))


def test_a_prefix_keeps_apart_what_shares_a_store_and_an_app_may_have_a_clock_of_its_own(store, clock):
    options = {"default_limits": "2/minute", "application_limits": "9/minute", "algorithm": "fixed_window"}
    apps = [make_app({"RATELIMIT_KEY_PREFIX": prefix}) for prefix in ("a", "b", "b")]
    for app in apps:
        RateLimit(store=store, **options).init_app(app, clock=clock)
    assert ask(apps[0], 3) == [200, 200, 429]
    assert ask(apps[1], 1) + ask(apps[2], 2) == [200, 200, 429]
    clock.advance(60)
    assert ask(apps[0], 1) == [200]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key_prefix": 5}, TypeError, "key_prefix must be a string, not 5"),
        ({"key_prefix": b"shop"}, TypeError, "key_prefix must be a string, not b'shop'"),
        ({"local_share": "half"}, InvalidLimit, "local_share must be a number above 0 and at most 1"),
        ({"local_share": 2}, InvalidLimit, "local_share must be a number above 0 and at most 1, not 2"),
        ({"default_limits_deduct_when": 5}, TypeError, "must be a function of the response, not 5"),
        ({"on_breach": 5}, TypeError, "on_breach must be a function of the decision, not 5"),
        ({"header_names": {"limit": "X-L"}}, TypeError, "HeaderNames"),
        ({"headers": "fancy"}, ValueError, "headers"),
        ({"algorithm": "leaky"}, InvalidLimit, "algorithm"),
        ({"trusted_proxies": "10.0.0.0/8"}, TypeError, "trusted_proxies"),
        ({"ipv6_prefix": "64"}, TypeError, "ipv6_prefix"),
        ({"default_limits_cost": -1}, ValueError, "cost"),
        ({"application_limits_cost": -1}, ValueError, "cost"),
        ({"anonymous": "ignore"}, ValueError, "anonymous must be 'share' or 'exempt'"),
    ],
)
def test_an_option_that_cannot_be_is_an_error_when_it_is_given(options, error, message):
    with pytest.raises(error, match=message):
        RateLimit(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cost": -1}, ValueError, "cost"),
        ({"cost": 1.5}, TypeError, "cost"),
        ({"cost": True}, TypeError, "cost"),
        ({"cost": "2"}, TypeError, "cost"),
        ({"methods": "GET"}, TypeError, "methods"),
        ({"methods": []}, TypeError, "methods"),
        ({"methods": [5]}, TypeError, "methods"),
        ({"anonymous": True}, ValueError, "anonymous must be 'share' or 'exempt'"),
        ({"anonymous": "Exempt"}, ValueError, "anonymous must be 'share' or 'exempt'"),
    ],
)
def test_an_option_of_a_limit_that_cannot_be_is_an_error_where_it_is_written(options, error, message):
    limiter = RateLimit()
    for limit in (
        rate_limit,
        limiter.limit,
        lambda *args, **given: limiter.shared_limit(*args, "s", **given),
    ):
        with pytest.raises(error, match=message):
            limit("1/minute", **options)


@pytest.mark.parametrize("value", ["5/sekunde", "five/minute", "5//minute", "5", "5/minute;;x", 5])
def test_a_malformed_limit_is_an_error_where_it_is_written(value):
    limiter = RateLimit()
    for limit in (rate_limit, limiter.limit, lambda each: limiter.shared_limit(each, scope="s")):
        with pytest.raises((InvalidLimit, TypeError), match=re.escape(str(value))):
            limit(value)


SWITCHES = {
    "shadow": rate_limit,
    "per_method": rate_limit,
    "override_defaults": rate_limit,
    "enabled": RateLimit,
    "default_limits_per_method": RateLimit,
}


@pytest.mark.parametrize("option", SWITCHES)
def test_switches_are_true_or_false(option):
    """An empty one, too, though Flask-Limiter would read it as false, where that changes what holds."""
    make = (
        SWITCHES[option] if SWITCHES[option] is RateLimit else lambda **given: rate_limit("1/minute", **given)
    )
    for value in ("False", 0, 1, *(("", None) if option in ("shadow", "override_defaults") else ())):
        with pytest.raises(TypeError, match=f"{option} must be True or False"):
            make(**{option: value})
    with pytest.raises(TypeError, match="shadow must be True or False"):
        RateLimit(shadow="False")


WARNINGS = [
    ({"RATELIMIT_DEFALT": "5/minute"}, "RATELIMIT_DEFAULT"),
    ({"RATELIMIT_HEADER_RETRY_AFTER_VALUE": "http-date"}, "seconds"),
    ({"RATELIMIT_STORAGE_OPTIONS": {"db": 1}}, "without a URL"),
    ({"RATELIMIT_GLOBAL_COST": 2}, r"global_limits_cost \(RATELIMIT_GLOBAL_COST\) has no effect without"),
    (
        {"RATELIMIT_STORAGE_URI": "redis://h", "RATELIMIT_STORAGE_OPTIONS": {"retry_on_timeout": True}},
        "retry_on_timeout",
    ),
]


def line_above() -> int:
    """Return the number of the line above the caller's."""
    return inspect.stack()[1].lineno - 1


@pytest.mark.parametrize(("config", "message"), WARNINGS)
def test_a_warning_points_at_the_rate_limit_that_is_made_or_at_the_call_of_init_app(config, message):
    limiter, app = RateLimit(), make_app(config)
    with pytest.warns(UserWarning, match=message) as caught:
        RateLimit(app)
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line_above())]
    with pytest.warns(UserWarning, match=message) as caught:
        limiter.init_app(app)
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line_above())]


@pytest.mark.parametrize("option", [{"global_limits_cost": 2}, {"default_limits_per_method": True}])
def test_an_option_of_limits_that_are_not_there_is_warned_of_once_the_configuration_is_known(option):
    limits = next(iter(option)).partition("_limits")[0]
    with pytest.warns(UserWarning, match=rf"has no effect without {limits}_limits"):
        RateLimit(Flask("bare"), **option)
    RateLimit(make_app({f"RATELIMIT_{limits.upper()}": "5/minute"}), **option)
    RateLimit(Flask("bare"), global_limits_cost=None, default_limits_per_method=False)


def test_a_note_in_the_log_points_there_too(caplog):
    app = make_app({"RATELIMIT_STRATEGY": "moving-window", "RATELIMIT_DEFAULT": "10001/minute"})
    with caplog.at_level(logging.INFO, logger="overlimit"):
        RateLimit(app)
    assert [(each.pathname, each.lineno) for each in caplog.records] == [(__file__, line_above())]
