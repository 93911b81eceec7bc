"""An immutable value, known by the call that builds it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn, TypeVar

_Self = TypeVar("_Self", bound="Value")


class Value(ABC):
    """A value that compares, hashes, pickles and copies; its ``repr`` is the call that builds an equal one.

    A subclass sets its attributes once, at the end of its constructor, with ``object.__setattr__``.
    """

    __slots__ = ()

    @abstractmethod
    def _identity(self) -> tuple[object, ...]:
        """Return what two equal values have in common, and no others."""

    @abstractmethod
    def _call(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        """Return the constructor's positional and named arguments that build an equal value."""

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: cannot delete {attribute!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        positional, by_name = self._call()
        parts = [*map(written, positional), *(f"{key}={written(value)}" for key, value in by_name.items())]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from overlimit._display.notebooks import value_html

        return value_html(self)

    def __reduce__(self: _Self) -> tuple[Callable[[], _Self], tuple[()]]:
        positional, by_name = self._call()
        return partial(type(self), *positional, **by_name), ()


def set_arguments(value: object, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments, which are attributes too, that are not as they are by default."""
    return {name: getattr(value, name) for name in defaults if getattr(value, name) != defaults[name]}


def written(argument: object) -> str:
    """Return an argument as Python reads it."""
    return "float('inf')" if argument == math.inf else repr(argument)
