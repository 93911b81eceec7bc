"""Sweeping over a number of a policy: what each value refuses, and what it lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.events import Events
from overlimit.simulation.progress import progress_bar
from overlimit.simulation.questions.effects import Effects, Trial
from overlimit.simulation.replaying import PolicyLike, limiter_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Sweep(Effects):
    """What the same events would have met for each value of a number; ``sweep`` makes it.

    Attributes
    ----------
    events : Events
        What the policies were asked about.
    effects : dict of value to Effect
        What the policy of each value did, in the order given.
    """

    _index = "value"
    _nouns = ("value", "values")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw what each value refuses and the peak that passes; `plot_sweep` says more."""
        from overlimit.simulation.figures import plot_sweep

        return plot_sweep(self, ax=ax)


def sweep(
    events: Events, make: Callable[[Any], PolicyLike], grid: Iterable[Any], *, progress: bool | None = None
) -> Sweep:
    """Return what policies that differ in a number would have done to the same events.

    Parameters
    ----------
    events
        What happened.
    make
        Returns the policy of a value, such as ``lambda limit: f"{limit}/minute"``: limits as ``Limiter``
        takes them, a Limiter, or ``(limits, penalty)``.
    grid
        The values, such as ``range(10, 200, 10)``; one that comes twice counts once.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        There are no values or no events, or an event is too large for one call.
    """
    if not callable(make):
        raise TypeError(f'make must be a function such as lambda n: f"{{n}}/minute", not {short_repr(make)}')
    if not isinstance(grid, Iterable):
        raise TypeError(f"grid must be the values to try, such as range(10, 200, 10), not {short_repr(grid)}")
    limiters = {value: limiter_of(make(value)) for value in map(_plain, grid)}
    if not limiters:
        raise ValueError("grid must not be empty: give one value at least, as in range(10, 200, 10)")
    with progress_bar(len(limiters) * len(events), shown=progress) as bar:
        trial = Trial(events, bar)
        effects = {value: trial.effect(trial.allowed(limiter)) for value, limiter in limiters.items()}
    return Sweep(events, effects)


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python, as limits take it."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value
