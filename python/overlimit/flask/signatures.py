"""What ``help()`` shows of functions whose keywords a TypedDict declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["shows"]

F = TypeVar("F", bound=Callable[..., Any])


def shows(keywords: type) -> Callable[[F], F]:
    """Show each of the keywords in the signature of a function, in the place of its ``**options``.

    One that may also be given by its place is shown there.
    """

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        placed = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD)
            for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        named = [
            _optional(name, annotation)
            for name, annotation in keywords.__annotations__.items()
            if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=placed + named)  # type: ignore[attr-defined]
        return function

    return shown


class _NotGiven:
    """What an option is that nobody gives: something else than None may follow from that."""

    def __repr__(self) -> str:
        return "..."


_NOT_GIVEN = _NotGiven()


def _optional(name: str, annotation: Any) -> inspect.Parameter:
    written = getattr(annotation, "__forward_arg__", annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_NOT_GIVEN, annotation=written)
