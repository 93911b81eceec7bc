"""A Decision as bytes, to pickle and compare it: its values as JSON, each limit as the call that builds it.

Numbers that may have thousands of digits are hexadecimal, and identifiers are bytes written as Latin-1.
``docs/decisions.md`` says why this form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from overlimit import _core
from overlimit.limits.registry import algorithm_named

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.limits import Limit

_FORMAT = 1
_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def decision_bytes(values: tuple[Any, ...]) -> bytes:
    """Return the bytes of a Decision with these values; the core calls this."""
    time, cost, source, status, retry_after, subjects, rows, chosen = values
    places: dict[tuple[str | None, tuple[Limit, ...]], int] = {}
    charges = [
        (places.setdefault((name, limits), len(places)), is_text, identifier.decode("latin-1"), spent, role)
        for name, limits, is_text, identifier, spent, role in subjects
    ]
    policies = [(name, [_call_of(limit) for limit in limits]) for name, limits in places]
    chosen_by = (chosen,) if chosen else ()
    written = (_FORMAT, time, hex(cost), source, status, retry_after, policies, charges, rows, *chosen_by)
    return json.dumps(written, separators=(",", ":")).encode()


def restored_decision(payload: bytes, /) -> Decision:
    """Return the Decision that was pickled as these bytes; raise ValueError for any others."""
    if not isinstance(payload, bytes):
        raise TypeError(f"a pickled Decision must be bytes, not {type(payload).__name__}")
    try:
        return _core._decision_of(*_values_in(payload))
    except _WRONG as error:
        raise ValueError(f"these bytes are not a pickled Decision: {error}") from error


def _values_in(payload: bytes) -> tuple[Any, ...]:
    version, *values = json.loads(payload.decode("ascii"))
    if version != _FORMAT:
        raise ValueError(f"they have format {version}, and this version of overlimit reads format {_FORMAT}")
    time, cost, source, status, retry_after, policies, charges, rows, *more = values
    (chosen,) = more or [0]
    if (cost := int(cost, 16)) < 0:
        raise ValueError("the cost is negative")
    return (
        *(time, cost, source, status, retry_after),
        tuple((name, tuple(_limit_of(*call) for call in calls)) for name, calls in policies),
        tuple((place, _identifier(*given), spent, role) for place, *given, spent, role in charges),
        tuple(map(tuple, rows)),
        chosen,
    )


def _identifier(is_text: int, text: str) -> str | bytes:
    identifier = text.encode("latin-1")
    return identifier.decode("utf-8", "surrogatepass") if is_text else identifier


def _call_of(limit: Limit) -> tuple[str, list[object], dict[str, object]]:
    """Return the algorithm's name and the arguments by place and by name that build an equal limit."""
    positional, by_name = limit._call()
    return limit.algorithm, [*map(_plain, positional)], {key: _plain(by_name[key]) for key in by_name}


def _limit_of(algorithm: str, positional: list[object], by_name: Mapping[str, object]) -> Limit:
    named = {key: _given(value) for key, value in by_name.items()}
    return algorithm_named(algorithm)(*map(_given, positional), **named)


def _plain(argument: object) -> object:
    """Return an argument as JSON has it: a fraction is two numbers."""
    if isinstance(argument, Fraction):
        return hex(argument.numerator), hex(argument.denominator)
    return argument


def _given(argument: Any) -> object:
    return Fraction(*(int(part, 16) for part in argument)) if isinstance(argument, list) else argument
