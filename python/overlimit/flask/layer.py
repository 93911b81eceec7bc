"""What a decorated function does before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from overlimit.flask.marks import Mark, Marks, marks_of

__all__ = ["Layer"]

_layers: WeakKeyDictionary[Callable[..., Any], Layer] = WeakKeyDictionary()


class Layer:
    """The limits that one wrapper adds to a function; decorators right above each other are one layer."""

    __slots__ = ("__weakref__", "function", "innermost", "marks", "name")

    def __init__(self, function: Callable[..., Any], marks: Marks, *, innermost: bool) -> None:
        """Put ``marks`` on ``function``; ``innermost`` says that there is no other layer below."""
        self.function = function
        self.marks = marks
        self.innermost = innermost
        self.name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    @property
    def shown(self) -> str:
        """The name that the limits of a plain function are shown under."""
        return self.name.rpartition(".")[2]

    @classmethod
    def around(cls, target: Callable[..., Any], mark: Mark) -> Layer:
        """Make the layer of a decorator around ``target``."""
        below = _layers.get(target)
        if below is None:
            return cls(target, (mark,), innermost=not marks_of(target))
        return cls(below.function, (*below.marks, mark), innermost=below.innermost)

    def belongs_to(self, wrapper: Callable[..., Any]) -> None:
        """Note the wrapper, so that a decorator right above it joins this layer."""
        _layers[wrapper] = self
