"""Options that say nothing, as in Flask-Limiter: docs/reference/flask.md, "Options and configuration"."""

from __future__ import annotations

import inspect

import flask_limiter
import pytest
from flask import Flask

from overlimit import InvalidLimit
from overlimit.flask import RateLimit, rate_limit

EMPTY = [None, "", [], ()]
THEIR_EMPTY = [None, "", ()]
"""An empty list it cannot keep, as it does not hash; where it can be, it means the same."""
OF_LIMITER = set(inspect.signature(flask_limiter.Limiter).parameters) & set(
    inspect.signature(RateLimit).parameters
)
LIMITS = {"default_limits", "application_limits", "meta_limits", "in_memory_fallback"}
THEIRS = sorted(OF_LIMITER - {"app", "key_func", "enabled"})
OF_LIMIT = sorted(
    set(inspect.signature(flask_limiter.Limiter.limit).parameters)
    - {"self", "limit_value", "methods", "override_defaults"}
)


def make_app(path="/"):
    app = Flask("site")
    app.get(path, endpoint="index")(lambda: "ok")
    return app


def ask(app, times):
    client = app.test_client()
    return [client.get("/").status_code for _ in range(times)]


@pytest.mark.parametrize(
    ("option", "empty"),
    [
        (option, empty)
        for option in [*THEIRS, "identifiers", "store", "anonymous"]
        for empty in EMPTY
        if not (option in LIMITS and empty == "")
    ],
)
def test_an_empty_option_is_not_set(option, empty, clock):
    app = make_app()
    others = {"default_limits": "1/minute"} if option != "default_limits" else {}
    RateLimit(app, clock=clock, **{**others, option: empty})
    assert ask(app, 2) == ([200, 429] if others else [200, 200])


@pytest.mark.parametrize("empty", THEIR_EMPTY, ids=repr)
@pytest.mark.parametrize("option", THEIRS)
def test_flask_limiter_takes_an_empty_option_for_not_set(option, empty):
    app = make_app()
    others = {"default_limits": ["1/minute"]} if option != "default_limits" else {}
    flask_limiter.Limiter(lambda: "me", app=app, storage_uri="memory://", **{**others, option: empty})
    assert ask(app, 2) == ([200, 429] if others else [200, 200])


@pytest.mark.parametrize("option", ["default_limits", "application_limits", "meta_limits"])
@pytest.mark.parametrize("empty", [None, [], ()], ids=repr)
def test_the_configuration_says_it_where_the_option_does_not(option, empty, clock):
    app = make_app()
    key = {"default_limits": "DEFAULT", "application_limits": "APPLICATION", "meta_limits": "META"}[option]
    app.config["RATELIMIT_DEFAULT"] = "2/minute"
    app.config[f"RATELIMIT_{key}"] = "2/minute"
    RateLimit(app, clock=clock, algorithm="fixed_window", **{option: empty})
    assert ask(app, 3) == [200, 200, 429]


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
@pytest.mark.parametrize("option", OF_LIMIT)
def test_an_empty_option_of_a_limit_is_not_set(option, empty, clock):
    app = Flask("site")
    limiter = RateLimit(app, clock=clock)
    app.get("/")(limiter.limit("1/minute", **{option: empty})(lambda: "ok"))
    assert ask(app, 2) == [200, 429]


@pytest.mark.parametrize("empty", THEIR_EMPTY, ids=repr)
@pytest.mark.parametrize("option", OF_LIMIT)
def test_flask_limiter_takes_an_empty_option_of_a_limit_for_not_set(option, empty):
    app = Flask("site")
    limiter = flask_limiter.Limiter(lambda: "me", app=app, storage_uri="memory://")
    app.get("/")(limiter.limit("1/minute", **{option: empty})(lambda: "ok"))
    assert ask(app, 2) == [200, 429]


