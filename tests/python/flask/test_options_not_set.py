"""Options that say nothing, as in Flask-Limiter: docs/reference/flask.md, "Configuration"."""

from __future__ import annotations

import inspect

import flask_limiter
import pytest
from flask import Flask

from overlimit import InvalidLimit
from overlimit.flask import RateLimit, rate_limit

EMPTY = [None, "", [], ()]
OF_LIMITER = set(inspect.signature(flask_limiter.Limiter).parameters) & set(
    inspect.signature(RateLimit).parameters
)
LIMITS = {
    "default_limits": "RATELIMIT_DEFAULT",
    "application_limits": "RATELIMIT_APPLICATION",
    "global_limits": "RATELIMIT_GLOBAL",
    "meta_limits": "RATELIMIT_META",
    "in_memory_fallback": "RATELIMIT_IN_MEMORY_FALLBACK",
}
THEIRS = sorted(OF_LIMITER - {"app", "key_func", "enabled"})
OF_LIMIT = sorted(
    set(inspect.signature(flask_limiter.Limiter.limit).parameters)
    - {"self", "limit_value", "methods", "override_defaults"}
)


@pytest.mark.parametrize(
    ("option", "empty"),
    [
        (option, empty)
        for option in [*THEIRS, "identifiers", "store", "anonymous"]
        for empty in EMPTY
        if not (option in LIMITS and empty == "")
    ],
)
def test_an_empty_option_is_not_set(make_site, option, empty):
    others = {"default_limits": "1/minute"} if option != "default_limits" else {}
    site = make_site(**{**others, option: empty})
    assert site.ask("/free", 2) == ([200, 429] if others else [200, 200])


@pytest.mark.parametrize("option", ["default_limits", "application_limits", "meta_limits"])
@pytest.mark.parametrize("empty", [None, [], ()], ids=repr)
def test_the_configuration_says_it_where_the_option_does_not(make_site, option, empty):
    config = {"RATELIMIT_DEFAULT": "2/minute", LIMITS[option]: "2/minute"}
    assert make_site(config=config, **{option: empty}).ask("/free", 3) == [200, 200, 429]


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
@pytest.mark.parametrize("option", OF_LIMIT)
def test_an_empty_option_of_a_limit_is_not_set(make_site, option, empty):
    site = make_site()
    site.route("/", site.limiter.limit("1/minute", **{option: empty}))
    assert site.ask("/", 2) == [200, 429]


@pytest.mark.parametrize("value", ["", [], (), [""], ["5/minute", ""], [[], "5/minute"]])
def test_an_empty_limit_is_an_error_that_says_what_to_write(value):
    for limit in (rate_limit, RateLimit().limit, lambda each: RateLimit().shared_limit(each, "scope")):
        with pytest.raises(InvalidLimit, match=r"is not a limit: exempt .*, or write lambda: ''"):
            limit(value)


@pytest.mark.parametrize(("option", "key"), LIMITS.items())
def test_an_empty_string_as_limits_is_an_error(option, key):
    message = rf"{option} \({key}\): '' is not a limit: leave it out"
    with pytest.raises(InvalidLimit, match=message):
        RateLimit(**{option: ""})
    app = Flask("site")
    app.config[key] = ""
    with pytest.raises(InvalidLimit, match=message):
        RateLimit(app)
    with pytest.raises(InvalidLimit, match=rf"{option} .*is not a limit"):
        RateLimit(**{option: ["5/minute", ""]})


@pytest.mark.parametrize("nothing", [None, [], ()], ids=repr)
def test_a_function_that_forgets_to_return_a_limit_is_an_error(make_site, nothing):
    site = make_site(default_limits=lambda: nothing, application_limits="2/minute")
    site.app.testing = True
    with pytest.raises(InvalidLimit, match=r"returned .*, not a limit: return '' for no limit"):
        site.open("/free")


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({}, {"RATELIMIT_ENABLED": False, "RATELIMIT_STORAGE_URI": "memcached://s3cret@h"}),
        ({"enabled": False}, {"RATELIMIT_STORAGE_URI": "h:6379"}),
        ({"enabled": False, "store": "memcached://h"}, {}),
        ({"store": "redis://h:0"}, {"RATELIMIT_ENABLED": "false"}),
    ],
)
def test_what_is_disabled_needs_no_store_until_it_is_enabled(make_site, given, config):
    site = make_site(config=config, default_limits="1/minute", **{"store": None, **given})
    limiter = site.limiter
    assert site.ask("/free", 3) == [200] * 3
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # what it says is up to the store
        limiter.enabled = True
    assert "s3cret" not in str(caught.value)
    assert limiter.enabled is False
    assert site.ask("/free", 3) == [200] * 3


def test_a_key_function_as_text_is_ignored_where_identifiers_are_given(make_site):
    config = {"RATELIMIT_KEY_FUNC": "get_remote_address"}
    site = make_site(config=config, identifiers=lambda: "me", default_limits="1/minute")
    assert site.ask("/free", 2) == [200, 429]
    with pytest.raises(ValueError, match="RATELIMIT_KEY_FUNC must be a function"):
        RateLimit(site.app)


def test_errors_of_the_first_steps_say_what_to_write():
    with pytest.raises(
        TypeError, match=r"must be the app, not by_me: write RateLimit\(app, key_func=\.\.\.\)"
    ):
        RateLimit(by_me, app=Flask("site"))
    for decorator, name in ((rate_limit, "rate_limit"), (RateLimit().limit, "limiter.limit")):
        with pytest.raises(AttributeError, match=rf"not a view: write @{name}\('10/second'\), not @{name}$"):
            _ = decorator("1/second").__name__


def by_me():
    return "me"
