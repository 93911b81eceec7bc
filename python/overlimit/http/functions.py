"""The functions that an app gives: whether they can be called as they will be, and what they're known by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

__all__ = ["SaysWhatItIs", "check_callable", "is_set", "shown", "shows", "taking_request", "told_apart"]

F = TypeVar("F", bound=Callable[..., Any])

_SHAPES = ("without parameters", "of one argument", "of two arguments")


class SaysWhatItIs:
    """A function of this package that is an object: what it is shown as, and told apart by."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """What it is, in words that are the same in every process."""
        raise NotImplementedError

    @property
    def made_of(self) -> tuple[object, ...]:
        """The functions of an app that it is made of."""
        return ()


def is_set(value: object) -> bool:
    """Tell whether an option says anything: None, an empty text and an empty collection don't."""
    return not (value is None or (isinstance(value, (str, list, tuple, dict)) and len(value) == 0))


def check_callable(name: str, given: object, parameters: int) -> None:
    """Raise TypeError unless it's None or can be called with so many arguments, and answers at once."""
    if given is None:
        return
    shape = f"a function {_SHAPES[parameters]}"
    if not callable(given):
        raise TypeError(f"{name} must be {shape}, not {given!r}")
    if _is_asynchronous(given):
        raise TypeError(f"{name} must be {shape}, not an async one: nothing awaits {shown(given)}")
    try:
        inspect.signature(given).bind(*(None,) * parameters)
    except TypeError as error:
        raise TypeError(f"{name} must be {shape}: {shown(given)} says {error}") from None
    except ValueError:  # built in, and tells nothing of itself
        return


def taking_request(given: Any, own: int = 0) -> Any:
    """Return a function to be called with ``own`` arguments and the request, which it may leave out.

    In lists too; what is no function stays as it is.
    """
    if isinstance(given, (list, tuple)):
        return type(given)(taking_request(member, own) for member in given)
    if not callable(given) or isinstance(given, SaysWhatItIs):
        return given
    return _WithoutRequest(given) if not _takes(given, own + 1) and _takes(given, own) else given


def _takes(function: Callable[..., object], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*(None,) * arguments)
    except TypeError:
        return False
    except ValueError:  # built in, and tells nothing of itself
        return True
    return True


class _WithoutRequest(SaysWhatItIs):
    """A function of an app that takes no request, called without it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def __call__(self, *arguments: object) -> object:
        return self.function(*arguments[:-1])

    @property
    def shown(self) -> str:
        return shown(self.function)

    @property
    def made_of(self) -> tuple[object, ...]:
        return (self.function,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _WithoutRequest) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def shown(function: object) -> str:
    """Return where a function is from and what it's called; never its repr, which may show what it holds."""
    if isinstance(function, SaysWhatItIs):
        return function.shown
    if isinstance(function, partial):
        return shown(function.func)
    of = function if hasattr(function, "__qualname__") else type(function)
    return f"{of.__module__}.{of.__qualname__}()"


def told_apart(function: object, *, by_values: bool = True) -> str:
    """Return what a function is called in every process; of a lambda its code, too.

    ``by_values`` adds the texts and numbers that it was made with, as a factory makes functions of one code.
    """
    if function is None:
        return ""
    inner = partial(told_apart, by_values=by_values)
    if isinstance(function, SaysWhatItIs):
        return " ".join((function.shown, *map(inner, function.made_of)))
    values = _plain(_made_with(function)) if by_values else []
    if isinstance(function, partial):
        return f"{inner(function.func)} {values}"
    name = shown(function)
    code = getattr(function, "__code__", None)
    if code is None or "<lambda>" not in name:
        return f"{name} {values}"
    return f"{name} {values} {code.co_code!r} {code.co_names!r} {_plain(code.co_consts)}"


def _made_with(function: object) -> Iterator[object]:
    """Yield the arguments that a partial binds, or what a function has captured and defaults to."""
    if isinstance(function, partial):
        yield from function.args
        for name, value in sorted(function.keywords.items()):
            yield from (name, value)
        return
    for cell in getattr(function, "__closure__", None) or ():
        yield cell.cell_contents
    yield from getattr(function, "__defaults__", None) or ()


def _is_asynchronous(function: Callable[..., object]) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _plain(values: Iterable[object]) -> list[object]:
    return [value for value in values if isinstance(value, (str, bytes, int, float))]


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
