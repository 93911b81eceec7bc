"""Backtesting a suggestion: fitted on what was before, and tried on each period."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import percent
from overlimit.limits.calendars import zone_named
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.instants import span_of
from overlimit.simulation.events.labels import Label
from overlimit.simulation.policies import PolicyLike
from overlimit.simulation.progress import progress_bar, unseen
from overlimit.simulation.questions.effects import Effects, Shown, Trial
from overlimit.simulation.questions.naming import making
from overlimit.simulation.questions.plotting import plot_backtest
from overlimit.simulation.questions.resampling import Of, counted
from overlimit.simulation.questions.suggesting import Asked, Candidates, Groups, fitted, question
from overlimit.simulation.tables import Every, period_bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Period(NamedTuple):
    """What came of a period: when it began (us), the value, the share it refused, and of how many."""

    start: int
    value: int | None
    share: float
    tried: int


class Backtest(Effects):
    """What would have come of taking, at the start of each period, what was suggested until then.

    ``backtest`` makes it.

    Attributes
    ----------
    refuse_at_most, of : float, str
        What was asked for: the share at most, of ``"identifiers"`` or ``"events"``.
    kept : int
        In how many periods no more than that was refused.
    """

    def __init__(self, events: Events, asked: Asked, periods: list[Period], timezone: str) -> None:
        super().__init__(events, {period.start: period for period in periods}, ("time",), ())
        self.refuse_at_most, self.of, self._timezone = asked.refuse_at_most, asked.of, timezone
        self.kept = sum(period.share <= self.refuse_at_most for period in periods)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per period, whose start in the time zone is the index ``time``.

        Its columns are ``value`` (missing if none sufficed before; the largest is tried then), the ``share``
        that it refuses in the period, and ``tried``: of how many identifiers, or events, that is a share.
        Raises ImportError without pandas.
        """
        return super().to_pandas().astype({"value": "Int64", "share": float, "tried": int})

    def plot(self, *, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the value of each period, and the share that it refused then beside what it may.

        Draws into ``ax``, or into a new figure, below a title if there is one, and returns the axes. Raises
        ImportError without matplotlib.
        """
        return plot_backtest(self.to_pandas(), self.refuse_at_most, self._timezone, title=title, ax=ax)

    def _keys(self, pandas: Any) -> pd.Index[Any]:
        starts = np.array(list(self.effects), "M8[us]")
        index: pd.Index[Any] = pandas.DatetimeIndex(starts, name="time", tz="UTC").tz_convert(self._timezone)
        return index

    def _columns(self) -> list[Shown]:
        texts: list[Callable[[Any], str]] = [str, partial(percent, bound=self.refuse_at_most), "{:,}".format]
        heads = ("value", "refused", f"of {self.of}")
        cells = zip(*self.effects.values(), strict=True) if self.effects else [()] * len(Period._fields)
        _, *columns = map(list, cells)
        return list(map(Shown, Period._fields[1:], heads, columns, texts))

    def _key_text(self, key: Any) -> str:
        return f"{span_of(np.array([key]), zone_named(self._timezone))[0]:%Y-%m-%d %H:%M}"

    def _asked(self) -> str:
        count = len(self.effects)
        most = percent(max((each.share for each in self.effects.values()), default=0.0), self.refuse_at_most)
        return (
            f"in {self.kept} of {count} period{'s' * (count != 1)} at most {100 * self.refuse_at_most:.6g}% "
            f"of the {self.of} would have been refused, at most {most} in any"
        )


def backtest(
    events: Events,
    make: str | Callable[[int], PolicyLike],
    between: tuple[int, int],
    refuse_at_most: float = 0.001,
    of: Of = "identifiers",
    *,
    among: Label | Iterable[Label] | npt.NDArray[np.bool_] = (),
    stop: Label | Iterable[Label] = (),
    spare: Label | Iterable[Label] = (),
    by: Every = "day",
    timezone: str = "UTC",
    progress: bool | None = None,
) -> Backtest:
    """Return how `suggest` would have done: for each period the answer of what was before it, tried on it.

    Each period begins fresh, as if nothing had been counted before. There is nothing before the first, which
    is left out, and so are those in which nobody of ``among`` sent anything.

    Parameters
    ----------
    events, make, between, refuse_at_most, of, among, stop, spare
        As for `suggest`. A share of identifiers grows with the length of the log, so in a day fewer are
        refused than in the weeks before it: what counts is whether the share stays below the bound.
    by
        How long a period is, as for ``Replay.by_time``: ``"hour"``, ``"day"``, ``"week"``, ``"month"``, a
        number of seconds or a timedelta.
    timezone
        The time zone of the calendar, by its IANA name.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError, ValueError
        As `suggest` does; there is no such period or time zone; or there are not two periods.
    """
    policy_of = making(make)
    asked, groups = question(events, between, refuse_at_most, of, among, stop, spare)
    bounds = np.searchsorted(events._times, starts := period_bounds(events._times, by, timezone))
    cuts = [*zip(starts[1:-1].tolist(), bounds[1:-1].tolist(), bounds[2:].tolist(), strict=True)]
    if not cuts:
        raise ValueError("all events are of one period, so there is none before it: choose a shorter by=")
    candidates = Candidates(Trial(events, unseen, groups.counted), policy_of)
    with progress_bar(len(cuts), shown=progress, unit="periods") as bar:
        periods: list[Period] = []
        for cut in cuts:
            periods += _tried(asked, groups, candidates, cut)
            bar(1)
    return Backtest(events, asked, periods, timezone)


def _tried(
    asked: Asked, groups: Groups, candidates: Candidates, cut: tuple[int, int, int]
) -> Iterator[Period]:
    """Yield what comes of the events of a period, if there are any, and any before it.

    A cut is when the period begins, and which of the events are its first and the first one after it.
    """
    start, first, last = cut
    before, within = slice(0, first), slice(first, last)
    past, present = (_trial(candidates.trial.events, groups, part) for part in (before, within))
    if past is None or present is None:
        return
    # What policies answer until then is the beginning of what they answer to all.
    found = fitted(asked, past, groups.part(before), lambda value: candidates.allowed(value)[before])
    value = asked.answer(found)
    policy = candidates.policy_of(asked.between[1] if value is None else value)
    share = present.shares(present.allowed(policy))[0 if asked.of == "events" else 1]
    yield Period(start, value, share, int(counted(present.sent, asked.of).sum()))


def _trial(events: Events, groups: Groups, which: slice) -> Trial | None:
    """Return a trial of some of the events; None if nobody whose share it is has sent any of them."""
    counted = groups.part(which).counted
    part = events._part(which)
    return Trial(part, unseen, counted) if len(part) and (counted is None or counted.any()) else None
