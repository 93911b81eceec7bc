"""Decorators that wrap: limits on what answers requests, on a group of routes, or on what a request calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from overlimit._messages.caller import warn_caller
from overlimit.http.callables import function_name
from overlimit.http.options.limit_options import (
    LimitOptions,
    ReadLimits,
    check_limits_are_given,
    limit_options,
)
from overlimit.http.rules.app_rate_limits import RateLimitHandle
from overlimit.http.rules.applied_limits import (
    APPLIED_LIMITS,
    AppliedLimit,
    LimitedFunction,
    add_applied_limit,
    apply_to_group,
    check_target,
)
from overlimit.http.rules.unnoticed import Unnoticed
from overlimit.limits import as_limits


class WrappingDecorator:
    """Limits to be put on something, by a decorator that may be kept and used several times.

    An adapter says what there is to decorate, how a call of it is decided (`_wrap`), and whether it is made
    in a request.
    """

    _app: ClassVar[type]
    """The class of apps, on which no limit is put."""
    _group: ClassVar[type]
    """The class of groups of routes."""
    _group_called: ClassVar[str]
    _unnoticed: ClassVar[Unnoticed]
    _block: ClassVar[str]
    """How a block of the framework begins that a limit is entered by."""
    _may_be_lost = False
    """Whether a request has made it, and not used it yet."""

    def __init__(self, options: LimitOptions, handle: RateLimitHandle | None) -> None:
        """Take checked options, and the RateLimit through which they hold; None: the current app's first."""
        self._options = options
        self._handle = handle
        self._may_be_lost = options.during_request

    def __del__(self) -> None:
        """Warn of what a request has made and not used, as in ``limiter.limit("5/minute")`` by itself."""
        if self._may_be_lost:
            warn_caller(
                f"a limit that was made during a request has limited nothing: write {self._block} "
                "limiter.limit(...): around what it limits, or put it on a function"
            )

    def __call__(self, target: Any) -> Any:
        """Limit what answers requests, a function that a request calls, or all routes of a group."""
        self._may_be_lost = False
        applied = AppliedLimit(self._options, self._handle)
        if isinstance(target, self._group):
            apply_to_group(target, applied)
            self._note_change(target)
            return target
        self._check(target)
        function = LimitedFunction.of(target, applied)
        wrapper = functools.wraps(target)(self._wrap(function))
        in_request = self._is_in_request()
        setattr(wrapper, APPLIED_LIMITS, add_applied_limit(target, applied, during_request=in_request))
        function.set_wrapper(wrapper)
        if not in_request:
            self._note_change(target)
        return wrapper

    def _check(self, target: object) -> None:
        """Raise TypeError for what is no function."""
        of = f"a function or a {self._group_called}"
        if isinstance(target, staticmethod):
            raise TypeError(f"a limit is put on {of}, not on a staticmethod: write @staticmethod above it")
        check_target(target, self._app, of, "into its decorators = [...]")

    def _note_change(self, target: object) -> None:
        if self._handle is None:
            self._unnoticed.add(target)
            return
        if not self._handle.was_registered:
            self._unnoticed.add(self._handle)
        self._handle.note_change()

    @property
    def __name__(self) -> str:
        """A view is asked for its name; where a decorator was not called, this object is the view."""
        used = "rate_limit" if self._handle is None else "limiter.limit"
        raise AttributeError(f"a limit is not a view: write @{used}('10/second'), not @{used}")

    def __iter__(self) -> NoReturn:
        """Raise TypeError: a class of views iterates over its ``decorators``."""
        raise TypeError(
            "decorators is a list of limits, also of one: write decorators = [limiter.limit(...)]"
        )

    def _wrap(self, function: LimitedFunction) -> Callable[..., Any]:
        """Return what decides and then calls the function."""
        raise NotImplementedError

    @staticmethod
    def _is_in_request() -> bool:
        raise NotImplementedError


def options_of_decorator(
    value: Any,
    keywords: Mapping[str, Any],
    *,
    read: ReadLimits = as_limits,
    arguments: int = 0,
    is_shared: bool = False,
    during_request: bool = False,
    written: str = "rate_limit",
) -> LimitOptions:
    """Check the options of a decorator, as `limit_options` does, and that it was written with limits."""
    check_limits_are_given(value)
    if isinstance(value, type) or (inspect.isfunction(value) and _needs_more(value, arguments)):
        called = "given the request or nothing" if arguments else "called without arguments"
        raise TypeError(
            f"{written} takes limits: write @{written}('10/second'). A function that names limits during a "
            f"request is {called}, which {function_name(value)} cannot be"
        )
    return limit_options(
        value,
        keywords,
        read=read,
        arguments=arguments,
        is_shared=is_shared,
        during_request=during_request,
    )


def _needs_more(function: Callable[..., object], arguments: int) -> bool:
    stars = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.kind not in stars]
    return len(needed) > arguments
