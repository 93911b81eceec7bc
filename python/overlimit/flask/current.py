"""What stands behind Flask's proxies: each access through one of them costs a look-up of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import Flask, Request, current_app, g, request

if TYPE_CHECKING:
    from flask.ctx import _AppCtxGlobals
    from werkzeug.local import LocalProxy

__all__ = ["EXTENSION", "current_globals", "current_request", "this_app", "this_request"]

EXTENSION = "overlimit"
"""The key of ``app.extensions`` under which the state of an app is kept."""

_globals = cast("LocalProxy[_AppCtxGlobals]", g)
_app = cast("LocalProxy[Flask]", current_app)
_request = cast("LocalProxy[Request]", request)


current_request = _request._get_current_object
"""Return the request being handled; RuntimeError outside of one."""

current_globals = _globals._get_current_object
"""Return what ``flask.g`` stands for; RuntimeError without an app."""


def this_request() -> Request | None:
    """Return the request being handled, or None outside of one."""
    try:
        return current_request()
    except RuntimeError:
        return None


def this_app() -> Flask:
    """Return the app that handles the request.

    Raises
    ------
    RuntimeError
        No app is active.
    """
    return _app._get_current_object()
