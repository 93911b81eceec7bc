"""The current app and request without Flask's proxies, each use of which costs a look-up, and its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import Flask, Request, current_app, request

if TYPE_CHECKING:
    from werkzeug.local import LocalProxy

EXTENSION = "overlimit"
"""The key of ``app.extensions`` under which the state of an app is kept."""

LEDGER = "_overlimit_ledger"
"""The attribute of a request that holds its ledger: several requests may share one ``g``."""

_app = cast("LocalProxy[Flask]", current_app)
_request = cast("LocalProxy[Request]", request)


current_request = _request._get_current_object
"""Return the request that is being handled; RuntimeError outside of one."""


def this_request() -> Request | None:
    """Return the request that is being handled, or None outside of one."""
    try:
        return current_request()
    except RuntimeError:
        return None


def this_app() -> Flask:
    """Return the app that handles the request; raise RuntimeError if no app is active."""
    return _app._get_current_object()
