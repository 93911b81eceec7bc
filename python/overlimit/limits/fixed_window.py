"""At most so many per window, windows one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from overlimit.errors import InvalidLimit
from overlimit.limits.limit import Limit, Terms
from overlimit.limits.quantities import Seconds, count, duration_label, micros, seconds, shown

__all__ = ["FixedWindow"]

_STARTS = ("first", "epoch")


class FixedWindow(Limit):
    """At most ``limit`` in each window of ``per`` seconds.

    Cheap, and simple to explain; around a boundary between two windows up to twice the limit may pass.

    Source: the INCR and EXPIRE counter of the Redis documentation, "Pattern: rate limiter".
    """

    __slots__ = ()

    algorithm: ClassVar[str] = "fixed_window"

    def __init__(
        self, limit: int, per: Seconds, start: Literal["first", "epoch"] = "first", *, name: str | None = None
    ) -> None:
        """Build the limit from its numbers.

        Parameters
        ----------
        limit:
            The most that one window admits, in cost units; 0 refuses everything.
        per:
            The length of a window in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
            nearest microsecond.
        start:
            ``"first"``: a window opens with the first admitted call after the one before has ended.
            ``"epoch"``: windows are aligned to whole multiples of ``per`` since 1970-01-01 UTC.
        name:
            Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

        Raises
        ------
        InvalidLimit
            An argument is of the wrong type or out of range; the message names it.
        """
        if not isinstance(start, str) or start not in _STARTS:
            raise InvalidLimit(f"start must be 'first' or 'epoch', not {shown(start)}")
        self._seal((count(limit, "limit"), micros(per, "per"), _STARTS.index(start)), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> FixedWindow:
        """Build the window that a text or a tuple describes; it starts at the first call."""
        return cls(terms.limit, terms.per)

    @property
    def limit(self) -> int:
        """The most that one window admits."""
        return self._numbers[0]

    @property
    def per(self) -> float:
        """The length of a window in seconds."""
        return seconds(self._numbers[1])

    @property
    def start(self) -> str:
        """Where windows start: ``"first"`` or ``"epoch"``."""
        return _STARTS[self._numbers[2]]

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    @property
    def window(self) -> float:
        """Seconds from the start of a window to its end."""
        return self._numbers[1] / 1e6

    def _description(self) -> str:
        return f"{self.limit}-per-{duration_label(self._numbers[1])}"

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        return (self.limit,), {"per": self.per} | ({} if self.start == "first" else {"start": self.start})
