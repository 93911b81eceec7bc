"""Arguments and options that do not exist, and limiters of the wrong kind: what to write instead."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast

from overlimit import _core
from overlimit._messages.texts import nearest, short_repr

_F = TypeVar("_F", bound=Callable[..., Any])

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def checks_arguments(
    *, synonyms: Mapping[str, str] | None = None, instead: Mapping[str, str] | None = None, hint: str = ""
) -> Callable[[_F], _F]:
    """Make the TypeErrors of a constructor or method for unknown, superfluous and missing arguments say more.

    That is for ``synonyms`` the argument's name here, for arguments of ``instead`` what is said there, and
    for too many by position the ``hint``, by default the first of them by its name.
    """
    hints = {other: f"write {name}=" for other, name in (synonyms or {}).items()} | dict(instead or {})

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def checked(*positional: Any, **named: Any) -> Any:
            try:
                return function(*positional, **named)
            except TypeError as error:
                _explain(function, positional, named, hints, hint)
                if " missing " in str(error):  # not what an inner decorator says of another name
                    _refuse_missing(function, positional, named)
                raise

        @functools.wraps(function)
        async def checked_when_awaited(*positional: Any, **named: Any) -> Any:
            return await checked(*positional, **named)

        is_awaited = inspect.iscoroutinefunction(function)
        return checked_when_awaited if is_awaited else checked  # type: ignore[return-value]  # as it was

    return decorate


def check_options(
    owner: str,
    given: Iterable[str],
    known: Collection[str],
    hints: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise TypeError for an option that does not exist; ``hints`` say what to write for those of others."""
    for name in given:
        if name not in known:
            like = nearest(name, known)
            instead = hints.get(name) or (f"did you mean {like!r}?" if like else f"it has {', '.join(known)}")
            raise TypeError(f"{owner} has no option {name!r}: {instead}")


def expected_limiter(given: object, function: str) -> str:
    """Say what a function on several limiters takes, and which one takes what it was given."""
    aio = sys.modules.get("overlimit.aio.limiter")  # without which there is no AsyncLimiter
    if aio is not None and isinstance(given, aio.AsyncLimiter):
        return (
            f"overlimit.{function} takes Limiters, not an AsyncLimiter: write await overlimit.aio.{function}"
        )
    return f"expected a Limiter, not {short_repr(given)}"


def charges_in(given: object) -> list[object]:
    """Return charges that are given as no list; raise ValueError for more than a call takes."""
    if not (hasattr(type(given), "__iter__") or hasattr(type(given), "__getitem__")):
        wanted = "charges must be a list of tuples (limiter, identifier[, cost])"
        raise TypeError(f"{wanted}, not {short_repr(given)}")
    charges = [*islice(cast(Iterable[object], given), _core.MAX_CHARGES + 1)]
    if len(charges) > _core.MAX_CHARGES:
        raise ValueError(f"a call must have at most {_core.MAX_CHARGES} charges, and this one has more")
    return charges


def expected_async_limiter(given: object, function: str) -> str:
    """Say what a function on several AsyncLimiters takes, and which one takes what it was given."""
    if isinstance(given, _core.Limiter):
        return (
            f"overlimit.aio.{function} takes AsyncLimiters, not a Limiter: write AsyncLimiter, or "
            f"overlimit.{function}, which is not awaited"
        )
    return f"expected an AsyncLimiter, not {short_repr(given)}"


def _explain(
    function: Callable[..., Any],
    positional: tuple[Any, ...],
    named: Mapping[str, Any],
    hints: Mapping[str, str],
    hint: str,
) -> None:
    """Raise a clearer TypeError unless the arguments fit the parameters by name and number."""
    parameters = [*inspect.signature(function).parameters.values()]
    is_method = parameters[0].name == "self"
    del parameters[:is_method]
    kinds = {parameter.kind for parameter in parameters}
    call = f"{function.__qualname__.removesuffix('.__init__')}()"
    names = [each.name for each in parameters if each.kind not in _ANY_NUMBER]
    by_position = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    for name in named:
        if name not in names and (name in hints or inspect.Parameter.VAR_KEYWORD not in kinds):
            _refuse_name(call, name, names, hints)
    given = positional[is_method:]
    if len(given) > len(by_position) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        _refuse_positions(call, given, by_position, names, hint)


def _refuse_missing(function: Callable[..., Any], positional: tuple[Any, ...], named: Iterable[str]) -> None:
    """Raise a TypeError that shows the call, if an argument is missing."""
    parameters = [*inspect.signature(function).parameters.values()]
    given = {*(each.name for each in parameters[: len(positional)]), *named}
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _ANY_NUMBER]
    missing = next((each.name for each in needed if each.name not in given), None)
    if missing is not None:
        call = function.__qualname__.removesuffix(".__init__")
        written = ", ".join(
            f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name
            for each in needed
            if each.name != "self"
        )
        raise TypeError(f"{call}() is missing {missing!r}: write {call}({written})") from None


def _refuse_name(call: str, name: str, names: list[str], hints: Mapping[str, str]) -> NoReturn:
    wanted = nearest(name, names)
    instead = hints.get(name) or (f"write {wanted}=" if wanted else f"it takes {', '.join(names)}")
    raise TypeError(f"{call} has no argument {name!r}: {instead}") from None


def _refuse_positions(
    call: str, given: tuple[Any, ...], by_position: list[str], names: list[str], hint: str
) -> NoReturn:
    count = len(by_position)
    taken = f"{call} takes {count} argument{'s' * (count != 1)} by position ({', '.join(by_position)})"
    by_name = f"write the others by name, as {''.join(names[count:][:1])}={short_repr(given[count])}"
    instead = hint or (by_name if len(names) > count else "leave the others out")
    raise TypeError(f"{taken} but {len(given)} were given: {instead}") from None
