"""The limits that commands ask about, and the options that say what they mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from overlimit.command_line.finite import FiniteRange
from overlimit.limiter import Limiter
from overlimit.limits.penalty import Penalty
from overlimit.limits.registry import ALGORITHMS

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = (
    click.option(
        "--algorithm",
        type=click.Choice(list(ALGORITHMS)),
        help="What limits such as 100/minute mean. Default: sliding_window.",
    ),
    click.option(
        "--lock",
        multiple=True,
        type=FiniteRange(0, min_open=True),
        metavar="SECONDS",
        help="How long an identifier is locked once it goes over a limit; again: the next time it does so.",
    ),
)


class Rules:
    """What limits mean that are written as texts."""

    def __init__(self, algorithm: str | None, lock: tuple[float, ...]) -> None:
        self._algorithm, self._lock = algorithm, lock

    def limiter(self, limits: str) -> Limiter:
        """Return a limiter of limits, or raise as ``Limiter`` does."""
        return Limiter(limits, algorithm=self._algorithm, penalty=Penalty(self._lock) if self._lock else None)


def takes_rules(run: Callable[Concatenate[Rules, P], R]) -> Callable[P, R]:
    """Give a command the options that say what limits mean, and call it with them."""

    @wraps(run)
    def with_rules(*args: P.args, **options: P.kwargs) -> R:
        given: dict[str, Any] = {name: options.pop(name) for name in ("algorithm", "lock")}
        return run(Rules(**given), *args, **options)

    command: Callable[P, R] = with_rules
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
