"""What Flask-Limiter calls otherwise: an error that says how it is called here."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pydoc
import re
from pathlib import Path

import flask_limiter
import flask_limiter.contrib.util
import flask_limiter.util
import limits
import pytest
from flask import Flask
from flask_limiter.constants import ConfigVars

import overlimit.flask
from overlimit import FixedWindow, LeakyBucket, Limiter, SlidingLog, SlidingWindow, TokenBucket
from overlimit.flask import (
    ExemptionScope,
    HeaderNames,
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
from overlimit.flask.migration_hints import ARGUMENTS
from overlimit.http.options.configuration import KEYS, read
from overlimit.http.options.limit_options import LIMIT_OPTIONS
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, RateLimitOptions

MIGRATING = Path(__file__).parents[3] / "docs" / "guides" / "migrating.md"
ROW = re.compile(r"^\| (?P<there>.*?) \| (?P<here>.*) \|$", re.M)
TERM = re.compile(r"\b\w+=(?='|\w*\()|RATELIMIT_\w+|error\.decision(?:\.\w+)?|current_decision(?:\.\w+)?")


def here_for(name: str) -> str:
    """Return what the page says of an argument or attribute of Flask-Limiter."""
    rows = [row for row in ROW.finditer(MIGRATING.read_text("utf-8")) if name in row["there"]]
    assert rows, f"{name} is in no table"
    return " ".join(row["here"] for row in rows)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_by_its_old_name_is_an_error_that_says_what_to_write(name):
    assert name not in inspect.signature(RateLimit).parameters
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


SAYS = r": (use|write|leave|keep|import|set) "
THEIRS = flask_limiter.Limiter(lambda: "me", app=Flask("theirs"), storage_uri="memory://")
OF_LIMITER = [
    name for name in dir(THEIRS) if not name.startswith(("__", "_Limiter__")) and name not in dir(RateLimit())
]
OF_REQUEST_LIMIT = sorted(
    {*dir(flask_limiter.RequestLimit), *inspect.get_annotations(flask_limiter.RequestLimit), "extension"}
    - set(dir(object))
)
OF_REQUEST_LIMIT = [name for name in OF_REQUEST_LIMIT if not name.startswith("_")]
OF_ITEM = [name for name in dir(limits.parse("5/minute")) if not name.startswith("_")]
LIMITS = [
    SlidingWindow(5, 60),
    FixedWindow(5, 60),
    SlidingLog(5, 60),
    TokenBucket(5),
    LeakyBucket(5, 1, capacity=2),
]


def test_there_is_something_to_compare():
    assert {"current_limit", "storage", "limiter", "_key_func", "_check_request_limit"} <= set(OF_LIMITER)
    assert {"reset_at", "remaining", "window", "key", "breached", "limit"} <= set(OF_REQUEST_LIMIT)
    assert {"amount", "multiples", "get_expiry"} <= set(OF_ITEM)


@pytest.mark.parametrize("name", [*OF_LIMITER, "check"])
def test_an_attribute_of_a_limiter(name):
    limiter = RateLimit()
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'{SAYS}"):
        getattr(limiter, name)
    assert not hasattr(limiter, name)


@pytest.mark.parametrize("name", [*OF_REQUEST_LIMIT, "amount", "reset_time"])
def test_an_attribute_of_a_request_limit_is_one_of_a_decision(name):
    decision = Limiter("0/minute").hit("a")
    if hasattr(decision, name):
        assert name in ("limit", "remaining")
        return
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'{SAYS}") as caught:
        getattr(decision, name)
    assert (caught.value.name, caught.value.obj) == (name, decision)


@pytest.mark.parametrize("name", [*OF_REQUEST_LIMIT, "amount"])
def test_an_attribute_of_a_request_limit_is_one_of_an_error(name):
    error = RateLimitExceeded(Limiter("0/minute").hit("a"))
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'{SAYS}"):
        getattr(error, name)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)
@pytest.mark.parametrize("name", OF_ITEM)
def test_an_attribute_of_an_item_is_one_of_a_limit(limit, name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'{SAYS}") as caught:
        getattr(limit, name)
    assert (caught.value.name, caught.value.obj) == (name, limit)


def test_other_attributes_are_ordinary_errors():
    decision = Limiter("0/minute").hit("a")
    refusal = RateLimitExceeded(decision)
    for having in (decision, refusal, *LIMITS, RateLimit(), HeaderNames):
        with pytest.raises(AttributeError, match=r"has no attribute 'colour'$"):
            having.colour  # noqa: B018
        assert getattr(having, "colour", 5) == 5
    assert pickle.loads(pickle.dumps(decision)) == decision
    assert copy.copy(LIMITS[0]) == LIMITS[0]
    limiter = RateLimit(default_limits="5/minute")
    assert copy.copy(limiter).request_filters is limiter.request_filters


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (flask_limiter.Limiter.limit, RateLimit.limit),
        (flask_limiter.Limiter.limit, rate_limit),
        (flask_limiter.Limiter.shared_limit, RateLimit.shared_limit),
        (flask_limiter.Limiter.request_filter, RateLimit.request_filter),
        (flask_limiter.Limiter.exempt, RateLimit.exempt),
        (flask_limiter.Limiter.init_app, RateLimit.init_app),
        (flask_limiter.RateLimitExceeded, RateLimitExceeded),
        (flask_limiter.Limiter, RateLimit),
    ],
    ids=lambda function: function.__qualname__,
)
def test_an_argument(theirs, ours):
    known = set(inspect.signature(ours).parameters)
    if "options" in known:
        known |= set(overlimit.flask.decorator.LimitKeywords.__annotations__)
    if "self" in known:
        ours = getattr(RateLimit(), ours.__name__)
    for name in set(inspect.signature(theirs).parameters) - known - {"self"}:
        with pytest.raises(TypeError, match=rf"no (argument|option) '{name}'{SAYS}"):
            ours(**{name: "5/minute"})


@pytest.mark.parametrize("kind", ["Limit", "RouteLimit", "ApplicationLimit", "MetaLimit"])
def test_a_field_of_a_limit_class_is_an_option_or_answered(kind):
    fields = [field.name for field in dataclasses.fields(getattr(flask_limiter, kind)) if field.init]
    known = set(overlimit.flask.decorator.LimitKeywords.__annotations__)
    for name in set(fields) - known - {"limiter", "finalized"}:
        with pytest.raises(TypeError, match=rf"no (argument|option) '{name}'{SAYS}"):
            rate_limit("5/minute", **{name: None})


@pytest.mark.parametrize(
    "name", [*flask_limiter.__all__, "get_remote_address", "get_remote_address_cloudflare"]
)
def test_a_name_of_a_module(name):
    theirs = {**vars(flask_limiter), **vars(flask_limiter.util), **vars(flask_limiter.contrib.util)}
    assert name in theirs
    if name in overlimit.flask.__all__:
        assert getattr(overlimit.flask, name)
        return
    with pytest.raises(ImportError, match=rf"overlimit\.flask has no {name}{SAYS}"):
        exec(f"from overlimit.flask import {name}")


def test_a_name_that_nobody_has_is_an_ordinary_error():
    with pytest.raises(ImportError, match="cannot import name 'Colour'"):
        exec("from overlimit.flask import Colour")
    assert not hasattr(overlimit.flask, "Colour")


@pytest.mark.parametrize("name", [each.name for each in flask_limiter.HeaderNames])
def test_a_header_name(name):
    assert getattr(HeaderNames(), name.lower()) == flask_limiter.HeaderNames[name].value


def test_the_scopes_of_exemptions_are_the_same():
    assert {each.name for each in flask_limiter.ExemptionScope} == {each.name for each in ExemptionScope}
    assert ExemptionScope.NONE.value == 0


def test_each_key_of_the_configuration_is_read(recwarn):
    keys = [value for name, value in vars(ConfigVars).items() if name.isupper()]
    assert len(keys) >= 30
    assert set(keys) <= set(KEYS)
    read(dict.fromkeys(keys))
    assert len(recwarn) == 0


@pytest.mark.parametrize("scope", [5, 0, True])
def test_a_whole_number_as_scope_is_told_what_to_write(scope):
    for limit in (rate_limit, RateLimit().limit, RateLimit().shared_limit):
        with pytest.raises(TypeError, match=rf"write scope='{scope}'"):
            limit("5/minute", scope=scope)


def test_hooks_that_read_an_old_attribute_say_what_to_use():
    app = Flask("hooked")
    app.testing = True
    RateLimit(app, default_limits="0/day", on_breach=lambda breached: breached.limit.amount)
    app.get("/")(lambda: "ok")
    with pytest.raises(AttributeError, match=re.escape("no attribute 'amount': use limit.quota")):
        app.test_client().get("/")
