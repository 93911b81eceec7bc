"""Sweeping over numbers of a policy: what each value refuses, and what it lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from overlimit._messages.texts import printable, short_repr
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.labels import Label
from overlimit.simulation.figures.above import name_above
from overlimit.simulation.figures.style import axes_for, name_text, policy_text
from overlimit.simulation.policies import PolicyLike, limits_and_penalty, policy_of
from overlimit.simulation.progress import interruptible
from overlimit.simulation.questions.effects import Bits, Bools, Effect, Effects, asked, labels_of
from overlimit.simulation.questions.maps import draw_map, shares_of
from overlimit.simulation.questions.naming import checked_names, events_of, making
from overlimit.simulation.questions.plotting import draw_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_EXAMPLE = 'range(10, 200, 10) or {"rate": [10, 20], "burst": [5, 50]}'


class Sweep(Effects):
    """What the same events would have met for each value of a number, or of several; ``sweep`` makes it.

    Attributes
    ----------
    events : Events
        What the policies were asked about.
    names : tuple of str
        What the numbers are called: ``("value",)``, or the names of the grid.
    policies : tuple of str
        The policy of each value, in words.
    effects : dict of value to Effect
        What the policy of each value did, in the order given; of several numbers a value is a tuple.
    """

    _nouns = ("value", "values")

    def __init__(
        self,
        events: Events,
        effects: Mapping[Any, Effect],
        names: Sequence[str],
        passed: Sequence[Bits],
        policies: Sequence[str],
    ) -> None:
        super().__init__(events, effects, names, passed)
        self.policies = tuple(policies)

    def best(self, stop: Label | Iterable[Label], spare: Label | Iterable[Label]) -> pd.DataFrame:
        """Return the values that nothing beats: no other refuses more of ``stop`` and no more of ``spare``.

        Parameters
        ----------
        stop, spare
            Identifiers and labels, such as ``"crawler"``: of their events as many as possible should be
            refused, or as few.

        Returns
        -------
        pandas.DataFrame
            Those rows of `to_pandas`, those that refuse most of ``stop`` first, and all of equal ones. There
            is a column ``refused_events[...]`` also for each identifier that was named.

        Raises
        ------
        ValueError
            No event has one of the names, or there are none.
        ImportError
            pandas is missing.
        """
        asked = {"stop": checked_names(stop, "stop"), "spare": checked_names(spare, "spare")}
        for argument, names in asked.items():
            if not names:
                raise ValueError(f"{argument} must name an identifier or a label at least")
        stopped, spared = (self._shares(names, argument) for argument, names in asked.items())
        frame = self.to_pandas()
        for name in dict.fromkeys(asked["stop"] + asked["spare"]):
            if name not in labels_of(self.effects):
                frame[f"refused_events[{printable(name)}]"] = self._shares([name], "stop")
        return frame.iloc[_unbeaten(stopped, spared)]

    def _shares(self, names: Sequence[Label], argument: str) -> list[float]:
        """Return the share of the events of these names that each value refuses."""
        chosen = events_of(self.events, names, argument)
        return [interruptible(_refused_share, self._allowed(passed), chosen) for passed in self._passed]

    def plot(self, *, label: Label | None = None, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw what each value refuses and the peak that passes, of two numbers a map; see `plot_sweep`."""
        return plot_sweep(self, label=label, title=title, ax=ax)


def _refused_share(allowed: Bools, chosen: Bools) -> float:
    return 1 - int(np.count_nonzero(allowed & chosen)) / int(np.count_nonzero(chosen))


def _unbeaten(stopped: Sequence[float], spared: Sequence[float]) -> list[int]:
    """Return which are beaten by none, those that stop most first; of equal ones the order stays."""
    most_first = sorted(range(len(stopped)), key=lambda k: (-stopped[k], spared[k]))
    unbeaten: list[int] = []
    for k in most_first:
        last = unbeaten[-1] if unbeaten else None
        is_equal = last is not None and (stopped[k], spared[k]) == (stopped[last], spared[last])
        if last is None or is_equal or spared[k] < spared[last]:
            unbeaten.append(k)
    return unbeaten


