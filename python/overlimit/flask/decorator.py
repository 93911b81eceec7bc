"""``rate_limit``: limits on a view, on a blueprint, on any function called in a request, or on a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import click
from flask import Blueprint, Flask, has_request_context, request_started

from overlimit._messages.arguments import checks_arguments
from overlimit.flask.app_state import AppState, Ledger
from overlimit.flask.current import LEDGER, current_request, this_app, this_request
from overlimit.flask.errors import refuse
from overlimit.flask.migration_hints import OF_LIMIT
from overlimit.flask.proxies import unproxied, without_proxies, without_proxy
from overlimit.http.callables import function_name
from overlimit.http.decorators import WrappingDecorator, options_of_decorator
from overlimit.http.options.kinds import documents
from overlimit.http.options.limit_options import LIMIT_OPTIONS, LimitKeywords, LimitsValue, ReadLimits
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction, wrapped_chain
from overlimit.http.rules.unnoticed import Unnoticed
from overlimit.limits import as_limits

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from overlimit.http.rules.app_rate_limits import RateLimitHandle


P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Blueprint)

_INSTEAD = (
    ", which no request calls: write @Limiter('5/minute', name='jobs', store=...).throttle('reports'), which "
    "waits, or has a timeout"
)


def _set_up(app: Flask, **_: object) -> None:
    state = AppState.of(app)
    if state.has_new_views():
        unnoticed.discard(state.decorated())


# Flask sends this signal for every request of every app, which costs them all a little.
unnoticed = Unnoticed(_set_up, request_started)


class LimitDecorator(WrappingDecorator):
    """Limits to be put on something: as a decorator on a view, a function or a blueprint, or as a context."""

    _app, _group, _group_called, _unnoticed = Flask, Blueprint, "blueprint", unnoticed
    _block = "with"
    _is_in_request = staticmethod(has_request_context)

    @overload
    def __call__(self, target: B) -> B: ...
    @overload
    def __call__(self, target: Callable[P, R]) -> Callable[P, R]: ...
    def __call__(self, target: Any) -> Any:
        """Limit a view, a function that a request calls, or all views of a blueprint."""
        return super().__call__(unproxied(target))

    def _check(self, target: object) -> None:
        if isinstance(target, click.Command):
            raise TypeError(
                f"a limit is put on what requests call, not on the command {target.name!r}{_INSTEAD}"
            )
        super()._check(target)

    def _wrap(self, function: LimitedFunction) -> Callable[..., Any]:
        call = function.function

        def limited(*args: Any, **kwargs: Any) -> Any:
            _enforce(function)
            return call(*args, **kwargs)

        async def limited_async(*args: Any, **kwargs: Any) -> Any:
            _enforce(function)
            return await call(*args, **kwargs)

        return limited_async if inspect.iscoroutinefunction(call) else limited

    def __enter__(self) -> None:
        """Limit the current request, if any; raises RateLimitExceeded or StoreFailed if it is refused."""
        self._may_be_lost = False
        asked = this_request()
        if asked is not None and asked.method != "OPTIONS":
            AppState.of(this_app()).enforce_block(AppliedLimit(self._options, self._handle), asked)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the charge remains."""


@documents(LIMIT_OPTIONS)
@checks_arguments(instead=OF_LIMIT)
def rate_limit(value: LimitsValue, **options: Unpack[LimitKeywords]) -> LimitDecorator:
    """Limit a view through the current app's first RateLimit, or else through one in the process's memory.

    Stacked decorators are all checked, together with the limits of blueprints and of the application, in one
    step: a refused request is charged nowhere. Counts are kept per endpoint. Below ``@app.route`` the request
    is decided when the innermost decorator is called; above it, when Flask is about to call the view. Other
    functions are limited by themselves whenever a request calls them, a ``with`` block where it begins. On a
    blueprint it holds for all its routes, nested ones too. Outside a request nothing is limited.

    Functions given as options are called without arguments, unless it says with which.

    Parameters
    ----------
    value
        Limits as a string (``"10/second; 120/minute"``), a limit, a function without parameters that returns
        one of these for the current request (``""``: no limit), or a list of them.
    {options}

    Raises
    ------
    InvalidLimit
        ``value`` is malformed; raised here and not at a request.
    ValueError, TypeError
        An option has an invalid value.
    """
    return limiting(value, None, options)


def limiting(
    value: LimitsValue,
    handle: RateLimitHandle | None,
    keywords: LimitKeywords,
    *,
    read: ReadLimits = as_limits,
    is_shared: bool = False,
) -> LimitDecorator:
    """Check the options of a decorator, and make it; ``read`` reads limits."""
    options = options_of_decorator(
        without_proxy(value),
        without_proxies(keywords, LIMIT_OPTIONS),
        read=read,
        is_shared=is_shared,
        during_request=has_request_context(),
    )
    return LimitDecorator(options, handle)


def _enforce(function: LimitedFunction) -> None:
    try:
        asked = current_request()
    except RuntimeError:
        _check_is_no_command(function)
        return
    ledger: Ledger | None = getattr(asked, LEDGER, None)
    if ledger is None or function.applied_limits[0] not in ledger.plan.applied_limits:
        if asked.method != "OPTIONS":
            unnoticed.discard(function.decorated)
            AppState.of(this_app()).enforce(function, asked)
    elif function.is_innermost:
        refusal = ledger.decide()
        if refusal is not None:
            refuse(refusal)


def _check_is_no_command(function: LimitedFunction) -> None:
    """Raise RuntimeError if a command calls the function as its own, on which a limit does nothing."""
    running = click.get_current_context(silent=True)
    callback = None if running is None else running.command.callback
    if any(LimitedFunction.made_by(each) is function for each in wrapped_chain(callback)):
        raise RuntimeError(f"{function_name(function.function)} is limited, but it is a command{_INSTEAD}")
