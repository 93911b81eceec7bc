"""What happens to an identifier that goes over a limit: it is locked for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.limit import Value, set_arguments
from overlimit.limits.quantities import Seconds, micros, seconds

_MOST_LEVELS = 64


class Penalty(Value, Initialised):
    """Locks an identifier that goes over a limit, longer each time it does so again.

    A refused hit locks for the time of the first level; the next one that is refused before the lock and
    ``forget_after`` are over, for that of the second, and so on; the last level repeats. An immutable value,
    validated when built.

    Source: the escalating block times of kaciras' RedisTokenBucket and the lock seconds of
    FireflySoft.RateLimit.

    Parameters
    ----------
    levels
        How long each lock lasts, in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
        nearest microsecond; 1 to 64 of them, or a number for one.
    extend
        Whether a hit while locked makes the lock last for its whole time again, from that hit on.
    forget_after
        Seconds from the end of a lock until the next violation starts at the first level again. Default:
        as long as that lock's level.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range; the message names it.
    """

    __slots__ = ("_numbers",)

    _set_last: ClassVar[str] = "_numbers"
    _numbers: tuple[tuple[int, ...], bool, int | None]

    @checks_arguments()
    def __init__(
        self, levels: Seconds | Sequence[Seconds], extend: bool = False, forget_after: Seconds | None = None
    ) -> None:
        if not isinstance(extend, bool):
            raise InvalidLimit(f"extend must be True or False, not {short_repr(extend)}")
        forget_us = None if forget_after is None else micros(forget_after, "forget_after")
        object.__setattr__(self, "_numbers", (_levels_us(levels), extend, forget_us))

    @property
    def levels(self) -> tuple[float, ...]:
        """How long each lock lasts, in seconds."""
        return tuple(map(seconds, self._numbers[0]))

    @property
    def extend(self) -> bool:
        """Whether a hit while locked makes the lock last for its whole time again."""
        return self._numbers[1]

    @property
    def forget_after(self) -> float | None:
        """Seconds from the end of a lock until levels start anew; None: as long as that lock's level."""
        forget_us = self._numbers[2]
        return None if forget_us is None else seconds(forget_us)

    def _identity(self) -> tuple[object, ...]:
        return "penalty", self._numbers

    def _call(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        others = set_arguments(self, {"extend": False, "forget_after": None})
        return (self.levels[0] if len(self.levels) == 1 else list(self.levels),), others


def _levels_us(levels: object) -> tuple[int, ...]:
    if not isinstance(levels, Sequence) or isinstance(levels, (str, bytes, bytearray)):
        levels = (levels,)
    if not 1 <= len(levels) <= _MOST_LEVELS:
        raise InvalidLimit(f"levels must be 1 to {_MOST_LEVELS} durations, not {len(levels)}")
    return tuple(micros(level, "levels") for level in levels)
