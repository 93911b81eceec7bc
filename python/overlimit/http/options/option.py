"""The description of an option, from which reading, checking and ``help()`` come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from textwrap import fill
from typing import Any, NamedTuple, TypeVar

from overlimit.http.options.kinds import Kind

C = TypeVar("C")


class Option(NamedTuple):
    """An option of a RateLimit or of a limit."""

    kind: Kind
    help: str
    """What it means; of options in a row with the same text it is shown once."""
    key: str | None = None
    """The ``RATELIMIT_*`` key that sets it."""
    other_keys: tuple[str, ...] = ()
    """Keys of Flask-Limiter that say the same otherwise."""
    default: object = None
    """What holds if it is not set."""
    is_strict: bool = False
    """Whether an empty value is an error instead of not set."""
    name: str = ""

    def is_set(self, value: object) -> bool:
        """Return whether a value sets it."""
        return value is not None if self.is_strict else self.kind.is_set(value)

    def check(self, value: object, arguments: int, called: str | None = None) -> None:
        """Raise TypeError or ValueError if a value cannot be used; the message says what it is called."""
        self.kind.check(called or self.name, value, arguments)

    def configured(self, key: str, value: Any, arguments: int) -> object:
        """Return the value that a key of the configuration sets.

        Raises ValueError if it is invalid, or TypeError if it is a function; the message names the key.
        """
        found = self.kind.read(value)
        try:
            self.check(found, arguments)
        except (TypeError, ValueError) as error:
            told = str(error)
            rest = told.removeprefix(f"{self.name} ")
            takes_it = self.kind.own_arguments is not None and callable(value)
            kind = TypeError if isinstance(error, TypeError) and takes_it else ValueError
            raise kind(f"{key}: {told}" if rest == told else f"{key} {rest}") from None
        return found


def options(**described: Option) -> dict[str, Option]:
    """Return options by their names."""
    return {name: option._replace(name=name) for name, option in described.items()}


def documents(known: Mapping[str, Option]) -> Callable[[C], C]:
    """Write the options in the place of ``{options}`` in a docstring."""

    def write(documented: C) -> C:
        if documented.__doc__ is not None:  # as it is under python -OO
            documented.__doc__ = documented.__doc__.replace("    {options}", "\n".join(_parameters(known)))
        return documented

    return write


def _parameters(known: Mapping[str, Option]) -> Iterator[str]:
    """Yield the section on each option, or on several with the same text."""
    for text, same in groupby(known.values(), key=lambda option: option.help):
        alike = list(same)
        keys = ", ".join(key for option in alike for key in (option.key, *option.other_keys) if key)
        for told, indent in (
            (", ".join(option.name for option in alike), " " * 4),
            (f"{text[:-1]} ({keys})." if keys else text, " " * 8),
        ):
            yield fill(told, 109, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
