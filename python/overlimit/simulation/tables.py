"""What is measured on events in the order of their times, by numpy alone, and the tables of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.errors import InvalidLimit
from overlimit.limits.calendars import Calendar
from overlimit.limits.quantities import UNITS_US, Seconds, micros
from overlimit.simulation.events.identifiers import Codes, Column, label_index
from overlimit.simulation.events.labels import label_of_each, without_empty
from overlimit.simulation.optional import required
from overlimit.simulation.progress import interruptible

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.limits import Limit
    from overlimit.limits.penalty import Penalty
    from overlimit.simulation.events.events import Events

Unit: TypeAlias = Literal["hour", "day", "week", "month"]
Every: TypeAlias = Seconds | Unit
"""How long a period is: a number of seconds, a timedelta, or a unit of the calendar."""

Ints: TypeAlias = npt.NDArray[np.int64]

_HOUR_US, _DAY_US = UNITS_US["hour"], UNITS_US["day"]
_FOREVER_US = 2**62
_MOST_PERIODS = 10_000_000
_MONDAY = 0


def period_bounds(times: Ints, every: Every, timezone: str) -> Ints:
    """Return where the periods begin in which times are, which never fall, and where the last of them ends.

    Units are those of the zone's calendar. Seconds that divide a day are counted from local midnight, and the
    last period of a day ends with it, however long it is; other seconds are counted from the epoch. Raises
    InvalidLimit if there is no such period or time zone, or there would be too many periods.
    """
    width = checked_every(every)
    unit = every if isinstance(every, str) and every != "hour" else "day"
    calendar = Calendar(unit, timezone, _MONDAY)
    if not len(times):
        return np.empty(0, np.int64)
    first, last = int(times[0]), int(times[-1])
    if (last - first) // width > _MOST_PERIODS:
        raise InvalidLimit(
            f"every={every!r} is too short: from the first event to the last there would be "
            f"{(last - first) // width:,} periods, and at most {_MOST_PERIODS:,} can be shown"
        )
    stretches: Iterable[tuple[int, int]] = [(0, _FOREVER_US)]
    if every == "hour":
        stretches = _with_whole_hours(calendar, first, last)
    elif width == _FOREVER_US or _DAY_US % width == 0:
        stretches = _of_calendar(calendar, first, last)
    bounds: list[Ints] = []
    end = 0
    for start, end in stretches:
        begun = start + max(0, first - start) // width * width
        bounds.append(np.arange(begun, min(end, last + 1), width))
    return np.append(np.concatenate(bounds), min(end, int(bounds[-1][-1]) + width))


def checked_every(every: object) -> int:
    """Return after how many us a period ends, if the calendar's does not before; raise InvalidLimit."""
    if not isinstance(every, str):
        return micros(every, "every")
    if every in get_args(Unit):
        return _HOUR_US if every == "hour" else _FOREVER_US
    words = ", ".join(map(repr, get_args(Unit)))
    raise InvalidLimit(f"every must be a duration, in seconds or one of {words}, not {short_repr(every)}")


