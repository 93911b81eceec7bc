"""How events look: as a text, in a notebook, as a table of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlimit._display.html import html_table
from overlimit._messages.texts import printable
from overlimit.simulation.events.column import Column
from overlimit.simulation.events.instants import span_of
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation.events.events import Events

_BUSIEST = 3
_HEAD = ("identifiers", "distinct", "busiest (events)")


def events_frame(events: Events) -> pd.DataFrame:
    """Return events as a table of pandas; raise ImportError without it."""
    pandas = required("pandas", "Events.to_pandas")
    columns = {"time": pandas.DatetimeIndex(events.times.view("datetime64[us]")).tz_localize("UTC")}
    for column in events._columns:
        columns[column.title] = pandas.Categorical.from_codes(column.codes, label_index(column.labels))
    columns["cost"] = events.costs
    if events._labels is not None:
        columns["label"] = pandas.Categorical.from_codes(
            events._labels.codes, label_index(events._labels.labels)
        )
    frame: pd.DataFrame = pandas.DataFrame(columns)
    return frame


def label_index(labels: npt.NDArray[Any], name: str | None = None) -> pd.Index[Any]:
    """Return labels as an index: of objects if UTF-8 cannot write one of them, which pandas would refuse."""
    pandas = required("pandas", "a table of labels")
    try:
        index: pd.Index[Any] = pandas.Index(labels, name=name)
    except UnicodeEncodeError:
        index = pandas.Index(labels, name=name, dtype=object)
    return index


def events_text(events: Events) -> str:
    """Return how many events there are, when, and by how many identifiers, in a line."""
    distinct = [f"{each.title}: {np.count_nonzero(each.counts()):,} distinct" for each in events._columns]
    return f"Events({'; '.join(_count_and_span(events) + distinct + _left_out(events))})"


def events_html(events: Events) -> str:
    """Return the same with the busiest identifiers of each column, in the colours of the notebook."""
    text = "; ".join(_count_and_span(events) + _left_out(events))
    return html_table("Events", text, _HEAD, map(_row, events._columns), left=(0, 2))


def _row(column: Column) -> tuple[str, int, str]:
    counts = column.counts()
    # Only those that are busiest are sorted, among so many identifiers.
    most = np.argpartition(-counts, min(_BUSIEST, len(counts) - 1))[:_BUSIEST] if len(counts) else counts
    ordered = sorted((k for k in most.tolist() if counts[k]), key=lambda k: (-counts[k], k))
    busiest = ", ".join(f"{printable(column.labels[k])} ({counts[k]:,})" for k in ordered)
    return column.title, int(np.count_nonzero(counts)), busiest


def _count_and_span(events: Events) -> list[str]:
    count = f"{len(events):,} event{'s' * (len(events) != 1)}"
    if not len(events):
        return [count]
    first, last = span_of(events.times)
    return [count, f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"]


def _left_out(events: Events) -> list[str]:
    skipped = [f"{events.skipped:,} skipped"] if events.skipped else []
    bad = events.bad_lines.count
    return skipped + ([f"{bad:,} bad line{'s' * (bad != 1)}"] if bad else [])
