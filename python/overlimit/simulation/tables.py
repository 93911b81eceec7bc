"""The tables of a replay: pandas DataFrames with one row per limit, identifier or time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlimit.simulation.events.identifiers import label_index
from overlimit.simulation.measures import lock_outs
from overlimit.simulation.optional import required
from overlimit.simulation.periods import Every, period_bounds

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation.events.events import Events
    from overlimit.simulation.replaying import Replay

Ints = npt.NDArray[np.int64]
Tally = tuple[int, int, int, int, float]


def places_of(events: Events) -> npt.NDArray[np.int64]:
    """Return which row each event, in the order of times, has among all in the order given."""
    places = np.empty(len(events), np.int64)
    places[np.argsort(events.order, kind="stable")] = np.arange(len(events))
    return places


def allowed_in_order(replay: Replay) -> npt.NDArray[np.bool_]:
    """Return whether each event passed, in the order of times."""
    return _in_order(replay, replay.allowed)


def _in_order(replay: Replay, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column of answers in the order of times."""
    return answers if replay.events._order is None else answers[places_of(replay.events)]


def frame_of(replay: Replay, answers: dict[str, npt.NDArray[Any]]) -> pd.DataFrame:
    """Return the events in the order given, with the answers beside them."""
    pandas = required("pandas", "Replay.to_pandas")
    in_order_given = np.argsort(places_of(replay.events))
    frame: pd.DataFrame = replay.events.to_pandas().iloc[in_order_given].reset_index(drop=True)
    columns: dict[str, Any] = dict(answers)
    if "status" in columns:
        columns["status"] = pandas.Categorical.from_codes(columns["status"], replay.STATUSES)
    if "limit" in columns:
        limits = [f"{k}: {limit}" for k, limit in enumerate(replay.limits)]
        columns["limit"] = pandas.Categorical.from_codes(columns["limit"], limits)
    if "identifier" in columns:
        every = np.stack([column.values() for column in replay.events._columns])[:, in_order_given]
        columns["binding_identifier"] = label_index(every[columns.pop("identifier"), np.arange(len(frame))])
    return frame.assign(**columns)


def summary(replay: Replay, tallies: list[Tally]) -> pd.DataFrame:
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


def by_identifier(replay: Replay, column: str | None, top: int | None) -> pd.DataFrame:
    """Return the identifiers that were refused most: sent, passed, refused, longest lock-out in seconds."""
    pandas = required("pandas", "Replay.by_identifier")
    codes, labels = codes_of(replay.events, column)
    present = codes >= 0
    codes, times = codes[present], replay.events.times[present]
    allowed = _in_order(replay, replay.allowed)[present]
    retry_after = _in_order(replay, replay._retry_after())[present]
    sent = np.bincount(codes, minlength=len(labels))
    passed = np.bincount(codes[allowed], minlength=len(labels))
    frame: pd.DataFrame = pandas.DataFrame(
        {
            "sent": sent,
            "passed": passed,
            "refused": sent - passed,
            "longest_lock_out": lock_outs(codes, times, allowed, retry_after, len(labels)),
        },
        index=label_index(labels, "identifier"),
    )
    frame = frame[frame["sent"] > 0].sort_values(["refused", "sent"], ascending=False, kind="stable")
    return frame if top is None else frame.head(top)


def by_every_identifier(replay: Replay, top: int | None) -> pd.DataFrame:
    """Return the same for the identifiers of all columns: an event counts for each that it has."""
    pandas = required("pandas", "by_every_identifier")
    tables = [by_identifier(replay, column.name, top) for column in replay.events._columns]
    labels = np.concatenate([table.index.to_numpy(object) for table in tables])
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0].columns}
    frame: pd.DataFrame = pandas.DataFrame(columns, index=label_index(labels, "identifier"))
    return frame.sort_values(["refused", "sent"], ascending=False, kind="stable").head(top or len(frame))


def most_refused(replay: Replay, top: int = 5) -> list[tuple[str | bytes, int, int, int]]:
    """Return the identifiers that were refused most: each with what it sent, what passed and what did not."""
    codes, labels = codes_of(replay.events, None)
    refused = np.bincount(codes[~allowed_in_order(replay)], minlength=len(labels))
    sent = np.bincount(codes, minlength=len(labels))
    ordered = np.lexsort((-sent, -refused))[:top]
    return [
        (labels[k], int(sent[k]), int(sent[k] - refused[k]), int(refused[k])) for k in ordered if refused[k]
    ]


def codes_of(events: Events, column: str | None) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Return each event's place in an array of identifiers, by a column or the first that it has."""
    if column is not None:
        found = events._column(column)
        return found.codes, found.labels
    codes = np.full(len(events), -1, np.int32)
    labels: list[npt.NDArray[Any]] = []
    for each in events._columns:
        fresh = (codes < 0) & (each.codes >= 0)
        codes[fresh] = each.codes[fresh] + sum(map(len, labels))
        labels.append(each.labels)
    return codes, np.concatenate(labels)


def by_time(replay: Replay, every: Every, timezone: str) -> pd.DataFrame:
    """Return what was sent, passed and refused in each period, empty ones included."""
    pandas = required("pandas", "Replay.by_time")
    bounds, sent, passed = in_periods(replay, every, timezone)
    index = pandas.DatetimeIndex(bounds[:-1].view("datetime64[us]"), name="time").tz_localize("UTC")
    columns = {"sent": sent, "passed": passed, "refused": sent - passed}
    table: pd.DataFrame = pandas.DataFrame(columns, index=index.tz_convert(timezone))
    return table


def in_periods(replay: Replay, every: Every, timezone: str) -> tuple[Ints, Ints, Ints]:
    """Return where periods begin and the last one ends, how many events each has, and how many passed."""
    times = replay.events.times
    bounds = period_bounds(times, every, timezone)
    sent, passed = (
        np.diff(np.searchsorted(some, bounds)) for some in (times, times[allowed_in_order(replay)])
    )
    return bounds, sent, passed
