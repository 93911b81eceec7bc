"""Counts in memory, and several processes that serve one app: docs/reference/flask.md."""

from __future__ import annotations

import logging

import pytest
from flask import Flask

from overlimit import MemoryStore
from overlimit._logging import stores
from overlimit.flask import RateLimit, rate_limit

WARNING = "which the other processes that serve it do not share"
SEVERAL = {"wsgi.multiprocess": True}


@pytest.fixture(autouse=True)
def _as_a_process_that_has_not_warned(monkeypatch):
    monkeypatch.setattr(stores, "_warned_processes", {})  # what it hears of a fork


def warnings_of(caplog):
    return [record for record in caplog.records if WARNING in record.getMessage()]


def make_app(**options):
    app = Flask("shop")
    app.get("/")(lambda: "ok")
    return app, RateLimit(app, **options)


def test_the_first_request_that_says_so_is_answered_with_one_warning(caplog):
    make_app(default_limits="9/minute")[0].test_client().get("/")
    assert warnings_of(caplog) == []
    client = make_app(default_limits="9/minute")[0].test_client()
    for _ in range(3):
        client.get("/", environ_overrides=SEVERAL)
    (record,) = warnings_of(caplog)
    assert (record.name, record.levelno) == ("overlimit", logging.WARNING)
    assert "'shop'" in record.getMessage()
    assert "store=" in record.getMessage()


@pytest.mark.parametrize("options", [{}, {"default_limits": "9/minute", "enabled": False}])
def test_what_counts_nothing_is_not_warned_of(caplog, options):
    app, _ = make_app(**options)
    app.test_client().get("/", environ_overrides=SEVERAL)
    assert warnings_of(caplog) == []


def test_enabling_it_later_is_warned_of(caplog):
    app, rate_limits = make_app(default_limits="9/minute", enabled=False)
    app.test_client().get("/", environ_overrides=SEVERAL)
    rate_limits.enabled = True
    app.test_client().get("/", environ_overrides=SEVERAL)
    assert len(warnings_of(caplog)) == 1


@pytest.mark.parametrize("path", ["/function", "/block"])
def test_a_function_and_a_block_are_warned_of(caplog, path):
    app = Flask("shop")
    limiter_of_app = RateLimit(app)
    helper = limiter_of_app.limit("9/minute")(lambda: "ok")
    app.get("/function")(lambda: f"{helper()}")

    @app.get("/block")
    def block():
        with limiter_of_app.limit("9/minute"):
            return "ok"

    app.test_client().get(path, environ_overrides=SEVERAL)
    assert len(warnings_of(caplog)) == 1


def test_an_app_without_a_rate_limit_is_warned_of(caplog):
    app = Flask("shop")
    app.get("/")(rate_limit("9/minute")(lambda: "ok"))
    for _ in range(2):
        app.test_client().get("/", environ_overrides=SEVERAL)
    assert len(warnings_of(caplog)) == 1


def test_there_is_one_warning_for_each_store(caplog):
    shared = MemoryStore()
    for store in (shared, shared, "memory://", "memory://"):
        app, _ = make_app(default_limits="9/minute", store=store)
        app.test_client().get("/", environ_overrides=SEVERAL)
    assert len(warnings_of(caplog)) == 3
