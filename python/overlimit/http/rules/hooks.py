"""What an app calls in requests besides its views, and limits that are lost there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from overlimit.http.callables import function_name
from overlimit.http.rules.applied_limits import applied_limits_of
from overlimit.http.rules.views import not_called

_log = logging.getLogger("overlimit")

_BY_GROUP = (
    "before_request_funcs",
    "before_websocket_funcs",
    "after_request_funcs",
    "after_websocket_funcs",
    "template_context_processors",
    "url_value_preprocessors",
    "url_default_functions",
)
"""The attributes of an app that hold functions by the names of groups; not each framework has websockets."""


def check_hooks(app: Any, app_name: str, warned_of: list[object]) -> None:
    """Raise RuntimeError for a limit on what runs after the response, and warn of limits that nobody asks.

    Of functions that an app calls besides views it calls what was registered, so a limit above that is lost.
    """
    for function in _after_response(app):
        if applied_limits_of(function):
            raise RuntimeError(
                f"{function_name(function)} is limited, but it is called after the response, and cannot be "
                "refused: put the limit on what does the work"
            )
    for function in _hooks(app):
        if function not in warned_of and any(not_called(app, function)):
            warned_of.append(function)
            _log.warning(
                "the limit on %s holds for no request: %r calls the function as it was registered, "
                "without the limit. Write that below the decorator of the app",
                function_name(function),
                app_name,
            )


def _after_response(app: Any) -> Iterator[Callable[..., Any]]:
    for name in ("teardown_request_funcs", "teardown_websocket_funcs"):
        yield from chain(*getattr(app, name, {}).values())
    yield from app.teardown_appcontext_funcs


def _hooks(app: Any) -> Iterator[Callable[..., Any]]:
    """Yield what is called in requests besides views."""
    for name in _BY_GROUP:
        yield from chain(*getattr(app, name, {}).values())
    for by_code in app.error_handler_spec.values():
        yield from chain(*(handlers.values() for handlers in by_code.values()))
    templates = vars(app).get("jinja_env")  # once the app has one
    if templates is not None:
        yield from (*templates.filters.values(), *templates.tests.values())