@pytest.mark.parametrize("value", ["", [], (), [""], ["5/minute", ""], [[], "5/minute"]])
def test_an_empty_limit_is_an_error_that_says_what_to_write(value):
    for limit in (rate_limit, RateLimit().limit, lambda each: RateLimit().shared_limit(each, "scope")):
        with pytest.raises(InvalidLimit, match=r"is not a limit: exempt .*, or write lambda: ''"):
            limit(value)


def test_an_empty_limit_among_the_defaults_is_an_error():
    with pytest.raises(InvalidLimit, match=r"default_limits .*is not a limit"):
        RateLimit(default_limits=["5/minute", ""])


@pytest.mark.parametrize("option", sorted(LIMITS))
def test_an_empty_string_as_limits_is_an_error(option):
    key = {"default_limits": "DEFAULT", "application_limits": "APPLICATION", "meta_limits": "META"}.get(
        option, "IN_MEMORY_FALLBACK"
    )
    message = rf"{option} \(RATELIMIT_{key}\): '' is not a limit: leave it out"
    with pytest.raises(InvalidLimit, match=message):
        RateLimit(**{option: ""})
    app = make_app()
    app.config[f"RATELIMIT_{key}"] = ""
    with pytest.raises(InvalidLimit, match=message):
        RateLimit(app)


def test_a_function_says_by_an_empty_text_that_nothing_holds(make_site):
    site = make_site(default_limits=lambda: "", application_limits="2/minute")
    assert site.quotas("/free") == [2]


@pytest.mark.parametrize("nothing", [None, [], ()], ids=repr)
def test_a_function_that_forgets_to_return_a_limit_is_an_error(nothing):
    app = make_app()
    RateLimit(app, default_limits=lambda: nothing, application_limits="2/minute")
    app.testing = True
    with pytest.raises(InvalidLimit, match=r"returned .*, not a limit: return '' for no limit"):
        app.test_client().get("/")


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({}, {"RATELIMIT_ENABLED": False, "RATELIMIT_STORAGE_URI": "memcached://s3cret@h"}),
        ({"enabled": False}, {"RATELIMIT_STORAGE_URI": "h:6379"}),
        ({"enabled": False, "store": "memcached://h"}, {}),
        ({"store": "redis://h:0"}, {"RATELIMIT_ENABLED": "false"}),
    ],
)
def test_what_is_disabled_needs_no_store_until_it_is_enabled(given, config):
    app = make_app()
    app.config.update(config)
    limiter = RateLimit(app, default_limits="1/minute", **given)
    assert ask(app, 3) == [200] * 3
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # what it says is up to the store
        limiter.enabled = True
    assert "s3cret" not in str(caught.value)
    assert limiter.enabled is False
    assert ask(app, 3) == [200] * 3


def test_a_disabled_one_with_a_store_is_enabled_as_ever(clock):
    app = make_app()
    app.config["RATELIMIT_ENABLED"] = False
    limiter = RateLimit(app, default_limits="1/minute", clock=clock)
    limiter.enabled = True
    assert ask(app, 2) == [200, 429]


def test_a_key_function_as_text_is_ignored_where_identifiers_are_given(clock):
    app = make_app()
    app.config["RATELIMIT_KEY_FUNC"] = "get_remote_address"
    RateLimit(app, identifiers=lambda: "me", default_limits="1/minute", clock=clock)
    assert ask(app, 2) == [200, 429]
    with pytest.raises(ValueError, match="RATELIMIT_KEY_FUNC must be a function"):
        RateLimit(app)


def test_errors_of_the_first_steps_say_what_to_write():
    with pytest.raises(
        TypeError, match=r"must be the app, not by_me: write RateLimit\(app, key_func=\.\.\.\)"
    ):
        RateLimit(by_me, app=make_app())
    for decorator, name in ((rate_limit, "rate_limit"), (RateLimit().limit, "limiter.limit")):
        with pytest.raises(AttributeError, match=rf"not a view: write @{name}\('10/second'\), not @{name}$"):
            _ = decorator("1/second").__name__


def by_me():
    return "me"
