"""Whom a change of limits hits: who would be refused now and was not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overlimit._messages.texts import percent
from overlimit.route_charges import LimitsRoutes
from overlimit.simulation.events.labels import Label, unlabelled
from overlimit.simulation.optional import required
from overlimit.simulation.policies import PolicyLike
from overlimit.simulation.questions.effects import Trial
from overlimit.simulation.questions.naming import checked_names, events_of
from overlimit.simulation.replaying import check_question, replay
from overlimit.simulation.tables import labels_of_events

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation.events.events import Events


class _Row(NamedTuple):
    label: Label
    route: str
    identifiers: int
    events: int


class NewlyRefused:
    """Who is refused by new limits and was not by those before.

    Attributes
    ----------
    identifiers : int
        How many have an event that is refused now, and had none before.
    of : int
        How many identifiers there are, or those that were asked about.
    share : float
        The share of them, from 0 to 1.
    """

    def __init__(self, identifiers: int, of: int, rows: list[_Row]) -> None:
        self.identifiers, self.of, self._rows = identifiers, of, rows

    @property
    def share(self) -> float:
        """The share of the identifiers that are newly refused, from 0 to 1."""
        return self.identifiers / self.of if self.of else 0.0

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per label and route that refuses.

        Its columns are ``label`` (``""`` for none), ``route``, ``identifiers`` (those newly refused there)
        and ``events`` (refused now and not before), by these, falling. Raises ImportError without pandas.
        """
        pandas = required("pandas", "NewlyRefused.to_pandas")
        frame: pd.DataFrame = pandas.DataFrame(self._rows, columns=list(_Row._fields))
        return frame

    def __repr__(self) -> str:
        return (
            f"<NewlyRefused: {self.identifiers:,} of {self.of:,} identifiers ({percent(self.share)}), "
            f"{sum(row.events for row in self._rows):,} events>"
        )


def newly_refused(
    events: Events,
    before: PolicyLike | LimitsRoutes | None,
    after: PolicyLike | LimitsRoutes | None,
    *,
    among: object = (),
    progress: bool | None = None,
) -> NewlyRefused:
    """Return who would be refused by new limits and was not by those before.

    Parameters
    ----------
    events
        What happened.
    before, after
        Limits as for `replay`. None: there are no limits.
    among
        Identifiers or labels that are asked about; by default all.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    ValueError, TypeError
        As `replay` does; also for no events, and for names that no event has.
    """
    check_question(events)
    named = checked_names(among, "among")
    asked = events_of(events, named, "among") if named else np.ones(len(events), bool)
    trial = Trial(events, among=asked)
    there = int(np.count_nonzero(trial.sent))
    if after is None:
        return NewlyRefused(0, there, [])
    now = replay(events, after, columns=("allowed", "limit"), progress=progress)
    passes, passed = events._in_time(now.allowed), np.ones(len(events), bool)
    if before is not None:
        passed = events._in_time(replay(events, before, columns=("allowed",), progress=progress).allowed)
    is_new = (trial.refused(passes) > 0) & (trial.refused(passed) == 0)
    codes, _ = events._codes_of()
    fresh = np.flatnonzero(passed & ~passes & asked)
    titles = [title.rpartition(": ")[0] or title for title in now.titles]
    routes = events._in_time(now.limit)[fresh]
    labels = labels_of_events(events) or unlabelled(len(events))
    names = [*labels.labels, ""]
    counts: dict[tuple[Label, str], tuple[int, set[int]]] = {}
    for k, route in zip(fresh.tolist(), routes.tolist(), strict=True):
        key = names[labels.codes[k]], titles[route]
        number, whose = counts.setdefault(key, (0, set()))
        whose.update([int(codes[k])] if is_new[codes[k]] else [])
        counts[key] = number + 1, whose
    rows = [_Row(*key, len(whose), number) for key, (number, whose) in counts.items()]
    rows.sort(key=lambda row: (-row.identifiers, -row.events))
    return NewlyRefused(int(np.count_nonzero(is_new)), there, rows)
