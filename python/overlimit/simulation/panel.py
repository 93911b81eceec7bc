"""A panel for notebooks, on which a limit is set by hand and its effect on events is seen at once."""

from __future__ import annotations

import html
import io
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from overlimit._display import html_table
from overlimit._messages.texts import percent, printable
from overlimit.limiter import Limiter
from overlimit.limits import Limit
from overlimit.limits.calendars import zone_named
from overlimit.limits.limit import Terms
from overlimit.limits.quantities import MOST, duration_words
from overlimit.limits.registry import ALGORITHMS
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import Column
from overlimit.simulation.figures.replays import plot_timeline
from overlimit.simulation.optional import required
from overlimit.simulation.questions.effects import Trial
from overlimit.simulation.replaying import Replay, check_question
from overlimit.simulation.tables import most_refused, peak_of_columns

_KEPT = 256
_HEAD = ("hit most", "sent", "passed", "refused")


class ShownEffect(NamedTuple):
    """Who is refused, as HTML, and the timeline as a PNG."""

    refused: str
    timeline: bytes


class ShownEffects:
    """Asks limits about the same events; what was asked before is not worked out again."""

    def __init__(self, events: Events, timezone: str = "UTC") -> None:
        self._events, self._timezone = events, timezone
        self._trial = Trial(events)
        self._identifiers = len(set(events._codes_of()[0].tolist()))
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
        return ShownEffect(html_table("Refused", text, _HEAD, most_refused(answers)), self._timeline(answers))

    def _timeline(self, answers: Replay) -> bytes:
        from matplotlib.figure import Figure

        # Not by pyplot, which would keep the figure and show it once more below the cell.
        figure = Figure(figsize=(6, 3.4), dpi=100, layout="constrained")
        plot_timeline(answers, timezone=self._timezone, ax=figure.subplots())
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png")
        return drawn.getvalue()

    def _peak(self, seconds: int) -> int:
        """Return the most cost of one identifier in any two periods: no limit of a period need be higher.

        In one it may have to be, because limits that count in blocks count some events for longer.
        """
        return peak_of_columns(self._events, np.ones(len(self._events), bool), 2 * seconds * 1_000_000)


_MINUTE, _HOUR = 60, 3600
_PERIODS = (
    *(1, 2, 5, 10, 15, 30),
    *(each * _MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * _HOUR for each in (1, 2, 3, 6, 12, 24)),
)
_LEAST_RANGE = 10


