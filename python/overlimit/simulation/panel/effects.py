"""What a limit does to events, as the panel shows it: figures in HTML, and a timeline as a PNG."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import NamedTuple

from overlimit import Limiter
from overlimit._display.html import html_table
from overlimit._messages.texts import percent
from overlimit.limits import Limit
from overlimit.simulation.events.events import Events
from overlimit.simulation.figures import plot_timeline
from overlimit.simulation.measures import peak_of_any
from overlimit.simulation.questions.effects import Trial
from overlimit.simulation.replaying import Replay
from overlimit.simulation.tables import codes_of, most_refused

_KEPT = 256
_HEAD = ("hit most", "sent", "passed", "refused")


class ShownEffect(NamedTuple):
    """Who is refused, as HTML, and the timeline as a PNG."""

    refused: str
    timeline: bytes


class ShownEffects:
    """Asks limits about the same events; what was asked before is not worked out again."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._trial = Trial(events)
        self._identifiers = len(set(codes_of(events, None)[0].tolist()))
        self.of = lru_cache(_KEPT)(self._of)
        self.peak = lru_cache(_KEPT)(self._peak)

    def _of(self, limit: Limit) -> ShownEffect:
        """Return what a limit does; raise ValueError if an event is too large for a call under it."""
        allowed = self._trial.allowed(limit)
        answers = Replay(self._events, Limiter(limit), {"allowed": allowed})
        of_events, of_identifiers = map(percent, self._trial.shares(allowed))
        text = (
            f"{of_events} of {len(self._events):,} events, "
            f"{of_identifiers} of {self._identifiers:,} identifiers"
        )
        return ShownEffect(html_table("Refused", text, _HEAD, most_refused(answers)), _timeline(answers))

    def _peak(self, seconds: int) -> int:
        """Return the most cost of one identifier in any two periods: no limit of a period need be higher.

        In one it may have to be, because limits that count in blocks count some events for longer.
        """
        times, costs, period_us = self._events.times, self._events.costs, 2 * seconds * 1_000_000
        present = [(column.codes, column.codes >= 0) for column in self._events._columns]
        return max(peak_of_any(codes[has], times[has], costs[has], period_us) for codes, has in present)


def _timeline(answers: Replay) -> bytes:
    from matplotlib.figure import Figure

    # Not by pyplot, which would keep the figure and show it once more below the cell.
    figure = Figure(figsize=(6, 3.4), dpi=100, layout="constrained")
    plot_timeline(answers, ax=figure.subplots())
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()
