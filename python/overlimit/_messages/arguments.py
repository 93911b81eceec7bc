"""Arguments that a constructor does not take: what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from overlimit._messages.texts import nearest, short_repr

__all__ = ["checks_arguments"]

_Init = TypeVar("_Init", bound=Callable[..., None])

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checks_arguments(
    *, synonyms: Mapping[str, str] | None = None, instead: Mapping[str, str] | None = None, hint: str = ""
) -> Callable[[_Init], _Init]:
    """Make a constructor's TypeErrors for unknown and superfluous arguments say what to write.

    Parameters
    ----------
    synonyms
        What other rate limiters call an argument, and its name here.
    instead
        Arguments of other libraries that have no counterpart here, and what to write for them.
    hint
        What to write instead of too many arguments by position; by default the first of them by its name.
    """
    hints = {other: f"{name}=" for other, name in (synonyms or {}).items()} | dict(instead or {})

    def decorate(init: _Init) -> _Init:
        @functools.wraps(init)
        def checked(self: object, *positional: Any, **named: Any) -> None:
            try:
                init(self, *positional, **named)
            except TypeError:
                _explain(init, (self, *positional), named, hints, hint)
                raise

        return checked  # type: ignore[return-value]  # the same signature

    return decorate


def _explain(
    init: Callable[..., None],
    positional: tuple[Any, ...],
    named: Mapping[str, Any],
    hints: Mapping[str, str],
    hint: str,
) -> None:
    """Raise a clearer TypeError unless the arguments fit the constructor's parameters by name and number."""
    parameters = [*inspect.signature(init).parameters.values()][1:]
    takes_any_name = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    call = f"{init.__qualname__.removesuffix('.__init__')}()"
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    by_position = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    for name in named:
        if name not in names and not takes_any_name:
            _refuse_name(call, name, names, hints)
    if len(positional) - 1 > len(by_position):
        _refuse_positions(call, positional[1:], by_position, names, hint)


def _refuse_name(call: str, name: str, names: list[str], hints: Mapping[str, str]) -> NoReturn:
    wanted = nearest(name, names)
    written = hints.get(name) or (wanted and f"{wanted}=")
    instead = f"write {written}" if written else f"it takes {', '.join(names)}"
    raise TypeError(f"{call} has no argument {name!r}: {instead}") from None


def _refuse_positions(
    call: str, given: tuple[Any, ...], by_position: list[str], names: list[str], hint: str
) -> NoReturn:
    count = len(by_position)
    taken = f"{call} takes {count} argument{'s' * (count != 1)} by position ({', '.join(by_position)})"
    by_name = f"write the others by name, as {''.join(names[count:][:1])}={short_repr(given[count])}"
    instead = hint or (by_name if len(names) > count else "leave the others out")
    raise TypeError(f"{taken} but {len(given)} were given: {instead}") from None