def _with_whole_hours(days: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield days of which every hour is whole; of others, on which clocks change by less, the hours."""
    hours = Calendar("hour", days.timezone, _MONDAY)
    for start, end in _of_calendar(days, first, last):
        if (end - start) % _HOUR_US == 0:
            yield start, end
        else:
            yield from _of_calendar(hours, max(start, first), min(end - 1, last))


def _of_calendar(calendar: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield where the calendar's periods begin and end, from that of one instant to that of another."""
    following = first
    while following <= last:
        start, end, following = calendar.periods(following)
        yield start, end
        if end <= last:
            yield end, following


Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def peak(times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost in any interval [t, t + period) of events in order; the busiest begins at one."""
    if len(times) == 0:
        return 0
    return _most_between(cost, np.searchsorted(times, times + period_us, side="left"))


def peak_of_any(codes: Codes, times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost of one identifier in any interval [t, t + period)."""
    if len(times) == 0:
        return 0
    order = np.argsort(codes, kind="stable")
    codes, times, cost = codes[order], times[order], cost[order]
    is_first = np.r_[True, codes[1:] != codes[:-1]]
    behind_last = np.r_[np.flatnonzero(is_first)[1:], len(codes)]
    return _most_between(cost, _ends(times, behind_last[np.cumsum(is_first) - 1], period_us))


def peak_of_columns(events: Events, which: Bools, period_us: int) -> int:
    """Return the most cost of one identifier, by whatever column, of some events in any such interval."""
    present = [(column.codes, which & (column.codes >= 0)) for column in events._columns]
    return max(
        peak_of_any(codes[has], events._times[has], events._costs[has], period_us) for codes, has in present
    )


def _ends(times: Ints, behind_last: Ints, period_us: int) -> Ints:
    """Return for each event the first that comes a period later, at most that behind its identifier's last.

    All are searched at once, each by halving what is left.
    """
    low, high = np.arange(len(times)), behind_last.copy()
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        # Where the search is over, both bounds stay what they are.
        inside = (middle < high) & (times[np.minimum(middle, len(times) - 1)] < times + period_us)
        low, high = np.where(inside, middle + 1, low), np.where(inside, high, middle)
    return low


def _most_between(cost: Ints, ends: Ints) -> int:
    """Return the most cost of the events from one to before its end."""
    total = float(cost.sum(dtype=np.float64))
    before = np.concatenate(([0], np.cumsum(cost, dtype=np.int64 if total < 2**62 else object)))
    return int((before[ends] - before[:-1]).max())


class LockOuts(NamedTuple):
    """The event that each lock-out begins with, and how many seconds it lasts: infinity for never."""

    first: Ints
    seconds: Floats


def lock_outs(codes: Codes, times: Ints, allowed: Bools, retry_after: Floats) -> LockOuts:
    """Return the lock-outs of all identifiers.

    There is a row for each event, in the order of the times; a negative code is that of none. A lock-out
    lasts from a refusal to the instant at which the limits would have let it pass, as the last refusal before
    that said, or to an admission before. Whether it came back at that instant does not matter.
    """
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    codes, times, refused = codes[order], times[order], ~allowed[order]
    passes = times + np.rint(retry_after[order] * 1e6)
    is_same = codes[1:] == codes[:-1]
    goes_on = np.r_[False, is_same & refused[1:] & refused[:-1] & (times[1:] < passes[:-1])][: len(codes)]
    starts = np.flatnonzero(refused & ~goes_on)
    lasts = np.flatnonzero(refused & ~np.r_[goes_on[1:], False][: len(codes)])
    following = np.minimum(lasts + 1, len(codes) - 1)
    # The next event of the same identifier is an admission, or a refusal once it could have passed.
    is_cut = (following > lasts) & (codes[following] == codes[lasts])
    ends = np.where(is_cut, np.minimum(passes[lasts], times[following]), passes[lasts])
    return LockOuts(order[starts], (ends - times[starts]) / 1e6)


class Answers:
    """What tables and figures show of a Replay, and its tables."""

    STATUSES: ClassVar[tuple[str, ...]] = ("ok", "over", "locked", "never")
    """What the codes of ``status`` stand for."""

    events: Events
    limits: tuple[Limit, ...]
    titles: list[str]
    """What each of the limits is called."""
    penalty: Penalty | None
    allowed: Bools
    limit: npt.NDArray[np.int16]
    retry_after: Floats
    _columns: dict[str, npt.NDArray[Any]]

    def by_limit(self) -> pd.DataFrame:
        """Return what each limit refused, in a table with a row per limit, which limits of routes name.

        Its columns are ``refused`` (events whose refusal this limit binds, those of a lock included),
        ``identifiers`` (how many were so refused) and ``longest_retry_after`` (seconds; NaN for none).
        Raises ImportError without pandas, AttributeError if ``limit`` or ``retry_after`` was not computed.
        """
        pandas = required("pandas", "Replay.by_limit")
        refused = np.flatnonzero(~self.allowed)
        which, count = self.limit[refused], len(self.titles)
        codes = self.events._as_given(self.events._codes_of()[0])[refused]
        pairs = np.unique(np.stack([which, codes]), axis=1)[0]
        longest = np.full(count, np.nan)
        np.fmax.at(longest, which, self.retry_after[refused])
        columns = {
            "refused": np.bincount(which, minlength=count),
            "identifiers": np.bincount(pairs, minlength=count),
            "longest_retry_after": longest,
        }
        table: pd.DataFrame = pandas.DataFrame(columns, index=pandas.Index(self.titles, name="limit"))
        return table

    def by_identifier(self, column: str | None = None, top: int | None = 20) -> pd.DataFrame:
        """Return the identifiers that were refused most, in a table with a row each.

        Parameters
        ----------
        column
            Which column of identifiers; by default the first that an event has.
        top
            How many at most; None: all.

        Returns
        -------
        pandas.DataFrame
            ``sent``, ``passed``, ``refused`` (events) and ``longest_lock_out`` (seconds from a refusal to the
            instant at which the limits, and locks, would have let it pass again; infinity for never),
            ``refused_cost``, and when it was ``first_refused`` and ``last_refused`` (UTC; NaT if never), by
            ``refused``, then ``sent``, falling; and where events have labels the ``label`` that most of its
            events have, ``""`` for none. Replays the events once more without ``retry_after``.

        Raises
        ------
        ValueError
            There is no such column.
        ImportError
            pandas is missing.
        """
        required("pandas", "Replay.by_identifier")
        _check_top(top)
        codes, names = self.events._codes_of(column)
        frame = self._counted(codes, codes, len(names)).set_axis(label_index(names, "identifier"))
        labels = labels_of_events(self.events)
        if labels is not None:
            frame["label"] = label_index(interruptible(label_of_each, codes, len(names), labels))
        return _worst_first(frame, top)

    def by_label(self) -> pd.DataFrame:
        """Return what became of the events of each label, in a table with a row each.

        Its columns are those of `by_identifier` without ``label``: ``longest_lock_out`` is that of any
        identifier from an event of this label on. The row ``""`` has the events without a label, if any.
        Raises ValueError if the events have no labels (``events.with_labels``), ImportError without pandas.
        """
        required("pandas", "Replay.by_label")
        labels = labels_of_events(self.events)
        if labels is None:
            raise ValueError("these events have no labels: events.with_labels(...) returns events that do")
        codes, _ = self.events._codes_of()
        names = np.append(labels.labels, [""])
        groups = np.where(labels.codes < 0, np.int32(len(labels.labels)), labels.codes)
        frame = self._counted(codes, groups, len(names)).set_axis(label_index(names, "label"))
        return _worst_first(frame, None)

    def by_time(self, every: Every = 60, timezone: str = "UTC") -> pd.DataFrame:
        """Return what was ``sent``, ``passed`` and ``refused`` in each period, those without events too.

        Parameters
        ----------
        every
            How long a period is: a number of seconds, a timedelta, or ``"hour"``, ``"day"``, ``"week"`` or
            ``"month"``: those of the calendar, whose days have 23 or 25 hours when clocks change. Seconds
            that divide a day count from local midnight, others from the epoch.
        timezone
            The time zone of the calendar, by its IANA name; the index are the starts of the periods in it.

        Raises
        ------
        InvalidLimit
            There is no such period or time zone.
        ImportError
            pandas is missing.
        """
        pandas = required("pandas", "Replay.by_time")
        bounds, sent, passed = in_periods(self, every, timezone)
        index = pandas.DatetimeIndex(bounds[:-1].view("datetime64[us]"), name="time").tz_localize("UTC")
        columns = {"sent": sent, "passed": passed, "refused": sent - passed}
        table: pd.DataFrame = pandas.DataFrame(columns, index=index.tz_convert(timezone))
        return table

    def to_pandas(self) -> pd.DataFrame:
        """Return the events with the answers beside them.

        ``status`` and ``limit`` are texts, and the identifier that binds is ``binding_identifier``. Raises
        ImportError without pandas.
        """
        pandas = required("pandas", "Replay.to_pandas")
        events = self.events
        frame: pd.DataFrame = events.to_pandas()
        columns: dict[str, Any] = dict(self._columns)
        if "status" in columns:
            columns["status"] = pandas.Categorical.from_codes(columns["status"], self.STATUSES)
        if "limit" in columns:
            limits = [f"{k}: {title}" for k, title in enumerate(self.titles)]
            columns["limit"] = pandas.Categorical.from_codes(columns["limit"], limits)
        if "identifier" in columns:
            columns_given = [events._as_given(column.values()) for column in events._columns]
            every = np.stack([*columns_given, np.full(len(frame), None)])  # the last where none of them binds
            columns["binding_identifier"] = label_index(
                every[columns.pop("identifier"), np.arange(len(frame))]
            )
        return frame.assign(**columns)

    def _counted(self, codes: Codes, groups: Codes, count: int) -> pd.DataFrame:
        """Return what each of so many groups of events sent; ``codes`` tell whose lock-outs there are."""
        pandas = required("pandas", "a table of a replay")
        allowed = passed_in_time(self)
        sent, passed = (
            np.bincount(groups[which], minlength=count) for which in (codes >= 0, (codes >= 0) & allowed)
        )
        refused = (codes >= 0) & ~allowed
        times, whose = self.events._times[refused], groups[refused]
        costs, longest = np.zeros(count, np.int64), np.zeros(count)
        first, last = np.full(count, _FOREVER_US), np.full(count, -1)
        np.add.at(costs, whose, self.events._costs[refused])
        np.minimum.at(first, whose, times)
        np.maximum.at(last, whose, times)
        retry_after = self.events._in_time(self._retry_after())
        locked = interruptible(lock_outs, codes, self.events._times, allowed, retry_after)
        np.maximum.at(longest, groups[locked.first], locked.seconds)
        columns = {"sent": sent, "passed": passed, "refused": sent - passed, "longest_lock_out": longest}
        columns |= {"refused_cost": costs}
        for name, each in (("first_refused", first), ("last_refused", last)):
            at = np.where(last < 0, np.datetime64("NaT", "us"), each.view("M8[us]"))
            columns[name] = pandas.DatetimeIndex(at).tz_localize("UTC")
        frame: pd.DataFrame = pandas.DataFrame(columns)
        return frame

    def _retry_after(self) -> Floats:
        """Return the column ``retry_after``."""
        raise NotImplementedError


Tally = tuple[int, int, int, int, float]


def passed_in_time(replay: Answers) -> npt.NDArray[np.bool_]:
    """Return whether each event passed, in the order of times."""
    return replay.events._in_time(replay.allowed)


def summary(replay: Answers, tallies: list[Tally]) -> pd.DataFrame:
    """Return one row per limit, and one for locks where there is a penalty."""
    pandas = required("pandas", "Replay.summary")
    names = [*map(str, replay.limits)] + (["lock"] if replay.penalty is not None else [])
    rows = [
        (refused, alone, _least_left(least_left, most), longest if refused else np.nan)
        for refused, alone, least_left, most, longest in tallies[: len(names)]
    ]
    columns = ["refused", "refused_alone", "least_left", "longest_retry_after"]
    table: pd.DataFrame = pandas.DataFrame(rows, index=pandas.Index(names, name="limit"), columns=columns)
    return table


def _least_left(least_left: int, most: int) -> float:
    return min(1.0, least_left / most) if most else np.nan


def labels_of_events(events: Events) -> Column | None:
    """Return the labels by which events are told apart; None without any."""
    return None if events._labels is None else without_empty(events._labels)


def _check_top(top: object) -> None:
    """Raise TypeError or ValueError for what is no number of rows."""
    count = 0 if top is None else whole_number(top)
    if count is None:
        raise TypeError(f"top must be a whole number, such as 20, or None for all, not {short_repr(top)}")
    if count < 0:
        raise ValueError(f"top must be a whole number from 0, or None for all, not {short_repr(top)}")


def _worst_first(frame: pd.DataFrame, top: int | None) -> pd.DataFrame:
    """Return at most so many of those that sent anything, by what was refused, then by what was sent."""
    frame = frame[frame["sent"] > 0].sort_values(["refused", "sent"], ascending=False, kind="stable")
    return frame if top is None else frame.head(top)


def by_every_identifier(replay: Answers, top: int | None) -> pd.DataFrame:
    """Return the same for the identifiers of all columns: an event counts for each that it has."""
    pandas = required("pandas", "by_every_identifier")
    tables = [replay.by_identifier(column.name, top) for column in replay.events._columns]
    labels = np.concatenate([table.index.to_numpy(object) for table in tables])
    rows = pandas.concat([table.reset_index(drop=True) for table in tables])
    frame: pd.DataFrame = rows.set_axis(label_index(labels, "identifier"))
    return frame.sort_values(["refused", "sent"], ascending=False, kind="stable").head(top or len(frame))


def most_refused(replay: Answers, top: int = 5) -> list[tuple[str | bytes, int, int, int]]:
    """Return the identifiers that were refused most: each with what it sent, what passed and what did not."""
    _check_top(top)
    codes, labels = replay.events._codes_of()
    refused = np.bincount(codes[~passed_in_time(replay)], minlength=len(labels))
    sent = np.bincount(codes, minlength=len(labels))
    ordered = np.lexsort((-sent, -refused))[:top]
    return [
        (labels[k], int(sent[k]), int(sent[k] - refused[k]), int(refused[k])) for k in ordered if refused[k]
    ]


def in_periods(replay: Answers, every: Every, timezone: str) -> tuple[Ints, Ints, Ints]:
    """Return where periods begin and the last one ends, how many events each has, and how many passed."""
    times = replay.events._times
    bounds = period_bounds(times, every, timezone)
    passed = times[passed_in_time(replay)]
    return bounds, counts_between(bounds, times), counts_between(bounds, passed)


def counts_between(bounds: Ints, times: Ints) -> Ints:
    """Return how many of times, which never fall, are between each two bounds."""
    return np.diff(np.searchsorted(times, bounds))


def refused_of_labels(replay: Answers) -> dict[str | bytes, Ints]:
    """Return when events of each label were refused, ``""`` for those without; empty without labels."""
    labels = labels_of_events(replay.events)
    if labels is None:
        return {}
    refused = np.flatnonzero(~passed_in_time(replay))
    refused = refused[np.argsort(labels.codes[refused], kind="stable")]
    numbers = np.flatnonzero(np.append(labels.counts(), np.any(labels.codes < 0)))
    names = np.append(labels.labels, [""])[numbers].tolist()
    times, codes = replay.events._times[refused], labels.codes[refused]
    first_labelled = int(np.searchsorted(codes, 0))
    parts = np.split(times[first_labelled:], np.searchsorted(codes[first_labelled:], numbers[1:]))
    found = dict(zip(names, parts, strict=True))
    return found if "" not in found else found | {"": times[:first_labelled]}
