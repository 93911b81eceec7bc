"""Which limits an app may lose that has no RateLimit, and how such an app is noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakSet

from flask import Flask, request_started

from overlimit._forks import PerProcess
from overlimit.flask.app_state import AppState
from overlimit.http.callables import method_handler
from overlimit.http.rules.applied_limits import decorated_below

_waiting: WeakSet[object] = WeakSet()
_changing = PerProcess(threading.Lock)


class _Lasting:
    """Stands for what is decorated but cannot be in a set of weak references."""


_LASTING = _Lasting()


def wait_for_apps(decorated: object) -> None:
    """Set each app up at its first request, since limits on this may be lost on one without a RateLimit.

    That is a function or blueprint, or a RateLimit that has no app yet. No call passes through a decorator
    above ``@app.route`` or one on a blueprint, so nobody but the app itself can notice them. Flask sends this
    signal for every request of every app, which costs them all a little, so it is connected only as long as
    there may be such a decorator.
    """
    with _changing():
        try:
            _waiting.add(decorated)
        except TypeError:
            _waiting.add(_LASTING)
        request_started.connect(_set_up)


def stop_waiting(decorated: Iterable[object]) -> None:
    """Note that limits on these hold without that signal: calls pass through them, or they have an app."""
    if not _waiting:
        return
    with _changing():
        _waiting.difference_update(decorated)
        if not _waiting:
            request_started.disconnect(_set_up)


def _set_up(app: Flask, **_: object) -> None:
    state = AppState.of(app)
    if state.has_new_views():
        stop_waiting(decorated_below(_functions_of(app)))


def _functions_of(app: Flask) -> Iterator[Callable[..., Any]]:
    for view in app.view_functions.values():
        yield view
        yield from _method_handlers(view)


def _method_handlers(view: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    view_class = getattr(view, "view_class", None)
    for method in getattr(view_class, "methods", None) or ():
        handler = method_handler(view_class, method)
        if handler is not None:
            yield handler
