"""Limits as the calls that build them: how a pickled Decision holds its limits; the core calls this."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from overlimit.limits.registry import algorithm_named

if TYPE_CHECKING:
    from overlimit.limits.limit import Limit

__all__ = ["call_of", "limit_of"]

Argument: TypeAlias = int | float | str | tuple[int, int]
"""A pair of numbers is a fraction."""


def call_of(limit: Limit) -> tuple[str, tuple[Argument, ...], dict[str, Argument]]:
    """Return the algorithm's name and the arguments by place and by name that build an equal limit."""
    positional, by_name = limit._call()
    return limit.algorithm, tuple(map(_plain, positional)), {key: _plain(by_name[key]) for key in by_name}


def limit_of(algorithm: str, positional: tuple[Argument, ...], by_name: Mapping[str, Argument]) -> Limit:
    """Return the limit that a call builds; raise ValueError, whatever the arguments are, if there is none."""
    try:
        named = {key: _given(value) for key, value in by_name.items()}
        return algorithm_named(algorithm)(*map(_given, positional), **named)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"these bytes are not a pickled Decision: {error}") from error


def _plain(argument: object) -> Argument:
    if isinstance(argument, Fraction):
        return argument.numerator, argument.denominator
    if isinstance(argument, int | float | str):
        return argument
    raise TypeError(f"a limit's argument must be a number or a string to be pickled, not {argument!r}")


def _given(argument: Argument) -> object:
    return Fraction(*argument) if isinstance(argument, tuple) else argument
