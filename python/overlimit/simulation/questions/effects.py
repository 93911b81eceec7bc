"""What policies would have done to the same events: they are asked in one way, and told in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.texts import percent, printable
from overlimit.route_charges import LimitsRoutes
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.labels import Label
from overlimit.simulation.optional import required
from overlimit.simulation.policies import PolicyLike, policy_of
from overlimit.simulation.progress import Advance, interruptible, progress_bar, unseen
from overlimit.simulation.questions.resampling import (
    Of,
    band,
    checked_draws,
    counted,
    draws_of,
    refused_of,
    share,
    share_in,
)
from overlimit.simulation.replaying import allowed_in_time, check_question
from overlimit.simulation.tables import Ints, labels_of_events, peak

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.limiter import Limiter

Bools: TypeAlias = npt.NDArray[np.bool_]
Bits: TypeAlias = npt.NDArray[np.uint8]
"""Which events pass, in the order of times, a bit for each."""

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
    refused_identifiers_by_label
        The share of the identifiers of each label of which it refused an event of that label. An identifier
        that has several labels counts for each.
    """

    refused_events: float
    refused_identifiers: float
    worst_hit: tuple[Label, ...]
    peak_1s: int
    peak_60s: int
    refused_by_label: dict[Label, float]
    refused_identifiers_by_label: dict[Label, float]


def labels_of(effects: Mapping[Any, Effect]) -> list[Label]:
    """Return the labels of the events that these policies were asked about."""
    return [label for effect in list(effects.values())[:1] for label in effect.refused_by_label]


class _Cells(NamedTuple):
    """What each identifier sent of each label: of each event the cell, and of each cell its label or -1."""

    of_events: Ints
    labels: Ints
    names: list[Label]

    def counts(self, which: Bools | None = None) -> tuple[Ints, Ints]:
        """Return for each label how many of these events there are, and how many identifiers they have."""
        cells = np.bincount(
            self.of_events[slice(None) if which is None else which], minlength=len(self.labels)
        )
        known, count = self.labels >= 0, len(self.names)
        events = np.zeros(count, np.int64)
        np.add.at(events, self.labels[known], cells[known])
        return events, np.bincount(self.labels[known & (cells > 0)], minlength=count)


class Trial:
    """Asks policies, one after the other, about the same events; ``among`` are those that shares are of."""

    def __init__(self, events: Events, advance: Advance = unseen, among: Bools | None = None) -> None:
        check_question(events)
        self.events = events
        self.advance = advance
        self._among = among
        self._codes, self._names = interruptible(events._codes_of)
        self.sent = interruptible(self._of_each, np.ones(len(events), bool))

    def allowed(self, policy: PolicyLike | Limiter | LimitsRoutes) -> Bools:
        """Return which events a policy lets pass, in the order of times."""
        return allowed_in_time(self.events, policy_of(policy), self.advance)

    def effect(self, allowed: Bools) -> Effect:
        """Return what it means that these events pass."""
        return interruptible(self._effect, allowed)

    def refused(self, allowed: Bools) -> Ints:
        """Return how many events of each identifier are refused when these pass."""
        return interruptible(self._of_each, ~allowed)

    def shares(self, allowed: Bools) -> tuple[float, float]:
        """Return the share of events, and that of identifiers, that are refused when these events pass."""
        return self._shares(self.refused(allowed))

    def _of_each(self, which: Bools) -> Ints:
        codes = self._codes[which if self._among is None else which & self._among]
        return np.bincount(codes, minlength=len(self._names))

    def _shares(self, refused: Ints) -> tuple[float, float]:
        return share(refused, self.sent, "events"), share(refused, self.sent, "identifiers")

    def _effect(self, allowed: Bools) -> Effect:
        refused = self._of_each(~allowed)
        times, costs = self.events._times[allowed], self.events._costs[allowed]
        peaks = (peak(times, costs, 1_000_000), peak(times, costs, 60_000_000))
        return Effect(*self._shares(refused), self._worst_hit(refused), *peaks, *self._by_label(~allowed))

    def _worst_hit(self, refused: Ints) -> tuple[Label, ...]:
        """Return those that were refused most often, of equal ones those that sent most."""
        hit = np.flatnonzero(refused)
        if len(hit) > _WORST:
            hit = hit[refused[hit] >= np.partition(refused[hit], -_WORST)[-_WORST]]
        worst = hit[np.lexsort((hit, -self.sent[hit], -refused[hit]))][:_WORST]
        return tuple(self._names[worst].tolist())

    @cached_property
    def _cells(self) -> _Cells | None:
        labels = labels_of_events(self.events)
        if labels is None:
            return None
        width = len(labels.labels) + 1
        pairs, cells = np.unique(self._codes.astype(np.int64) * width + labels.codes + 1, return_inverse=True)
        return _Cells(cells, pairs % width - 1, labels.labels.tolist())

    def _by_label(self, refused: Bools) -> tuple[dict[Label, float], dict[Label, float]]:
        """Return the share of refused events of each label, and that of the identifiers."""
        if self._cells is None:
            return {}, {}
        events, identifiers = map(self._shares_of_labels, self._cells.counts(refused), self._cells.counts())
        return events, identifiers

    def _shares_of_labels(self, refused: Ints, sent: Ints) -> dict[Label, float]:
        names = [] if self._cells is None else self._cells.names
        pairs = zip(names, refused.tolist(), sent.tolist(), strict=True)
        return {label: part / whole for label, part, whole in pairs if whole}


