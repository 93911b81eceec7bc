"""Apps of Flask: bare, with overlimit and with others, called through ``wsgi_app``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import flask_limiter
import throttled.contrib.flask
from flask import Flask
from werkzeug.test import EnvironBuilder

from measuring.turns import Sample, Turn
from overlimit import MemoryStore
from overlimit.flask import RateLimit

LIMITS = ["1000000/second", "12000000/minute", "240000000/hour"]
THROTTLED = ["1000000/s", "12000000/m", "240000000/h"]
IDENTIFIERS = ["ip:192.0.2.1", "user:42"]
REQUESTS = 100


def bare(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    return view


def overlimit_two(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    limiter = RateLimit(app, store=MemoryStore(), identifiers=lambda: IDENTIFIERS)
    return limiter.limit("; ".join(LIMITS))(view)


def overlimit_one(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    limiter = RateLimit(app, store=MemoryStore(), identifiers=lambda: IDENTIFIERS[0])
    return limiter.limit("; ".join(LIMITS))(view)


def flask_limiter_one(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    limiter = flask_limiter.Limiter(
        lambda: IDENTIFIERS[0], app=app, headers_enabled=True, storage_uri="memory://"
    )
    return limiter.limit(";".join(LIMITS))(view)


def flask_limiter_two(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    limiter = flask_limiter.Limiter(
        lambda: IDENTIFIERS[0], app=app, headers_enabled=True, storage_uri="memory://"
    )
    by_user = limiter.limit(";".join(LIMITS), key_func=lambda: IDENTIFIERS[1])
    return by_user(limiter.limit(";".join(LIMITS))(view))


def throttled_py(app: Flask, view: Callable[[], str]) -> Callable[[], str]:
    limiter = throttled.contrib.flask.Limiter(
        THROTTLED[0], app=app, using="fixed_window", key_func=lambda: IDENTIFIERS[0]
    )
    for quota in THROTTLED:
        view = limiter.limit(quota)(view)
    return view


SITES = {
    "bare Flask": bare,
    "overlimit, one identifier": overlimit_one,
    "overlimit, two identifiers": overlimit_two,
    "throttled-py, one key": throttled_py,
    "Flask-Limiter, one key": flask_limiter_one,
    "Flask-Limiter, two keys": flask_limiter_two,
}


def app_with(limit: Callable[[Flask, Callable[[], str]], Callable[[], str]]) -> Flask:
    app = Flask(limit.__name__)
    app.add_url_rule("/", "index", limit(app, lambda: "ok"))
    return app


def start_response(*_: object) -> Callable[[bytes], object]:
    return lambda _: None


def take_turn(app: Flask, environ: dict[str, Any]) -> Sample:
    """Return the median duration of a request, in microseconds."""
    durations = []
    for _ in range(REQUESTS):
        request = dict(environ)
        began = time.perf_counter_ns()
        list(app.wsgi_app(request, start_response))
        durations.append((time.perf_counter_ns() - began) / 1e3)
    return Sample(statistics.median(durations), durations)


def turns() -> dict[str, Turn]:
    environ = EnvironBuilder("/", environ_base={"REMOTE_ADDR": "192.0.2.1"}).get_environ()
    return {name: partial(take_turn, app_with(limit), environ) for name, limit in SITES.items()}
