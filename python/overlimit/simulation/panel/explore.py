"""Setting a limit by hand, and seeing at once what it would have done."""

from __future__ import annotations

import html
from typing import Any

from overlimit._messages.texts import printable
from overlimit.limits import Limit
from overlimit.limits.limit import Terms
from overlimit.limits.quantities import MOST, duration_words
from overlimit.limits.registry import ALGORITHMS
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.panel.effects import ShownEffects
from overlimit.simulation.panel.sampling import live_sample, sample_text
from overlimit.simulation.replaying import check_question

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

    def __init__(self, events: Events) -> None:
        self.sample = live_sample(events)
        self._effects = ShownEffects(self.sample)
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
        """Show what the limit does that is set now."""
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


def explore(events: Events) -> Panel:
    """Return a panel on which a limit is set by hand, and what it would have done is seen at once.

    Of more than 5,000,000 events the panel asks about a sample, which has those who send most, and says so.

    Parameters
    ----------
    events
        What happened.

    Returns
    -------
    Panel
        The panel, which a notebook shows as the value of a cell. ``panel.policy`` is the limit that is set.

    Raises
    ------
    TypeError, ValueError
        ``events`` are no Events, or there are none.
    ImportError
        ipywidgets, matplotlib or pandas is missing.
    """
    check_question(events)
    for package in ("ipywidgets", "matplotlib", "pandas"):
        required(package, "explore")
    return Panel(events)
