"""A pytest plugin that puts limits, which nothing reaches, on every app that the suite of a framework makes.

``UNDER_LIMITS`` names the framework, and ``LIMITS_HEADERS`` the header fields, if any.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

FAR = "1000000/second"


def limit_flask(headers: Any) -> None:
    """Give each Flask app a RateLimit."""
    from flask import Flask

    from overlimit.flask import RateLimit

    make = Flask.__init__

    def limited(self: Flask, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        RateLimit(self, default_limits=FAR, application_limits=FAR, headers=headers)

    Flask.__init__ = limited


def limit_wsgi(kind: Any, headers: Any) -> None:
    """Put the middleware around each app of a class."""
    from overlimit.wsgi import RateLimitMiddleware

    call, around = kind.__call__, {}

    def limited(self: Any, environ: Any, start_response: Any) -> Any:
        if id(self) not in around:  # with the app itself, so that no other gets its id
            inner = partial(call, self)
            around[id(self)] = self, RateLimitMiddleware(inner, limits=FAR, headers=headers)
        return around[id(self)][1](environ, start_response)

    kind.__call__ = limited


match os.environ["UNDER_LIMITS"], os.environ.get("LIMITS_HEADERS"):
    case "flask", fields:
        limit_flask(fields)
    case "falcon", fields:
        from falcon.app import App

        limit_wsgi(App, fields)
    case "pyramid", fields:
        from pyramid.router import Router

        limit_wsgi(Router, fields)
