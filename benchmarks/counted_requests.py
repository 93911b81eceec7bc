"""The requests to Flask that count_instructions.py counts: ``counted_requests.py CALLS``.

Limits are in memory, and a response has both header fields. What a request leaves for the garbage collector
is not counted.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import repeat

from flask import Flask
from werkzeug.test import EnvironBuilder

from counted_calls import ONE_LIMIT, THREE_LIMITS, Case, mark_memory, run_all
from overlimit import MemoryStore
from overlimit.flask import RateLimit

View = Callable[[], str]


def hello() -> str:
    return "ok"


def limited(limits: str, *identifiers: str) -> Callable[[Flask], View]:
    def limit(app: Flask) -> View:
        limiter = RateLimit(app, store=MemoryStore(), identifiers=lambda: identifiers)
        return limiter.limit(limits)(hello)

    return limit


def requests(limit: Callable[[Flask], View]) -> Case:
    app = Flask("counted")
    app.add_url_rule("/", "index", limit(app))
    environ = EnvironBuilder("/", environ_base={"REMOTE_ADDR": "192.0.2.1"}).get_environ()

    def ask(times: int) -> None:
        for _ in repeat(None, times):
            list(app.wsgi_app(dict(environ), lambda status, headers, error=None: None))

    return ask


def cases() -> Iterator[tuple[str, Case]]:
    yield "bare", requests(lambda app: hello)
    yield "added to a request to Flask: one limit", requests(limited(ONE_LIMIT, "user:1"))
    yield (
        "added to a request to Flask: three limits, two identifiers",
        requests(limited(THREE_LIMITS, "user:1", "ip:203.0.113.7")),
    )


if __name__ == "__main__":
    gc.disable()
    run_all(cases(), int(sys.argv[1]), mark_memory)
