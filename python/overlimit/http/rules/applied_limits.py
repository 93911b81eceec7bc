"""What decorators leave on functions and on groups of routes: limits and exemptions.

A group is whatever a framework collects routes in, such as a router.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from overlimit._forks import PerProcess
from overlimit.http.answering.fields import distinct
from overlimit.http.callables import function_name
from overlimit.http.options.limit_options import LimitOptions

APPLIED_LIMITS = "__overlimit__"
"""The attribute that holds a function's applied limits; ``functools.wraps`` copies it to wrappers above."""


class Handle(Protocol):
    """What a RateLimit has in common on all its apps, as far as limits need to know."""

    was_registered: bool

    @property
    def apps(self) -> Iterable[Any]:
        """What each app keeps of its RateLimits."""

    def is_on(self, app: object) -> bool:
        """Return whether it is registered on this app."""

    def __hash__(self) -> int: ...


@dataclass(eq=False, slots=True)
class AppliedLimit:
    """The limits that one decorator has put on one function or group; no two of them are equal."""

    options: LimitOptions
    handle: Handle | None
    """The RateLimit through which they hold; None: the first of the current app."""


AppliedLimits = tuple[AppliedLimit, ...]
"""The applied limits of one function or group, those of the innermost decorator first."""

_limited_functions: WeakKeyDictionary[Callable[..., Any], LimitedFunction] = WeakKeyDictionary()
_above: WeakKeyDictionary[Callable[..., Any], AppliedLimits] = WeakKeyDictionary()
_on_groups: WeakKeyDictionary[Any, AppliedLimits] = WeakKeyDictionary()
_adding = PerProcess(threading.RLock)
"""Held while one adds to what is noted; reading takes one step."""


def applied_limits_of(function: object) -> AppliedLimits:
    """Return the applied limits that a call of the function passes through."""
    found: AppliedLimits | None = getattr(function, APPLIED_LIMITS, None)
    if found is None:
        return applied_limits_of(function.func) if isinstance(function, partial) else ()
    return found


def add_applied_limit(
    target: Callable[..., Any], applied: AppliedLimit, *, during_request: bool
) -> AppliedLimits:
    """Note a decorator above ``target``, and return all applied limits of the function that it makes."""
    # No route is added during a request, and functions that are decorated in each request must not pile up.
    for function in () if during_request else wrapped_chain(target):
        try:
            with _adding():
                _above[function] = (*_above.get(function, ()), applied)
        except TypeError:  # no weak references to it, so it is no function that a route can have
            continue
    return (*applied_limits_of(target), applied)


def leave_on(target: Callable[..., Any], applied: AppliedLimit) -> None:
    """Leave limits on a function that stays as it is; raise TypeError if it keeps no attributes."""
    try:
        setattr(target, APPLIED_LIMITS, (*applied_limits_of(target), applied))
    except (AttributeError, TypeError):
        raise TypeError(
            f"a limit cannot stay on {function_name(target)}: put it on a function that is defined by def"
        ) from None
    add_applied_limit(target, applied, during_request=False)


def applied_limits_above(function: Callable[..., Any]) -> AppliedLimits:
    """Return the applied limits above the function, which a call of it does not pass through."""
    try:
        return _above.get(function, ())
    except TypeError:
        return ()


def check_target(target: object, app: type, put_on: str, of_class: str) -> None:
    """Raise TypeError for what no limit is put on; ``of_class`` says where a class has it."""
    if isinstance(target, type):
        raise TypeError(f"{target.__name__} is a class: put the limit {of_class}")
    if isinstance(target, app):
        raise TypeError(
            f"a limit is put on {put_on}, not on an app: write RateLimit(app, application_limits=...) for "
            "all its routes together, or default_limits=... for each of them"
        )
    if isinstance(target, classmethod):
        raise TypeError(f"a limit is put on {put_on}, not on a classmethod: write @classmethod above it")
    if not callable(target):
        raise TypeError(f"a limit is put on {put_on}, not on {target!r}")


def apply_to_group(group: object, applied: AppliedLimit) -> None:
    """Note limits for all routes of a group."""
    with _adding():
        _on_groups[group] = (*applied_limits_of_group(group), applied)


def applied_limits_of_group(group: object) -> AppliedLimits:
    """Return the applied limits of a group itself."""
    return _on_groups.get(group, ())


def labelled(applied_limits: AppliedLimits) -> tuple[tuple[str, AppliedLimit], ...]:
    """Give each applied limit of one function or group a label: its name, or its number from the inside."""
    labels = distinct(
        each.options.said["name"] or str(number) for number, each in enumerate(applied_limits, 1)
    )
    return tuple(zip(labels, applied_limits, strict=True))