def sweep(
    events: Events,
    make: str | Callable[..., PolicyLike],
    grid: Iterable[Any] | Mapping[str, Iterable[Any]],
    *,
    progress: bool | None = None,
) -> Sweep:
    """Return what policies that differ in a number, or in several, would have done to the same events.

    Parameters
    ----------
    events
        What happened.
    make
        Returns the policy of a value, such as ``lambda limit: f"{limit}/minute"``: limits as ``Limiter``
        takes them, a Limiter, or ``(limits, penalty)``. It is called with the values of a dict by their
        names: ``lambda rate, burst: f"{rate}/minute burst {burst}"``. Or a text with {} or these names:
        ``"{rate}/minute burst {burst}"``.
    grid
        The values, such as ``range(10, 200, 10)``; one that comes twice counts once. Or a dict of values by
        name, such as ``{"rate": [10, 20, 40], "burst": [5, 50]}``, of which all combinations are tried.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        There are no values or no events, or an event is too large for one call.

    Notes
    -----
    The result takes a byte for eight events and each value.
    """
    names, limiters = _policies(making(make), grid)
    if not limiters:
        raise ValueError(f"grid must not be empty: give one value at least, as in {_EXAMPLE}")
    effects, passed = asked(events, limiters, progress)
    policies = [policy_text(*limits_and_penalty(limiter)) for limiter in limiters.values()]
    return Sweep(events, effects, names, passed, policies)


def _policies(make: Callable[..., PolicyLike], grid: object) -> tuple[tuple[str, ...], dict[Any, Any]]:
    """Return the names of what varies, and a limiter for each value or tuple of values."""
    if not isinstance(grid, Mapping):
        return ("value",), {value: policy_of(make(value)) for value in _values(grid)}
    for name in grid:
        if not isinstance(name, str):
            raise TypeError(f"grid must name its values by texts, as in {_EXAMPLE}, not {short_repr(name)}")
    names, limiters = tuple(grid), {}
    for values in product(*map(_values, grid.values())) if grid else ():
        key = values if len(names) > 1 else values[0]
        limiters[key] = policy_of(make(**dict(zip(names, values, strict=True))))
    return names, limiters


def _values(grid: object) -> list[Any]:
    """Return values to try, numbers of numpy as those of Python, as limits take them."""
    if not isinstance(grid, Iterable) or isinstance(grid, (str, bytes)):
        raise TypeError(f"grid must be the values to try, such as {_EXAMPLE}, not {short_repr(grid)}")
    return [value.item() if isinstance(value, np.generic) else value for value in grid]


def plot_sweep(
    sweep: Sweep, *, label: str | bytes | None = None, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the share of events, identifiers and labels that each value refuses, and the peak that passes.

    A sweep over two numbers is a map of the shares of events that each pair of them refuses.

    Parameters
    ----------
    sweep
        What ``sweep`` returns, over numbers.
    label
        Of a sweep over two numbers: whose events the map is about, by default all. Two maps beside each
        other, ``label="crawler"`` and ``label="office"``, show what is stopped and what is spared.
    title
        What is written above it, by default the first and the last policy; an empty text for nothing.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the shares; a second axis on their right shows the most cost that passes in 60 seconds.
        Of the labels of events the first six are shown; the legend says how many more there are.

    Raises
    ------
    TypeError
        The values of the sweep are no numbers, or it is over more than two.
    ValueError
        No event has the label, or the sweep is over one number, whose figure has all labels.
    ModuleNotFoundError
        matplotlib is missing.
    """
    if len(sweep.names) > 2:
        raise TypeError(
            f"a sweep is plotted over one or two numbers, not {len(sweep.names)}: use to_pandas()"
        )
    shares = shares_of(sweep, label)
    if label is not None and len(sweep.names) < 2:
        raise ValueError("label= is for sweeps over two numbers: the figure of one shows all labels")
    ax = axes_for(ax, "plot_sweep")
    if len(sweep.names) == 2:
        draw_map(ax, sweep, shares, "refused" if label is None else f"refused of {name_text(label)}")
    else:
        draw_lines(ax, sweep)
    ax.set_xlabel(name_text(sweep.names[0]))
    name_above(ax, title, _first_and_last(sweep))
    return ax


def _first_and_last(sweep: Sweep) -> str:
    """Return the policies of the smallest and the largest value, in words."""
    policies = dict(zip(sweep.effects, sweep.policies, strict=True))
    try:
        ends = [policies[end(policies)] for end in (min, max)]
    except TypeError:  # not all values can be compared
        ends = [sweep.policies[0], sweep.policies[-1]]
    return " to ".join(dict.fromkeys(ends))
