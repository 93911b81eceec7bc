"""What stands behind Flask's proxies: each access through one of them costs a look-up of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import Flask, Request, current_app, g, request

if TYPE_CHECKING:
    from flask.ctx import _AppCtxGlobals
    from werkzeug.local import LocalProxy

__all__ = ["EXTENSION", "these_globals", "this_app", "this_request"]

EXTENSION = "overlimit"
"""The key of ``app.extensions`` under which the state of an app is kept."""

_globals = cast("LocalProxy[_AppCtxGlobals]", g)
_app = cast("LocalProxy[Flask]", current_app)
_request = cast("LocalProxy[Request]", request)


def this_request() -> Request | None:
    """Return the request being handled, or None outside of one."""
    try:
        return _request._get_current_object()
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


def these_globals() -> _AppCtxGlobals:
    """Return what ``flask.g`` stands for.

    Raises
    ------
    RuntimeError
        No app is active.
    """
    return _globals._get_current_object()
