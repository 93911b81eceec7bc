"""The base class of limits that admit so many per period; their numbers begin with these two."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from overlimit.limits.limit import Limit, Terms
from overlimit.limits.quantities import Seconds, duration_label, duration_words, portion

_Self = TypeVar("_Self", bound="LimitPerPeriod")


class LimitPerPeriod(Limit):
    """At most, or about, ``limit`` per ``per`` seconds; what that means is the algorithm's."""

    __slots__ = ()

    @abstractmethod
    def __init__(self, limit: int, per: Seconds) -> None:
        """Build the limit from its numbers."""

    @classmethod
    def from_terms(cls: type[_Self], terms: Terms) -> _Self:
        """Build the limit that a string or a tuple describes."""
        return cls(terms.limit, terms.per)

    @property
    def limit(self) -> int:
        """The most that is admitted per period, as the class says, in cost units."""
        return self._numbers[0]

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    def _description(self) -> str:
        return f"{self.limit}-per-{duration_label(self._period_us)}"

    def _phrase(self) -> str:
        return f"{self.limit} per {duration_words(self._period_us)}"

    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        return {"limit": portion(self.limit, share)}

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        return (self.limit,), {"per": self.per}
