"""What policies would have done to the same events, in figures that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.texts import percent, printable
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.progress import Advance, interruptible, unseen
from overlimit.simulation.replaying import PolicyLike, allowed_in_time, check_question, limiter_of
from overlimit.simulation.tables import codes_of, labels_of_events, peak

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.limiter import Limiter

Bools: TypeAlias = npt.NDArray[np.bool_]

_WORST = 3


class Effect(NamedTuple):
    """What a policy did.

    Parameters
    ----------
    refused_events
        The share of events that it refused, from 0 to 1.
    refused_identifiers
        The share of identifiers of which it refused an event at least. An event counts for the first
        identifier that it has.
    worst_hit
        The identifiers that it refused most often, at most three, the worst hit first.
    peak_1s, peak_60s
        The most cost that passed in any second and in any 60 seconds, of all identifiers together.
    refused_by_label
        The share of refused events of each label; empty for events without labels.
    """

    refused_events: float
    refused_identifiers: float
    worst_hit: tuple[str | bytes, ...]
    peak_1s: int
    peak_60s: int
    refused_by_label: dict[str | bytes, float]


def labels_of(effects: Mapping[Any, Effect]) -> list[str | bytes]:
    """Return the labels of the events that these policies were asked about."""
    return [label for effect in list(effects.values())[:1] for label in effect.refused_by_label]


class Trial:
    """Asks policies, one after the other, about the same events; ``among`` are those that shares are of."""

    def __init__(self, events: Events, advance: Advance = unseen, among: Bools | None = None) -> None:
        check_question(events)
        self.events = events
        self._among = np.ones(len(events), bool) if among is None else among
        self._advance = advance
        self._codes, self._names = interruptible(codes_of, events, None)
        self._sent = interruptible(np.bincount, self._codes[self._among], minlength=len(self._names))
        self._identifiers = int(np.count_nonzero(self._sent))

    def allowed(self, policy: PolicyLike | Limiter) -> Bools:
        """Return which events a policy lets pass, in the order of times."""
        return allowed_in_time(self.events, limiter_of(policy), self._advance)

    def effect(self, allowed: Bools) -> Effect:
        """Return what it means that these events pass."""
        return interruptible(self._effect, allowed)

    def shares(self, allowed: Bools) -> tuple[float, float]:
        """Return the share of events, and that of identifiers, that are refused when these events pass."""
        refused = interruptible(self._refused_of_each, allowed)
        return self._share_of_events(refused), self._share_of_identifiers(refused)

    def _effect(self, allowed: Bools) -> Effect:
        refused = self._refused_of_each(allowed)
        times, costs = self.events._times[allowed], self.events._costs[allowed]
        return Effect(
            self._share_of_events(refused),
            self._share_of_identifiers(refused),
            self._worst_hit(refused),
            peak(times, costs, 1_000_000),
            peak(times, costs, 60_000_000),
            self._refused_by_label(allowed),
        )

    def _refused_of_each(self, allowed: Bools) -> npt.NDArray[np.int64]:
        return np.bincount(self._codes[self._among & ~allowed], minlength=len(self._names))

    def _share_of_events(self, refused: npt.NDArray[np.int64]) -> float:
        return _share(int(refused.sum()), int(self._sent.sum()))

    def _share_of_identifiers(self, refused: npt.NDArray[np.int64]) -> float:
        return _share(int(np.count_nonzero(refused)), self._identifiers)

    def _worst_hit(self, refused: npt.NDArray[np.int64]) -> tuple[str | bytes, ...]:
        """Return those that were refused most often, of equal ones those that sent most."""
        hit = np.flatnonzero(refused)
        if len(hit) > _WORST:
            hit = hit[refused[hit] >= np.partition(refused[hit], -_WORST)[-_WORST]]
        worst = hit[np.lexsort((hit, -self._sent[hit], -refused[hit]))][:_WORST]
        return tuple(self._names[worst].tolist())

    def _refused_by_label(self, allowed: Bools) -> dict[str | bytes, float]:
        column = labels_of_events(self.events)
        if column is None:
            return {}
        labelled = column.codes >= 0
        sent = np.bincount(column.codes[labelled], minlength=len(column.labels))
        refused = np.bincount(column.codes[labelled & ~allowed], minlength=len(column.labels))
        return {
            label: _share(int(refused[k]), int(sent[k])) for k, label in enumerate(column.labels) if sent[k]
        }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_HEAD = ("refused events", "refused identifiers", "peak in 1 s", "peak in 60 s", "worst hit")


class Effects:
    """What several policies did to the same events: a row for each."""

    _nouns: ClassVar[tuple[str, str]]

    def __init__(self, events: Events, effects: Mapping[Any, Effect], names: Sequence[str]) -> None:
        self.events = events
        self.effects = dict(effects)
        self.names = tuple(names)

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
        frame: pd.DataFrame = pandas.DataFrame(rows, index=self._keys(pandas), columns=names)
        return frame

    def _keys(self, pandas: Any) -> pd.Index[Any]:
        keys = list(self.effects)
        if len(self.names) > 1:
            several: pd.Index[Any] = pandas.MultiIndex.from_tuples(keys, names=self.names)
            return several
        # Without this an index of tuples would become one of several levels.
        one: pd.Index[Any] = pandas.Index(keys, name=self.names[0], tupleize_cols=False)
        return one

    def __repr__(self) -> str:
        return _table_text(f"{self._asked()}:", *_figures(self.effects, self.names))

    def _repr_html_(self) -> str:
        head, rows = _figures(self.effects, self.names)
        return html_table(type(self).__name__, self._asked(), head, rows, left=(0, len(head) - 1))

    def _asked(self) -> str:
        count = len(self.effects)
        return f"{count} {self._nouns[count > 1]}, asked about {len(self.events):,} events"


def _figures(effects: Mapping[Any, Effect], names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return a head and a row of texts per policy."""
    labels = labels_of(effects)
    head = [*names, *_HEAD[:-1], *(f"refused: {printable(label)}" for label in labels), _HEAD[-1]]
    rows = [
        [
            *map(_key_text, key if len(names) > 1 else [key]),
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


def _key_text(key: object) -> str:
    is_number = isinstance(key, (int, float)) and not isinstance(key, bool)
    return f"{key:,}" if is_number else printable(key)


def _table_text(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of columns: the first and the last to the left, numbers between them to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = [title]
    for row in [head, *rows]:
        first, *numbers, last = row
        middle = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *middle, last]).rstrip())
    return "\n".join(lines)
