"""How much of each limit an identifier has used, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit import Limiter, ManualClock, MemoryStore
from overlimit._messages.texts import nearest, short_repr
from overlimit.simulation.figures.above import legend_above, name_above
from overlimit.simulation.figures.style import (
    COLOURS,
    REFUSED,
    axes_for,
    name_text,
    shares_on,
    times_on,
)
from overlimit.simulation.replaying import PolicyLike, check_events, limiter_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit import Decision
    from overlimit.simulation.events.events import Events

_INSTANTS = 600
_LIMIT_LENGTH = 36
_STYLES = ("-", "--", "-.", ":")
_BYTES = 1 << 28


class _Levels(NamedTuple):
    """Instants in us, the share that is used of each limit and whether there is a lock; times of refusals."""

    times: npt.NDArray[np.int64]
    used: npt.NDArray[np.float64]
    locked: npt.NDArray[np.bool_]
    refusals: npt.NDArray[np.int64]


def plot_level(
    events: Events,
    limits: PolicyLike,
    identifier: str | bytes,
    *,
    timezone: str = "UTC",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much of each limit one identifier has used, over time, and mark its refusals.

    The levels are what a Limiter says that is asked about each event of this identifier at its time. Other
    identifiers of the same events are not asked about.

    Parameters
    ----------
    events
        What happened.
    limits
        Limits as ``Limiter`` takes them, a Limiter (its limits and penalty), or ``(limits, penalty)``.
    identifier
        An identifier as decisions show it, such as ``"ip:203.0.113.7"``.
    timezone
        In which time zone times are shown.
    title
        What is written above it, by default nothing: the legend has the limits.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: times on one, the share of each limit that is used on the other. At 100 % nothing is left,
        as while a penalty locks the identifier, which is shaded.

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        No event has this identifier.
    ModuleNotFoundError
        matplotlib is missing.
    """
    ax = axes_for(ax, "plot_level")
    check_events(events)
    limiter = limiter_of(limits)
    levels = _levels(_of_identifier(events, identifier), limiter, identifier)
    instants = levels.times.astype("datetime64[us]")
    for k, limit in enumerate(limiter.limits):
        colour, style = COLOURS[k % len(COLOURS)], _STYLES[k % len(_STYLES)]
        label = name_text(limit, _LIMIT_LENGTH)
        ax.plot(instants, levels.used[:, k], style, color=colour, linewidth=1.4, label=label)
    _shade_locks(ax, instants, levels.locked)
    _mark_refusals(ax, levels.refusals)
    ax.set_ylim(-0.02, 1.08)
    if instants[0] < instants[-1]:
        ax.set_xlim(instants[0], instants[-1])
    ax.set_ylabel(f"used by {name_text(identifier)}")
    shares_on(ax.yaxis)
    times_on(ax, timezone)
    legend_above(ax)
    name_above(ax, title)
    return ax


def _shade_locks(ax: Axes, instants: npt.NDArray[np.datetime64], locked: npt.NDArray[np.bool_]) -> None:
    if np.any(locked):
        ax.fill_between(instants, -1, 2, where=locked, color=REFUSED, alpha=0.25, linewidth=0, label="locked")


def _mark_refusals(ax: Axes, refusals: npt.NDArray[np.int64]) -> None:
    at = refusals.astype("datetime64[us]")
    label = f"refused ({len(at):,})"
    ax.plot(at, np.full(len(at), 1.04), "|", color=REFUSED, markersize=7, label=label)


def _of_identifier(events: Events, identifier: str | bytes) -> Events:
    """Return the events of an identifier, by whichever column has it."""
    for column in events._columns:
        found = np.flatnonzero(column.labels == identifier)
        if len(found) and np.any(which := column.codes == found[0]):
            own: Events = events[which]
            return own
    labels = [str(label) for column in events._columns for label in column.labels.tolist()]
    like = nearest(str(identifier), labels)
    instead = f"; did you mean {like!r}?" if like else ""
    raise ValueError(f"identifier must be one that events have, not {short_repr(identifier)}{instead}")


def _levels(events: Events, limiter: Limiter, identifier: str | bytes) -> _Levels:
    """Ask a limiter about each event at its time, and look between them without asking for anything."""
    clock = ManualClock()
    store = MemoryStore(1024, _BYTES)
    asked = Limiter(list(limiter.limits), penalty=limiter.penalty, store=store, clock=clock)
    times: list[int] = []
    used: list[npt.NDArray[np.float64]] = []
    locked: list[bool] = []
    refusals: list[int] = []
    clock.set(int(events.times[0]) / 1e6)
    most = np.maximum(1, _remaining(asked.peek(identifier, cost=0)))

    def look(time: int, decision: Decision) -> None:
        times.append(time)
        used.append(1 - _remaining(decision) / most)
        locked.append(decision.status == "locked")

    for time, cost in _steps(events):
        clock.set(time / 1e6)
        look(time, asked.peek(identifier, cost=0))
        if cost is not None:
            decision = asked.hit(identifier, cost=cost)
            refusals.extend([] if decision else [time])
            look(time, asked.peek(identifier, cost=0))
    return _Levels(np.array(times), np.array(used), np.array(locked), np.array(refusals, np.int64))


def _remaining(decision: Decision) -> npt.NDArray[np.float64]:
    return np.array([detail.remaining for detail in decision.details], np.float64)


def _steps(events: Events) -> list[tuple[int, int | None]]:
    """Return the events' times and costs, and times between them at which there is none."""
    first, last = int(events.times[0]), int(events.times[-1])
    between: list[tuple[int, Any]] = [(int(time), None) for time in np.linspace(first, last, _INSTANTS)]
    asked = [(int(time), int(cost)) for time, cost in zip(events.times, events.costs, strict=True)]
    return sorted(between + asked, key=lambda step: step[0])
