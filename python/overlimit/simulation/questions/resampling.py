"""How sure a share is: what it would have been among other identifiers like those of the events.

A bootstrap over identifiers, as all events of one belong together. What is refused of each is counted once;
a draw gives each identifier a weight, and asks no policy again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.simulation.tables import Ints

Of: TypeAlias = Literal["identifiers", "events"]

_BAND = 0.05, 0.95


class Refused(NamedTuple):
    """Of which identifiers something is refused, and how much of each counts."""

    whose: Ints
    counts: Ints


def counted(counts: Ints, of: Of) -> Ints:
    """Return what counts of each identifier: its events, or that it has some."""
    return counts if of == "events" else (counts > 0).astype(np.int64)


def share(refused: Ints, sent: Ints, of: Of) -> float:
    """Return which share is refused, of counts of events by identifier; 0 of nothing."""
    return int(counted(refused, of).sum()) / max(1, int(counted(sent, of).sum()))


def refused_of(counts: Ints, of: Of) -> Refused:
    """Return of whom so many events are refused."""
    whose = np.flatnonzero(counts)
    return Refused(whose, counted(counts[whose], of))


def share_in(weights: Ints, refused: Refused, whole: int) -> float:
    """Return which share is refused when each identifier is there so many times, of so much in all."""
    return int(weights[refused.whose] @ refused.counts) / max(1, whole)


def draws_of(sent: Ints, draws: int, seed: int) -> Iterator[Ints]:
    """Yield how many times each identifier is drawn, of those that sent something as many as there are."""
    random = np.random.default_rng(seed)
    present = np.flatnonzero(sent)
    for _ in range(draws):
        drawn = random.integers(len(present), size=len(present))
        weights = np.zeros(len(sent), np.int64)
        weights[present] = np.bincount(drawn, minlength=len(present))
        yield weights


def band(values: npt.ArrayLike) -> Any:
    """Return between which two of the values, of each column of a table, nine tenths of them are."""
    return np.quantile(np.asarray(values), _BAND, axis=0, method="inverted_cdf")


def checked_draws(draws: object, argument: str) -> int:
    """Return how often to draw; raise TypeError or ValueError for what is no such number."""
    count = whole_number(draws)
    rule = f"{argument} must be how often to draw, such as 200, not {short_repr(draws)}"
    if count is None:
        raise TypeError(rule)
    if count < 1:
        raise ValueError(rule)
    return count
