"""How far a cheaper rule is from the exact one: how often they differ, and how far it overshoots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overlimit._display import html_table
from overlimit._messages.texts import percent
from overlimit.errors import InvalidLimit
from overlimit.limiter import Limiter
from overlimit.limits import FixedWindow, SlidingLog, SlidingWindow, SlidingWindowCounter
from overlimit.limits.quantities import micros
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.policies import PolicyLike, limiter_of
from overlimit.simulation.progress import interruptible, progress_bar
from overlimit.simulation.questions.effects import Bools
from overlimit.simulation.replaying import allowed_in_time, check_question
from overlimit.simulation.tables import peak_of_columns

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.limits import Limit

_COUNTING = (FixedWindow, SlidingWindow, SlidingLog, SlidingWindowCounter)


@dataclass(eq=False, repr=False)
class Error:
    """How often a policy says otherwise than the exact one; ``error_of`` makes it.

    Attributes
    ----------
    events : Events
        What both were asked about.
    limits, reference : tuple of Limit
        The limits in question, and the exact ones.
    wrongly_passed, wrongly_refused : int
        How many events only the exact limits refuse, and how many only those in question. Each is asked about
        all events by itself, so that what one let pass counts for it alone.
    worst_overshoot : int or None
        The most cost of one identifier that the limits in question let pass in any period of an exact limit,
        minus that limit: by how much the promise "at most so much in any period" is broken; 0 if it is kept,
        None if no limit of the reference promises that.
    """

    events: Events
    limits: tuple[Limit, ...]
    reference: tuple[Limit, ...]
    wrongly_passed: int
    wrongly_refused: int
    worst_overshoot: int | None

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with one row: ``wrongly_passed``, ``wrongly_refused``, ``worst_overshoot``.

        Its index, ``limits``, are the limits in question. Raises ImportError without pandas.
        """
        pandas = required("pandas", "Error.to_pandas")
        figures = {name: [getattr(self, name)] for name in _FIGURES}
        index = pandas.Index([_listed(self.limits)], name="limits")
        frame: pd.DataFrame = pandas.DataFrame(figures, index=index)
        return frame

    def __repr__(self) -> str:
        wrong = [f"{wrong:,} {what} ({share})" for what, wrong, share in self._wrong()]
        over = f"; {self._overshoot()}" if self._overshoot() else ""
        return f"<Error of {self._against()}: of {len(self.events):,} events {', '.join(wrong)}{over}>"

    def _repr_html_(self) -> str:
        over = [f"of {len(self.events):,} events", *filter(None, [self._overshoot()])]
        asked = "; ".join([self._against(), *over])
        return html_table("Error", asked, ("", "events", "share"), self._wrong())

    def _against(self) -> str:
        return f"{_listed(self.limits)} against {_listed(self.reference)}"

    def _wrong(self) -> list[tuple[str, int, str]]:
        """Return what was otherwise: how, how often, and of which share of the events."""
        is_log = all(isinstance(limit, SlidingLog) for limit in self.reference)
        other = "the exact log" if is_log else "the reference"
        # Where every period keeps the promise, nothing has passed wrongly.
        passed = f"passed where {other} refuses" if self.worst_overshoot == 0 else "wrongly passed"
        counts = {passed: self.wrongly_passed, "wrongly refused": self.wrongly_refused}
        return [(how, count, percent(count / len(self.events))) for how, count in counts.items()]

    def _overshoot(self) -> str:
        if self.worst_overshoot is None:
            return ""
        over = self.worst_overshoot
        return f"worst overshoot {over:,}" if over else "no period held too many"


_FIGURES = ("wrongly_passed", "wrongly_refused", "worst_overshoot")


def error_of(
    events: Events, limits: PolicyLike, reference: PolicyLike | None = None, *, progress: bool | None = None
) -> Error:
    """Return how often limits say otherwise than exact ones of the same numbers, and how far they overshoot.

    Parameters
    ----------
    events
        What happened.
    limits
        The limits in question, such as ``SlidingWindowCounter(100, 60)`` or a coarse precision: as
        ``Limiter`` takes them, a Limiter, or ``(limits, penalty)``.
    reference
        What is right. By default a ``SlidingLog`` of the same limit and period for each limit, with the same
        penalty.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        There are no events, or one is too large for a call; or a limit has no exact log of its numbers (a
        bucket, a calendar period, more than 10,000) and there is no reference.
    """
    check_question(events)
    limiter = limiter_of(limits)
    exact = _exact(limiter) if reference is None else limiter_of(reference)
    with progress_bar(2 * len(events), shown=progress) as bar:
        passed = allowed_in_time(events, limiter, bar)
        right = allowed_in_time(events, exact, bar)
    wrong = interruptible(_differences, passed, right)
    over = interruptible(_worst_overshoot, events, passed, exact.limits)
    return Error(events, limiter.limits, exact.limits, *wrong, over)


def _listed(limits: Sequence[Limit]) -> str:
    return "; ".join(map(repr, limits))


def _exact(limiter: Limiter) -> Limiter:
    return Limiter([_exact_log(limit) for limit in limiter.limits], penalty=limiter.penalty)


def _exact_log(limit: Limit) -> SlidingLog:
    hint = "write reference=, such as reference=SlidingLog(100, 60)"
    if not _counts_in_a_period(limit):
        raise ValueError(f"there is no exact log of the numbers of {limit!r}: {hint}")
    try:
        return SlidingLog(limit.limit, limit.per)  # type: ignore[attr-defined]
    except InvalidLimit as error:
        raise ValueError(f"there is no exact log of the numbers of {limit!r}, {error}: {hint}") from None


def _counts_in_a_period(limit: Limit) -> bool:
    return isinstance(limit, _COUNTING) and not isinstance(limit.per, str)


def _differences(passed: Bools, right: Bools) -> tuple[int, int]:
    both = int(np.count_nonzero(passed & right))
    return int(np.count_nonzero(passed)) - both, int(np.count_nonzero(right)) - both


def _worst_overshoot(events: Events, passed: Bools, exact: Sequence[Limit]) -> int | None:
    """Return by how much an identifier got more than any exact limit grants in its period."""
    worst = None
    for limit in filter(_counts_in_a_period, exact):
        most = peak_of_columns(events, passed, micros(limit.per, "per"))
        worst = max(worst or 0, most - limit.limit)  # type: ignore[attr-defined]
    return worst
