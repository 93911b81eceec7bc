"""Warnings about a configuration point at the line that sets the app up."""

from __future__ import annotations

import inspect
import logging

import pytest
from flask import Flask

from overlimit.flask import RateLimit

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


def configured(config: dict[str, object]) -> Flask:
    app = Flask("configured")
    app.config.update(config)
    return app


def line_of(caught) -> tuple[str, int]:
    (warning,) = caught
    return warning.filename, warning.lineno


def here() -> tuple[str, int]:
    """Return the file and line of the caller."""
    frame = inspect.stack()[1]
    return frame.filename, frame.lineno


@pytest.mark.parametrize(("config", "message"), WARNINGS)
def test_a_warning_points_at_the_rate_limit_that_is_made(config, message):
    app = configured(config)
    with pytest.warns(UserWarning, match=message) as caught:
        RateLimit(app)
    file, line = here()
    assert line_of(caught) == (file, line - 1)


@pytest.mark.parametrize(("config", "message"), WARNINGS)
def test_a_warning_points_at_the_call_of_init_app(config, message):
    limiter, app = RateLimit(), configured(config)
    with pytest.warns(UserWarning, match=message) as caught:
        limiter.init_app(app)
    file, line = here()
    assert line_of(caught) == (file, line - 1)


@pytest.mark.parametrize("option", [{"global_limits_cost": 2}, {"default_limits_per_method": True}])
def test_an_option_of_limits_that_are_not_there_is_warned_of_once_the_configuration_is_known(option):
    limits = next(iter(option)).partition("_limits")[0]
    with pytest.warns(UserWarning, match=rf"has no effect without {limits}_limits"):
        RateLimit(Flask("bare"), **option)
    RateLimit(configured({f"RATELIMIT_{limits.upper()}": "5/minute"}), **option)
    RateLimit(Flask("bare"), global_limits_cost=1, default_limits_per_method=False)


def test_a_note_in_the_log_points_there_too(caplog):
    app = configured({"RATELIMIT_STRATEGY": "moving-window", "RATELIMIT_DEFAULT": "10001/minute"})
    with caplog.at_level(logging.INFO, logger="overlimit"):
        RateLimit(app)
    file, line = here()
    (record,) = caplog.records
    assert (record.pathname, record.lineno) == (file, line - 1)
