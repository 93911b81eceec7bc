"""Limits that a function leaves out by returning None."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from overlimit.errors import InvalidLimit
from overlimit.http.callables import (
    KeptIn,
    StandsForFunctions,
    check_callable,
    check_takes_no_group,
    taking_request,
)
from overlimit.http.options.limit_options import is_dynamic
from overlimit.limits import LimitsLike

OptionalLimits: TypeAlias = (
    LimitsLike | Callable[..., LimitsLike | Awaitable[LimitsLike | None] | None] | list[Any]
)
"""Limits, a function that returns them during a request, or None for no limit, or a list of these."""


def optional(limits: Any, kept_in: KeptIn | None = None) -> Any:
    """Return limits whose functions may return None for no limit; with ``kept_in`` see `taking_request`."""
    if isinstance(limits, type) or (isinstance(limits, list) and not limits):
        raise InvalidLimit(
            f"limits must be a string such as '5/minute', a limit or a function, not {limits!r}"
        )
    if isinstance(limits, list):
        return [optional(each, kept_in) for each in limits]
    if limits is None or not is_dynamic(limits):
        return limits
    check_takes_no_group(limits)
    taking = taking_request(limits, 0, kept_in)
    check_callable("limits", taking, 1)
    return _Optional((taking,))


class _Optional(StandsForFunctions):
    """A function that returns limits, or None, which is no limit."""

    def __call__(self, request: object) -> Any:
        function: Callable[[object], Any] = self.made_of[0]
        found = function(request)
        return "" if found is None else found
