"""The limits that commands ask about, and the options that say what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Rules:
    """What limits mean that are written as texts."""

    algorithm: str | None
    lock: tuple[float, ...]
    """The seconds of each lock; none without a penalty."""

    def limiter(self, limits: str) -> Limiter:
        """Return a limiter of limits, or raise as ``Limiter`` does."""
        return Limiter(limits, algorithm=self.algorithm, penalty=Penalty(self.lock) if self.lock else None)

    def code(self, limits: str) -> str:
        """Return Python that makes the policy of limits."""
        if self.algorithm is None and not self.lock:
            return repr(limits)
        others = f", algorithm={self.algorithm!r}" * bool(self.algorithm)
        return f"Limiter({limits!r}{others}{f', penalty=Penalty({self.lock!r})' * bool(self.lock)})"


def named_policies(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return limits by the names that they were given, as in ``today=100/minute``."""
    policies: dict[str, str] = {}
    for text in texts:
        name, is_named, limits = text.partition("=")
        if not (is_named and name.strip() and limits.strip()):
            raise click.BadParameter(f"a policy is written as NAME=LIMITS, as today=100/minute, not {text}")
        if name.strip() in policies:
            raise click.BadParameter(f"there are two policies {name.strip()}: give each another name")
        policies[name.strip()] = limits
    return policies


takes_policies = click.option(
    "--policy",
    "policies",
    multiple=True,
    required=True,
    metavar="NAME=LIMITS",
    callback=named_policies,
    help="Such as today=100/minute. Repeated for each policy.",
)


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
