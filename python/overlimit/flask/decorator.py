"""``rate_limit``: limits on a view, on a blueprint, on any function called in a request, or on a block."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

import click
from flask import Blueprint, Flask, has_request_context

from overlimit._messages.migration_hints import hints_at_arguments
from overlimit.flask.app_state import AppState, Ledger
from overlimit.flask.current import LEDGER, current_request, this_app, this_request
from overlimit.flask.errors import refuse
from overlimit.flask.migration_hints import OF_LIMIT
from overlimit.flask.proxies import unproxied, without_proxies, without_proxy
from overlimit.flask.waiting import stop_waiting, wait_for_apps
from overlimit.http.callables import function_name
from overlimit.http.options.kinds import documents
from overlimit.http.options.limit_options import (
    LIMIT_OPTIONS,
    LimitKeywords,
    LimitOptions,
    LimitsValue,
    ReadLimits,
    check_limits_are_given,
    limit_options,
)
from overlimit.http.rules.applied_limits import (
    APPLIED_LIMITS,
    AppliedLimit,
    LimitedFunction,
    add_applied_limit,
    apply_to_group,
    wrapped_chain,
)
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


class LimitDecorator:
    """Limits to be put on something: as a decorator on a view, a function or a blueprint, or as a context."""

    def __init__(self, options: LimitOptions, handle: RateLimitHandle | None) -> None:
        self._options = options
        self._handle = handle

    @overload
    def __call__(self, target: B) -> B: ...
    @overload
    def __call__(self, target: Callable[P, R]) -> Callable[P, R]: ...
    def __call__(self, target: Any) -> Any:
        """Limit a view, a function that a request calls, or all views of a blueprint."""
        target = unproxied(target)
        # A decorator may be kept and used for several functions, and each gets an applied limit of its own.
        applied = AppliedLimit(self._options, self._handle)
        if isinstance(target, Blueprint):
            apply_to_group(target, applied)
            self._note_change(target)
            return target
        if isinstance(target, type):
            raise TypeError(f"{target.__name__} is a class: put the limit into its decorators = [...]")
        if isinstance(target, Flask):
            raise TypeError(
                "a limit is put on a function or a blueprint, not on an app: write RateLimit(app, "
                "application_limits=...) for all its routes together, or default_limits=... for each of them"
            )
        if isinstance(target, click.Command):
            raise TypeError(
                f"a limit is put on what requests call, not on the command {target.name!r}{_INSTEAD}"
            )
        if not callable(target):
            raise TypeError(f"a limit is put on a function or a blueprint, not on {target!r}")
        limited = _limited(target, applied)
        if not has_request_context():
            self._note_change(target)
        return limited

    def _note_change(self, target: object) -> None:
        if self._handle is None:
            wait_for_apps(target)
            return
        if not self._handle.was_registered:
            wait_for_apps(self._handle)
        self._handle.note_change()

    @property
    def __name__(self) -> str:
        """Flask asks a view for its name; where a decorator was not called, this object is the view."""
        used = "rate_limit" if self._handle is None else "limiter.limit"
        raise AttributeError(f"a limit is not a view: write @{used}('10/second'), not @{used}")

    def __enter__(self) -> None:
        """Limit the current request, if any; raises RateLimitExceeded or StoreFailed if it is refused."""
        asked = this_request()
        if asked is not None and asked.method != "OPTIONS":
            AppState.of(this_app()).enforce_block(AppliedLimit(self._options, self._handle), asked)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the charge remains."""


@documents(LIMIT_OPTIONS)
@hints_at_arguments(OF_LIMIT)
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
    """Check the options of a decorator, as `limit_options` does, and make it; ``read`` reads limits."""
    value = without_proxy(value)
    _check_limits_are_meant(value)
    options = limit_options(
        value,
        without_proxies(keywords, LIMIT_OPTIONS),
        read=read,
        is_shared=is_shared,
        during_request=has_request_context(),
    )
    return LimitDecorator(options, handle)


def _check_limits_are_meant(value: object) -> None:
    """Check that ``@rate_limit`` was not written above a view without its limits."""
    check_limits_are_given(value)
    if isinstance(value, type) or (inspect.isfunction(value) and _has_required_parameters(value)):
        raise TypeError(
            "rate_limit takes limits: write @rate_limit('10/second'). A function that names limits during a "
            f"request is called without arguments, which {function_name(value)} cannot be"
        )


def _has_required_parameters(function: Callable[..., object]) -> bool:
    stars = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    return any(each.default is each.empty and each.kind not in stars for each in parameters)


def _limited(target: Callable[P, R], applied: AppliedLimit) -> Callable[P, R]:
    function = LimitedFunction.of(target, applied)
    wrapper = (_async_wrapper if inspect.iscoroutinefunction(target) else _wrapper)(target, function)
    setattr(wrapper, APPLIED_LIMITS, add_applied_limit(target, applied, during_request=has_request_context()))
    function.set_wrapper(wrapper)
    return wrapper


def _wrapper(target: Callable[P, R], limited_function: LimitedFunction) -> Callable[P, R]:
    function: Callable[P, R] = limited_function.function

    @functools.wraps(target)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        _enforce(limited_function)
        return function(*args, **kwargs)

    return limited


def _async_wrapper(target: Callable[P, R], limited_function: LimitedFunction) -> Callable[P, R]:
    function = limited_function.function

    @functools.wraps(target)
    async def limited(*args: P.args, **kwargs: P.kwargs) -> Any:
        _enforce(limited_function)
        return await function(*args, **kwargs)

    return cast(Callable[P, R], limited)


def _enforce(function: LimitedFunction) -> None:
    try:
        asked = current_request()
    except RuntimeError:
        _check_is_no_command(function)
        return
    ledger: Ledger | None = getattr(asked, LEDGER, None)
    if ledger is None or function.applied_limits[0] not in ledger.plan.applied_limits:
        if asked.method != "OPTIONS":
            stop_waiting(function.decorated)
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
