"""``rate_limit``: limits on a view, or on any function called in a request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from flask import Flask, request_started

from overlimit.flask.app_state import AppState
from overlimit.flask.current import this_app, this_request
from overlimit.flask.layer import Layer
from overlimit.flask.marks import MARKS, Mark, leave_mark
from overlimit.http.plan import Identify
from overlimit.limits import LimitsLike, as_limits

if TYPE_CHECKING:
    from overlimit.flask.extension import RateLimit

__all__ = ["limiting", "rate_limit"]

P = ParamSpec("P")
R = TypeVar("R")


def rate_limit(
    value: LimitsLike,
    *,
    identifiers: Identify | None = None,
    algorithm: str | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Limit a view through the current app's first RateLimit, or else through one in the process's memory.

    Stacked decorators are all checked, together with the application's limits, in one step: a refused request
    is charged nowhere. Counts are kept per endpoint. Below ``@app.route`` the request is decided when the
    innermost decorator is called; above it, when Flask is about to call the view. Any other decorated
    function is limited by itself whenever a request calls it. Outside a request nothing is limited.

    Parameters
    ----------
    value
        Limits as text (``"10/second; 120/minute"``), a limit, or a list of them.
    identifiers
        Returns who sends the request; by default what the RateLimit says, or `get_identifiers`.
    algorithm
        The algorithm that limits given as text follow; by default the RateLimit's.
    name
        The name shown in header fields, by default the endpoint.

    Raises
    ------
    InvalidLimit
        ``value`` is malformed; raised here and not at a request.
    """
    return limiting(value, limiter=None, identifiers=identifiers, algorithm=algorithm, name=name)


def limiting(
    value: LimitsLike,
    *,
    limiter: RateLimit | None,
    identifiers: Identify | None,
    algorithm: str | None,
    name: str | None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make the decorator; ``limiter`` is the RateLimit it is bound to.

    Raises
    ------
    InvalidLimit
        ``value`` is malformed.
    """
    if callable(value):
        raise TypeError("rate_limit takes limits: write @rate_limit('10/second')")
    as_limits(value, algorithm)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")

    def decorate(target: Callable[P, R]) -> Callable[P, R]:
        if isinstance(target, type):
            raise TypeError(f"{target.__name__} is a class: put the limit into its decorators = [...]")
        # One mark per decorated function: a decorator may be kept and used for several.
        return _limited(target, Mark(value, limiter, identifiers, algorithm, name))

    return decorate


def _limited(target: Callable[P, R], mark: Mark) -> Callable[P, R]:
    layer = Layer.around(target, mark)
    wrapper = (_async_wrapper if inspect.iscoroutinefunction(target) else _wrapper)(target, layer)
    setattr(wrapper, MARKS, leave_mark(target, mark))
    layer.belongs_to(wrapper)
    request_started.connect(_find_lost_decorators)
    return wrapper


def _wrapper(target: Callable[P, R], layer: Layer) -> Callable[P, R]:
    function = layer.function

    @functools.wraps(target)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        _enforce(layer)
        return cast(R, function(*args, **kwargs))

    return limited


def _async_wrapper(target: Callable[P, R], layer: Layer) -> Callable[P, R]:
    function = layer.function

    @functools.wraps(target)
    async def limited(*args: P.args, **kwargs: P.kwargs) -> Any:
        _enforce(layer)
        return await function(*args, **kwargs)

    return cast(Callable[P, R], limited)


def _enforce(layer: Layer) -> None:
    asked = this_request()
    if asked is not None and asked.method != "OPTIONS":
        AppState.of(this_app()).enforce(layer, asked)


def _find_lost_decorators(app: Flask, **_: object) -> None:
    # An app without RateLimit has nothing else that would notice a decorator above @app.route.
    AppState.of(app)
