"""What limits cost a Flask request, in one run: python benchmarks/flask_overhead.py [--rounds N].

Three limits, with header fields and in memory, through ``wsgi_app``. The apps take turns; each is compared
with bare Flask in the same round, and the medians over the rounds count. Needs the dependency group
``bench``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import flask_limiter
import throttled.contrib.flask
from flask import Flask
from turns import print_costs
from werkzeug.test import EnvironBuilder

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


CONTESTANTS = {
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


def microseconds(app: Flask, environ: dict[str, Any]) -> float:
    """Return the median duration of a request."""
    durations = []
    for _ in range(REQUESTS):
        request = dict(environ)
        began = time.perf_counter_ns()
        list(app.wsgi_app(request, lambda status, headers, error=None: None))
        durations.append(time.perf_counter_ns() - began)
    return statistics.median(durations) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description="What limits cost a Flask request.")
    parser.add_argument("--rounds", type=int, default=40, help="default: %(default)s")
    rounds = parser.parse_args().rounds
    apps = {name: app_with(limit) for name, limit in CONTESTANTS.items()}
    environ = EnvironBuilder("/", environ_base={"REMOTE_ADDR": "192.0.2.1"}).get_environ()
    contestants = {name: partial(microseconds, app, environ) for name, app in apps.items()}
    print_costs("Flask, in memory", contestants, rounds)


if __name__ == "__main__":
    main()