class Panel:
    """A limit that is set by hand, and what it would have done to events; ``explore`` makes it.

    In a notebook it is shown as the value of a cell. Controls are widgets of ipywidgets, whose ``value`` can
    be set by a program too.

    Attributes
    ----------
    algorithm : ipywidgets.Dropdown
        The algorithm, by the name that ``Limiter(algorithm=...)`` takes.
    limit : ipywidgets.IntSlider
        How much per period: up to the most that one identifier of the events sent in two such periods.
    period : ipywidgets.SelectionSlider
        The period in seconds, from 1 to 86,400.
    burst : ipywidgets.IntSlider
        The burst of a token bucket, the capacity of a leaky bucket; disabled for other algorithms.
    line : ipywidgets.HTML
        The Python line that makes this limit.
    refused : ipywidgets.HTML
        The shares of events and identifiers that are refused, and who is hit most; or what is wrong.
    timeline : ipywidgets.Image
        The figure of ``plot_timeline``, as a PNG.
    sample : Events
        What is asked about: the events, or some of them if there are many.
    widget : ipywidgets.VBox
        All of it, to be put into widgets of your own.
    """

    def __init__(self, events: Events, timezone: str = "UTC") -> None:
        self.sample = live_sample(events)
        self._effects = ShownEffects(self.sample, timezone)
        widgets = required("ipywidgets", "explore")
        self._add_controls(widgets)
        self.line, self.refused = widgets.HTML(), widgets.HTML()
        self.timeline = widgets.Image(format="png", layout={"max_width": "100%"})
        self._controls = (self.algorithm, self.limit, self.period, self.burst)
        note = widgets.HTML(sample_text(events, self.sample))
        self.widget = widgets.VBox([*self._controls, self.line, note, self.refused, self.timeline])
        for control in self._controls:
            control.observe(self._show, names="value")
        self._show()

    def _add_controls(self, widgets: Any) -> None:
        names = {"style": {"description_width": "6em"}}
        wide: dict[str, Any] = {**names, "layout": {"width": "100%", "max_width": "600px"}}
        algorithms = [(name.replace("_", " "), name) for name in ALGORITHMS]
        periods = [(duration_words(each * 1_000_000), each) for each in _PERIODS]
        self.algorithm = widgets.Dropdown(
            options=algorithms, value="sliding_window", description="algorithm", **names
        )
        self.period = widgets.SelectionSlider(options=periods, value=_MINUTE, description="period", **wide)
        most = self._most()
        some = max(1, most // 4)
        self.limit = widgets.IntSlider(some, min=1, max=most, description="limit", **wide)
        self.burst = widgets.IntSlider(some, min=0, max=most, description="burst", **wide)

    @property
    def policy(self) -> Limit:
        """The limit that is set, for ``Limiter``, ``compare`` and other questions.

        Raises InvalidLimit if there is no such limit.
        """
        kind = ALGORITHMS[self.algorithm.value]
        burst = self.burst.value if "burst" in kind.optional_terms else None
        return kind.from_terms(Terms(self.limit.value, self.period.value, burst=burst))

    def _most(self) -> int:
        """Return where the sliders end: beyond it nothing is refused, or there are no limits."""
        return min(max(_LEAST_RANGE, self._effects.peak(self.period.value)), MOST)

    def _show(self, change: object = None) -> None:
        self.burst.disabled = "burst" not in ALGORITHMS[self.algorithm.value].optional_terms
        for slider in (self.limit, self.burst):
            slider.max = max(self._most(), slider.value)
        try:
            limit = self.policy
            effect = self._effects.of(limit)
        except ValueError as error:
            self._show_error(error)
            return
        line = html.escape(f"Limiter({limit!r})")
        self.line.value = f'<code style="user-select:all">{line}</code>'  # selected whole by a click
        self.refused.value, self.timeline.value = effect
        self.timeline.layout.display = None

    def _show_error(self, error: ValueError) -> None:
        self.line.value = ""
        self.refused.value = f'<span role="alert">{html.escape(printable(error))}</span>'
        self.timeline.layout.display = "none"

    def __repr__(self) -> str:
        return f"<Panel for {self.sample!r}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)


def explore(events: Events, *, timezone: str = "UTC") -> Panel:
    """Return a panel on which a limit is set by hand, and what it would have done is seen at once.

    Of more than 5,000,000 events the panel asks about a sample, which has those who send most, and says so.

    Parameters
    ----------
    events
        What happened.
    timezone
        In which time zone times are shown.

    Raises
    ------
    TypeError, ValueError
        ``events`` are no Events, or there are none.
    InvalidLimit
        There is no such time zone.
    ModuleNotFoundError
        ipywidgets, matplotlib or pandas is missing.
    """
    check_question(events)
    zone_named(timezone)
    for package in ("ipywidgets", "matplotlib", "pandas"):
        required(package, "explore")
    return Panel(events, timezone)


_MOST = 5_000_000


def live_sample(events: Events, most: int = _MOST) -> Events:
    """Return all events, or those of whoever sends most and of some others, as if given in time order.

    Half of the room is for those who send most. If even one of them sends more than there is room for, it is
    the first events of these.
    """
    chosen = events
    if len(events) > most:
        chosen = events._part(np.flatnonzero(_of_some(events._columns[0], most))[:most])
    # Without identifiers that no event has, which a replay would keep records for.
    columns = [column.compact() for column in chosen._columns]
    return Events._of(chosen._times, columns, chosen._costs, chosen._facts)


def sample_text(events: Events, sample: Events) -> str:
    """Return HTML that says what the panel asks about: all events, or which part of them."""
    if len(sample) == len(events):
        return ""
    names = [int(np.count_nonzero(each._columns[0].counts())) for each in (sample, events)]
    title = html.escape(events._columns[0].title)
    return (
        f"A sample: {len(sample):,} of {len(events):,} events, of {names[0]:,} of {names[1]:,} identifiers "
        f"({title}): those who send most, and others chosen at random. So the shares are higher than those "
        "of all: <code>replay(events, limits)</code> asks about all."
    )


def _of_some(column: Column, most: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which events are of those who send most, or of others who fit into the rest."""
    counts = column.counts()
    busiest = np.argsort(-counts, kind="stable")
    busy = max(1, int(np.searchsorted(np.cumsum(counts[busiest]), most // 2, side="right")))
    others = np.random.default_rng(0).permutation(busiest[busy:])
    fitting = np.cumsum(counts[others]) <= most - counts[busiest[:busy]].sum()
    chosen = np.zeros(len(counts) + 1, bool)
    chosen[busiest[:busy]] = chosen[others[fitting]] = True
    return chosen[column.codes]
