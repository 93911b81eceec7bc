"""The names of limits: the same in the fields, in the body, and on every response."""

from __future__ import annotations

import re

import pytest
from flask import Flask

from overlimit import MemoryStore
from overlimit.flask import RateLimit, rate_limit


def names(response):
    return re.findall(r'"([^"]*)"', response.headers["RateLimit"])


def refused(response):
    """Return the names of the items that have nothing left."""
    return re.findall(r'"([^"]*)";r=0', response.headers["RateLimit"])


@pytest.mark.parametrize(
    ("application", "decorators"),
    [
        ("1/day", [{"value": "5/day", "name": "application"}]),
        (None, [{"value": "5/day"}, {"value": "1/day"}]),
        (None, [{"value": "5/minute; 1/hour"}]),
        (None, [{"value": "1/minute; 1/hour"}]),
    ],
)
def test_the_body_names_what_the_fields_say_is_used_up(make_site, application, decorators):
    site = make_site(application_limits=application)

    def view():
        return "ok"

    for options in decorators:
        view = rate_limit(**options)(view)
    site.app.add_url_rule("/", "index", view)
    site.open("/")
    response = site.open("/", headers={"Accept": "application/json"})
    assert response.status_code == 429
    assert response.json["violated-policies"] == refused(response) != []


def test_a_function_that_is_called_again_and_again_is_told_of_once(make_site):
    site = make_site()

    @rate_limit("5/minute")
    def row():
        return "row"

    @site.app.get("/")
    def index():
        for _ in range(3):
            row()
        with rate_limit("9/minute", name="block"):
            row()
        with rate_limit("9/minute", name="block"):
            return "ok"

    response = site.open("/")
    assert response.headers["RateLimit"] == '"row";r=1;t=60, "block";r=7;t=60'


def test_a_name_does_not_change_when_another_store_gives_back():
    app = Flask("stores")
    RateLimit(app, default_limits="5/day", store=MemoryStore())
    RateLimit(app, default_limits="1/day", store=MemoryStore())
    app.get("/")(lambda: "ok")
    client = app.test_client()
    passed, over = client.get("/"), client.get("/")
    assert names(passed) == ["default", "default-2"]
    assert (over.status_code, names(over)) == (429, ["default-2"])


@pytest.mark.parametrize("message", [5, lambda: 5])
@pytest.mark.parametrize("accepted", ["text/html", "application/json"])
def test_a_message_that_is_no_text_is_shown_as_one(make_site, message, accepted):
    site = make_site()
    site.app.get("/")(rate_limit("0/minute", error_message=message)(lambda: "ok"))
    response = site.open("/", headers={"Accept": accepted})
    assert response.status_code == 429
    assert "5" in response.text


@pytest.mark.parametrize("option", ["shadow", "per_method", "override_defaults"])
@pytest.mark.parametrize("value", ["False", 0, 1])
def test_switches_are_true_or_false(option, value):
    with pytest.raises(TypeError, match=f"{option} must be True or False"):
        rate_limit("1/minute", **{option: value})


@pytest.mark.parametrize("option", ["shadow", "override_defaults"])
@pytest.mark.parametrize("value", ["", None])
def test_an_empty_switch_that_flask_limiter_would_read_as_false_is_an_error(option, value):
    with pytest.raises(TypeError, match=f"{option} must be True or False"):
        rate_limit("1/minute", **{option: value})


@pytest.mark.parametrize("option", ["shadow", "enabled", "default_limits_per_method"])
@pytest.mark.parametrize("value", ["False", 0, 1])
def test_switches_of_a_rate_limit_are_true_or_false(option, value):
    with pytest.raises(TypeError, match=f"{option} must be True or False"):
        RateLimit(**{option: value})