def wrapped_chain(function: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function and what it calls, as ``functools.wraps`` or a partial says, from the outside in."""
    while function is not None:
        yield function
        is_partial = isinstance(function, partial)
        function = function.func if is_partial else getattr(function, "__wrapped__", None)


def owner_of(function: object) -> object:
    """Return the object that a function is a method of, bound and wrapped or not; None: it is no method."""
    for each in wrapped_chain(function):
        owner = getattr(each, "__self__", None)
        if owner is not None:
            return owner
    return None


class LimitedFunction:
    """A function and the limits that one wrapper adds to it; adjacent decorators share a wrapper."""

    __slots__ = ("__weakref__", "applied_limits", "decorated", "field_name", "function", "is_innermost")

    def __init__(
        self,
        function: Callable[..., Any],
        applied_limits: AppliedLimits,
        decorated: tuple[Callable[..., Any], ...],
        *,
        is_innermost: bool,
    ) -> None:
        """Put limits on ``function``; ``is_innermost`` says that no other wrapper with limits is below."""
        self.function = function
        self.applied_limits = applied_limits
        self.decorated = decorated
        """What each of the decorators was given: ``function``, and wrappers that others have joined."""
        self.is_innermost = is_innermost
        name: str = getattr(function, "__qualname__", type(function).__qualname__)
        self.field_name = name.rpartition(".")[2]
        """The name that the limits of a plain function have in header fields."""

    @classmethod
    def of(cls, target: Callable[..., Any], applied: AppliedLimit) -> LimitedFunction:
        """Decorate ``target``: join its wrapper if it is one of ours, or else begin a new one."""
        below = _limited_functions.get(target)
        if below is None:
            return cls(target, (applied,), (target,), is_innermost=not applied_limits_of(target))
        limits, decorated = (*below.applied_limits, applied), (*below.decorated, target)
        return cls(below.function, limits, decorated, is_innermost=below.is_innermost)

    @staticmethod
    def made_by(wrapper: Callable[..., Any]) -> LimitedFunction | None:
        """Return what a wrapper adds; None if it is none of ours."""
        try:
            return _limited_functions.get(wrapper)
        except TypeError:
            return None

    def set_wrapper(self, wrapper: Callable[..., Any]) -> None:
        """Note the wrapper, which a decorator directly above it then joins."""
        _limited_functions[wrapper] = self


def decorated_below(functions: Iterable[Callable[..., Any]]) -> Iterator[Callable[..., Any]]:
    """Yield what was decorated so that a call of these functions passes its limits.

    What is itself one of them may be called without its limits, so it is left out.
    """
    called = {id(function): function for function in functions}
    for outermost in called.values():
        for function in wrapped_chain(outermost):
            limited = LimitedFunction.made_by(function)
            if limited is not None:
                yield from (each for each in limited.decorated if id(each) not in called)


class ExemptionScope(enum.Flag):
    """Which limits an exemption is from."""

    NONE = 0
    """None of them."""
    APPLICATION = enum.auto()
    """The limits of the application, global ones included."""
    DEFAULT = enum.auto()
    """The default limits, and those of the function's own decorators and of its groups."""
    META = enum.auto()
    """The meta limits."""
    DESCENDENTS = enum.auto()
    """On a group: the groups nested in it are exempt as well."""
    ANCESTORS = enum.auto()
    """On a group: the limits of the groups that it is nested in."""


ALL_LIMITS = ExemptionScope.APPLICATION | ExemptionScope.DEFAULT | ExemptionScope.META

HANDED_DOWN = ExemptionScope.DEFAULT | ExemptionScope.DESCENDENTS
"""With both flags, the limits of a group do not reach the groups nested in it."""


class Exemptions:
    """The functions and groups that one RateLimit does not limit."""

    def __init__(self) -> None:
        self._flags: WeakKeyDictionary[Any, ExemptionScope] = WeakKeyDictionary()

    def add(self, target: object, flags: ExemptionScope) -> None:
        """Exempt a view, however it is wrapped later, a method of a class view, or a group of routes."""
        if not isinstance(flags, ExemptionScope):
            raise TypeError(f"flags must be an ExemptionScope, not {flags!r}")
        with _adding():
            self._flags[target] = self._flags.get(target, ExemptionScope.NONE) | flags

    def of_handlers(self, handlers: Iterable[Callable[..., Any]]) -> ExemptionScope:
        """Return what functions themselves are exempt from, however they are wrapped."""
        found = ExemptionScope.NONE
        for handler in handlers:
            for function in wrapped_chain(handler):
                found |= self._flags.get(function, ExemptionScope.NONE)
        return found

    def of_group(self, group: object) -> ExemptionScope:
        """Return what a group itself is exempt from."""
        return self._flags.get(group, ExemptionScope.NONE)