class Shown(NamedTuple):
    """A column of a table: its name in data, what stands above it for people, and how cells are written."""

    name: str
    head: str
    cells: list[Any]
    text: Callable[[Any], str] = percent


class Effects:
    """What several policies did to the same events: a row for each."""

    _nouns: ClassVar[tuple[str, str]]

    def __init__(
        self,
        events: Events,
        effects: Mapping[Any, Any],
        names: Sequence[str],
        passed: Sequence[Bits],
    ) -> None:
        self.events = events
        self.effects = dict(effects)
        self.names = tuple(names)
        self._passed = passed

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each.

        Its columns are those of an `Effect`, and ``refused_events[label]`` and ``refused_identifiers[label]``
        for each label of the events. Raises ImportError without pandas.
        """
        pandas = required("pandas", f"{type(self).__name__}.to_pandas")
        columns = self._columns()
        rows = list(zip(*(column.cells for column in columns), strict=True))
        names = [column.name for column in columns]
        frame: pd.DataFrame = pandas.DataFrame(rows, index=self._keys(pandas), columns=names)
        return frame

    def resample(self, draws: int = 200, *, seed: int = 0) -> pd.DataFrame:
        """Return between what the shares are that each policy refuses, as far as these identifiers tell.

        As many identifiers are drawn from those of the events, some more than once and some not at all, and
        that ``draws`` times. ``seed`` makes other draws.

        Returns
        -------
        pandas.DataFrame
            A row for each with the columns ``low`` and ``high`` of ``refused_events``, and of
            ``refused_identifiers``: between them are nine tenths of the draws. Raises ImportError without
            pandas.
        """
        pandas = required("pandas", f"{type(self).__name__}.resample")
        trial = Trial(self.events)
        counts = [trial.refused(self._allowed(passed)) for passed in self._passed]
        sent = {of: counted(trial.sent, of) for of in get_args(Of)}
        refused = [[refused_of(each, of) for of in sent] for each in counts]
        shares = []
        for weights in draws_of(trial.sent, checked_draws(draws, "draws"), seed):
            wholes = [int(weights @ each) for each in sent.values()]
            shares.append([list(map(partial(share_in, weights), row, wholes)) for row in refused])
        ends = dict(zip(("low", "high"), band(shares), strict=True))
        columns = {
            (f"refused_{of}", end): found[:, k] for k, of in enumerate(sent) for end, found in ends.items()
        }
        frame: pd.DataFrame = pandas.DataFrame(columns, index=self._keys(pandas))
        return frame

    def _allowed(self, passed: Bits) -> Bools:
        return np.unpackbits(passed, count=len(self.events)).view(np.bool_)

    def _keys(self, pandas: Any) -> pd.Index[Any]:
        keys = list(self.effects)
        if len(self.names) > 1:
            several: pd.Index[Any] = pandas.MultiIndex.from_tuples(keys, names=self.names)
            return several
        # Without this an index of tuples would become one of several levels.
        one: pd.Index[Any] = pandas.Index(keys, name=self.names[0], tupleize_cols=False)
        return one

    def _columns(self) -> list[Shown]:
        effects: list[Effect] = list(self.effects.values())
        columns = [
            self._column("refused_events", "refused events"),
            self._column("refused_identifiers", "refused identifiers"),
            self._column("worst_hit", "worst hit", _listed),
            self._column("peak_1s", "peak in 1 s", "{:,}".format),
            self._column("peak_60s", "peak in 60 s", "{:,}".format),
        ]
        for label in labels_of(self.effects):
            name = printable(label)
            events = [each.refused_by_label[label] for each in effects]
            identifiers = [each.refused_identifiers_by_label[label] for each in effects]
            columns.append(Shown(f"refused_events[{name}]", f"refused: {name}", events))
            columns.append(Shown(f"refused_identifiers[{name}]", "", identifiers))
        return columns

    def _column(self, name: str, head: str, text: Callable[[Any], str] = percent) -> Shown:
        """Return what each effect has under a name."""
        return Shown(name, head, [getattr(each, name) for each in self.effects.values()], text)

    def _texts(self) -> tuple[list[str], list[list[Any]]]:
        """Return a head and a row of texts for each; what is widest, who was worst hit, comes last."""
        columns = sorted(
            (each for each in self._columns() if each.head), key=lambda each: each.text is _listed
        )
        keys = [key if len(self.names) > 1 else [key] for key in self.effects]
        cells = ([column.text(cell) for cell in column.cells] for column in columns)
        rows = [
            [*map(self._key_text, key), *row] for key, row in zip(keys, zip(*cells, strict=True), strict=True)
        ]
        return [*self.names, *(column.head for column in columns)], rows

    def _key_text(self, key: Any) -> str:
        is_number = isinstance(key, (int, float)) and not isinstance(key, bool)
        return f"{key:,}" if is_number else printable(key)

    def __repr__(self) -> str:
        return _table_text(f"{self._asked()}:", *self._texts())

    def _repr_html_(self) -> str:
        head, rows = self._texts()
        return html_table(type(self).__name__, self._asked(), head, rows, left=(0, len(head) - 1))

    def _asked(self) -> str:
        count = len(self.effects)
        return f"{count} {self._nouns[count > 1]}, asked about {len(self.events):,} events"


def asked(
    events: Events, limiters: Mapping[Any, Limiter | LimitsRoutes], progress: bool | None
) -> tuple[dict[Any, Effect], list[Bits]]:
    """Return what each of several policies does to the same events, and which of them it lets pass."""
    effects, passed = {}, []
    with progress_bar(len(limiters) * len(events), shown=progress) as bar:
        trial = Trial(events, bar)
        for key, limiter in limiters.items():
            allowed = trial.allowed(limiter)
            effects[key] = trial.effect(allowed)
            passed.append(np.packbits(allowed))
    return effects, passed


def _listed(names: Sequence[Label]) -> str:
    return ", ".join(map(printable, names)) or "-"


def _table_text(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of columns: the first and the last to the left, numbers between them to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = [title]
    for row in [head, *rows]:
        first, *numbers, last = row
        middle = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *middle, last]).rstrip())
    return "\n".join(lines)
