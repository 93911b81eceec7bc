"""How much of each limit an identifier has used, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import nearest, short_repr
from overlimit.limiter import Limiter
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import Column
from overlimit.simulation.figures.above import legend_above, name_above
from overlimit.simulation.figures.style import COLOURS, REFUSED, axes_for, name_text, shares_on
from overlimit.simulation.policies import PolicyLike, limiter_of
from overlimit.simulation.replaying import Replay, check_events, replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INSTANTS = 600
_MOST_LOOKS = 10_000
_LIMIT_LENGTH = 36
_STYLES = ("-", "--", "-.", ":")
_LOCKED = Replay.STATUSES.index("locked")
_NAME = "identifier"


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
    _draw(ax, limiter, _levels(_of_identifier(events, identifier), limiter))
    ax.set_ylim(-0.02, 1.08)
    ax.set_ylabel(f"used by {name_text(identifier)}")
    shares_on(ax.yaxis)
    from overlimit.simulation.figures.time_axis import show_times  # which imports matplotlib

    show_times(ax, timezone)
    legend_above(ax)
    name_above(ax, title)
    return ax


def _draw(ax: Axes, limiter: Limiter, levels: _Levels) -> None:
    """Draw a line for each limit, shade locks, and mark refusals above."""
    instants, at = (each.astype("datetime64[us]") for each in (levels.times, levels.refusals))
    for k, limit in enumerate(limiter.limits):
        colour, style = COLOURS[k % len(COLOURS)], _STYLES[k % len(_STYLES)]
        label = name_text(limit, _LIMIT_LENGTH)
        ax.plot(instants, levels.used[:, k], style, color=colour, linewidth=1.4, label=label)
    if (locked := levels.locked).any():
        ax.fill_between(instants, -1, 2, where=locked, color=REFUSED, alpha=0.25, linewidth=0, label="locked")
    ax.plot(at, np.full(len(at), 1.04), "|", color=REFUSED, markersize=7, label=f"refused ({len(at):,})")
    if instants[0] < instants[-1]:
        ax.set_xlim(instants[0], instants[-1])


def _of_identifier(events: Events, identifier: str | bytes) -> Events:
    """Return the events of an identifier, by whichever column has it."""
    for column in events._columns:
        found = np.flatnonzero(column.labels == identifier)
        if len(found) and np.any(which := column.codes == found[0]):
            return events._part(np.flatnonzero(which))
    labels = [str(label) for column in events._columns for label in column.labels.tolist()]
    like = nearest(str(identifier), labels)
    instead = f"; did you mean {like!r}?" if like else ""
    raise ValueError(f"identifier must be one that events have, not {short_repr(identifier)}{instead}")


def _levels(events: Events, limiter: Limiter) -> _Levels:
    """Replay the events with looks between them, which cost nothing and so charge nothing."""
    looked = _with_looks(events)
    answers = replay(looked.events, limiter, columns=("allowed", "status"))
    locked = answers.status[looked.looks] == _LOCKED
    # What is refused is charged to no limit, so each can be asked alone about the rest.
    kept = looked.is_look | answers.allowed
    looks = np.flatnonzero(looked.is_look[kept])
    rest = looked.events[kept]
    left = [replay(rest, [limit], columns=("remaining",)).remaining[looks] for limit in limiter.limits]
    remaining = np.array(left, np.float64).T
    used = 1 - remaining / np.maximum(1, remaining[0])
    used[locked] = 1
    times = looked.events.times
    refusals = times[~looked.is_look & ~answers.allowed]
    return _Levels(times[looked.looks], used, locked, refusals)


class _Looked(NamedTuple):
    """Events with looks between them; which of them are looks, and where these are."""

    events: Events
    is_look: npt.NDArray[np.bool_]
    looks: npt.NDArray[np.int64]


def _with_looks(events: Events) -> _Looked:
    """Return events with looks before and after each, or each that a figure can show, and in between."""
    first, last = int(events._times[0]), int(events._times[-1])
    between = np.linspace(first, last, _INSTANTS).astype(np.int64)
    times = np.concatenate([between, events._times])
    order = np.argsort(times, kind="stable")
    seen = order[_shown(times[order])]
    both = seen[seen >= _INSTANTS]
    whole = np.concatenate([times, times[seen], times[both]])
    costs = np.concatenate(
        [np.zeros(_INSTANTS, np.int64), events._costs, np.zeros(len(seen) + len(both), np.int64)]
    )
    # Of each step there is a look, what it is itself, and another look, in this order.
    place = np.empty(len(times), np.int64)
    place[order] = 3 * np.arange(1, len(times) + 1)
    places = np.concatenate([place, place[seen] - 1, place[both] + 1])
    rows = np.argsort(places, kind="stable")
    rows = rows[rows >= _INSTANTS]
    column = Column(None, np.zeros(len(rows), np.int32), np.array([_NAME], object))
    is_look = rows >= len(times)
    return _Looked(Events._of(whole[rows], [column], costs[rows]), is_look, np.flatnonzero(is_look))


def _shown(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return which steps are looked at: of very many a figure cannot show each."""
    if len(times) <= _MOST_LOOKS + _INSTANTS:
        return np.arange(len(times))
    closest = max(1, int(times[-1] - times[0]) // _MOST_LOOKS)
    return np.unique((times - times[0]) // closest, return_index=True)[1]
