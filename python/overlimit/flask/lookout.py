"""Finds, when an app gets its first request, limits that nothing else tells of.

An app without RateLimit does not notice a decorator above ``@app.route``, nor one on a blueprint: no call
passes through it. Flask's signal tells of every request of every app, which costs them all something; it is
listened to only as long as such a decorator may be there.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

from flask import Flask, request_started

from overlimit._forks import PerProcess
from overlimit.flask.app_state import AppState

__all__ = ["no_longer_for", "watch_for"]


class _Module:
    """Stands for the ``rate_limit`` of the module, which never has an app of its own."""


_MODULE = _Module()
_waiting: WeakSet[object] = WeakSet()
_changing = PerProcess(threading.Lock)


def watch_for(limiter: object | None) -> None:
    """Look for limits bound to a RateLimit that has no app yet; None: for those of the module, for good."""
    with _changing():
        _waiting.add(_MODULE if limiter is None else limiter)
        request_started.connect(_look)


def no_longer_for(limiter: object) -> None:
    """Note that a RateLimit has an app now, whose requests it sees itself."""
    with _changing():
        _waiting.discard(limiter)
        if not _waiting:
            request_started.disconnect(_look)


def _look(app: Flask, **_: object) -> None:
    AppState.of(app)
