"""What Flask-Limiter calls otherwise: an error that says how it is called here."""

from __future__ import annotations

import copy
import inspect
import pydoc
import re
from pathlib import Path

import pytest
from flask import Flask

from overlimit import Limiter
from overlimit.flask import (
    RateLimit,
    RateLimitExceeded,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    get_address,
    rate_limit,
)
from overlimit.flask.decorator import LimitKeywords
from overlimit.flask.migration_hints import ARGUMENTS, OF_ERROR, OF_LIMITER
from overlimit.http.options.limit_options import LIMIT_OPTIONS
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, RateLimitOptions

THEIR_ARGUMENTS = frozenset(
    f"{kind}_limits{option}"
    for kind in ("default", "application")
    for option in ("", "_per_method", "_exempt_when", "_deduct_when", "_cost")
) | {
    "app",
    "auto_check",
    "enabled",
    "fail_on_first_breach",
    "header_name_mapping",
    "headers_enabled",
    "in_memory_fallback",
    "in_memory_fallback_enabled",
    "key_func",
    "key_prefix",
    "meta_limits",
    "on_breach",
    "on_meta_breach",
    "request_identifier",
    "retry_after",
    "storage_options",
    "storage_uri",
    "strategy",
    "swallow_errors",
}
MIGRATING = Path(__file__).parents[3] / "docs" / "guides" / "migrating.md"
ROW = re.compile(r"^\| (?P<there>.*?) \| (?P<here>.*) \|$", re.M)
TERM = re.compile(r"\b\w+=(?='|\w*\()|RATELIMIT_\w+|error\.decision(?:\.\w+)?|current_decision(?:\.\w+)?")


def here_for(name: str) -> str:
    """Return what the page says of an argument or attribute of Flask-Limiter."""
    rows = [row for row in ROW.finditer(MIGRATING.read_text("utf-8")) if name in row["there"]]
    assert rows, f"{name} is in no table"
    return " ".join(row["here"] for row in rows)


def refusal() -> RateLimitExceeded:
    return RateLimitExceeded(Limiter("0/minute").hit("ip:192.0.2.1"))


def test_each_argument_of_theirs_is_ours_too_or_has_a_counterpart():
    ours = set(inspect.signature(RateLimit).parameters)
    assert ours | set(ARGUMENTS) >= THEIR_ARGUMENTS
    assert not ours & set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_by_its_old_name_is_an_error_that_says_what_to_write(name):
    with pytest.raises(TypeError, match=re.escape(f"no option {name!r}: {ARGUMENTS[name]}")):
        RateLimit(**{name: True})


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_page_says_of_arguments_what_their_errors_say(name):
    here = here_for(f"`{name}=")
    assert all(term in here for term in TERM.findall(ARGUMENTS[name]))
    assert ("leave it out" in ARGUMENTS[name]) is here.startswith("none")


@pytest.mark.parametrize("app", [Flask("theirs"), None])
def test_a_key_function_in_the_place_of_the_app_is_told_where_to_go(app):
    with pytest.raises(TypeError, match=r"RateLimit\(app, key_func="):
        RateLimit(lambda: "me", **({} if app is None else {"app": app}))


def test_the_app_may_be_given_by_name():
    app = Flask("named")
    assert app.extensions.get("overlimit") is None
    RateLimit(app=app, default_limits="1/minute")
    app.get("/")(lambda: "ok")
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_what_is_no_app_is_an_error_that_does_not_repeat_it():
    with pytest.raises(TypeError, match="not a str; limits are given as default_limits=") as caught:
        RateLimit("redis://:s3cret@localhost")
    assert "s3cret" not in str(caught.value)


def test_a_misspelt_option_is_answered_with_the_nearest():
    with pytest.raises(TypeError, match=r"no option 'default_limit': did you mean 'default_limits'\?"):
        RateLimit(default_limit="5/minute")
    for limit in (rate_limit, RateLimit().limit):
        with pytest.raises(TypeError, match=r"no option 'identifer': did you mean 'identifiers'\?"):
            limit("5/minute", identifer=get_address)
    for of in (by_header, by_cookie, by_path_parameter, by_json):
        with pytest.raises(TypeError, match=r"_.* has no argument 'normalize': write normalise="):
            of("name", normalize=str.casefold)


def test_help_shows_every_option_with_its_type_and_default():
    shown = inspect.signature(RateLimit).parameters
    assert next(iter(shown)) == "app"
    assert set(shown) == {"app", *RateLimitOptions.__annotations__}
    assert str(shown["on_error"]) == "on_error: 'OnError | None' = 'allow'"
    assert str(shown["headers"]) == "headers: 'Headers' = 'draft'"
    text = pydoc.render_doc(RateLimit, renderer=pydoc.plaintext)
    assert "(RATELIMIT_ALGORITHM, RATELIMIT_STRATEGY)" in text
    assert not re.search(r"\) \(|= \.\.\.|HasMigrationHints|n't\b", text)


def test_the_docstring_tells_of_every_option():
    text = inspect.getdoc(RateLimit) or ""
    told = set(re.findall(r"\w+", text))
    assert set(inspect.signature(RateLimit).parameters) <= told
    assert set(LimitKeywords.__annotations__) <= set(re.findall(r"\w+", inspect.getdoc(rate_limit) or ""))


def test_every_option_is_described_once_and_has_a_type():
    assert set(RATE_LIMIT_OPTIONS) == set(RateLimitOptions.__annotations__)
    assert set(LIMIT_OPTIONS) == set(LimitKeywords.__annotations__)


@pytest.mark.parametrize("name", OF_ERROR)
def test_an_attribute_of_their_error_is_told_what_to_use(name):
    error = refusal()
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}: {OF_ERROR[name]}")) as caught:
        getattr(error, name)
    assert caught.value.name == name
    assert not hasattr(error, name)
    assert getattr(error, name, None) is None


@pytest.mark.parametrize("name", OF_LIMITER)
def test_an_attribute_of_their_limiter_is_told_what_to_use(name):
    limiter = RateLimit()
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}: {OF_LIMITER[name]}")):
        getattr(limiter, name)
    assert not hasattr(limiter, name)


def test_a_hook_for_their_limit_is_told_what_a_decision_has_instead():
    app = Flask("hooked")
    app.testing = True
    RateLimit(app, default_limits="0/day", on_breach=lambda breached: breached.reset_at)
    app.get("/")(lambda: "ok")
    with pytest.raises(AttributeError, match=r"no attribute 'reset_at': use decision\.time") as caught:
        app.test_client().get("/")
    assert caught.value.name == "reset_at"


def test_other_attributes_that_are_not_there_are_ordinary_errors():
    for having in (RateLimit(), refusal()):
        with pytest.raises(AttributeError, match=r"has no attribute 'colour'$"):
            having.colour  # noqa: B018


def test_a_limiter_may_be_copied():
    limiter = RateLimit(default_limits="5/minute")
    assert copy.copy(limiter).request_filters is limiter.request_filters
