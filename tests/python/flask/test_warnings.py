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


def test_a_note_in_the_log_points_there_too(caplog):
    app = configured({"RATELIMIT_STRATEGY": "moving-window", "RATELIMIT_DEFAULT": "10001/minute"})
    with caplog.at_level(logging.INFO, logger="overlimit"):
        RateLimit(app)
    file, line = here()
    (record,) = caplog.records
    assert (record.pathname, record.lineno) == (file, line - 1)
