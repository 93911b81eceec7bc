"""Effects of policies beside each other: as a table of pandas, as a text, and in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from overlimit._display.html import html_table
from overlimit._messages.texts import percent, printable
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.questions.effects import Effect, labels_of

if TYPE_CHECKING:
    import pandas as pd

_HEAD = ("refused events", "refused identifiers", "peak in 1 s", "peak in 60 s", "worst hit")


class Effects:
    """What several policies did to the same events: a row for each."""

    _index: ClassVar[str]
    _nouns: ClassVar[tuple[str, str]]

    def __init__(self, events: Events, effects: Mapping[Any, Effect]) -> None:
        self.events = events
        self.effects = dict(effects)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each.

        Its columns are those of an `Effect`, and ``refused_events[label]`` for each label of the events.
        Raises ImportError without pandas.
        """
        pandas = required("pandas", f"{type(self).__name__}.to_pandas")
        columns = [name for name in Effect._fields if name != "refused_by_label"]
        labels = labels_of(self.effects)
        rows = [
            [*effect[: len(columns)], *(effect.refused_by_label[label] for label in labels)]
            for effect in self.effects.values()
        ]
        names = columns + [f"refused_events[{printable(label)}]" for label in labels]
        # An index of tuples would become one of several levels.
        keys = pandas.Index(list(self.effects), name=self._index, tupleize_cols=False)
        frame: pd.DataFrame = pandas.DataFrame(rows, index=keys, columns=names)
        return frame

    def __repr__(self) -> str:
        return _table_text(f"{self._asked()}:", *_figures(self.effects, self._index))

    def _repr_html_(self) -> str:
        head, rows = _figures(self.effects, self._index)
        return html_table(type(self).__name__, self._asked(), head, rows, left=(0, len(head) - 1))

    def _asked(self) -> str:
        count = len(self.effects)
        return f"{count} {self._nouns[count > 1]}, asked about {len(self.events):,} events"


def _figures(effects: Mapping[Any, Effect], index: str) -> tuple[list[str], list[list[str]]]:
    """Return a head and a row of texts per policy."""
    labels = labels_of(effects)
    head = [index, *_HEAD[:-1], *(f"refused: {printable(label)}" for label in labels), _HEAD[-1]]
    rows = [
        [
            str(key),
            percent(effect.refused_events),
            percent(effect.refused_identifiers),
            f"{effect.peak_1s:,}",
            f"{effect.peak_60s:,}",
            *(percent(effect.refused_by_label[label]) for label in labels),
            ", ".join(map(printable, effect.worst_hit)) or "-",
        ]
        for key, effect in effects.items()
    ]
    return head, rows


def _table_text(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of columns: the first and the last to the left, numbers between them to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = [title]
    for row in [head, *rows]:
        first, *numbers, last = row
        middle = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *middle, last]).rstrip())
    return "\n".join(lines)
