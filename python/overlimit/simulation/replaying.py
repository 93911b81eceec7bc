"""Replaying events: what limits would have answered to each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from overlimit import _core
from overlimit._display import html_table
from overlimit._messages.texts import nearest, percent, short_repr
from overlimit.limiter import Limiter
from overlimit.limits.penalty import Penalty
from overlimit.route_charges import LimitsRoutes
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.policies import PolicyLike, policy_of
from overlimit.simulation.progress import Advance, progress_bar, unseen
from overlimit.simulation.routes import RouteReplay
from overlimit.simulation.tables import Answers, most_refused, summary

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import polars
    import pyarrow
    from matplotlib.axes import Axes

    from overlimit.simulation.tables import Every

_TYPES: Final = {
    "allowed": np.bool_,
    "status": np.uint8,
    "remaining": np.int64,
    "retry_after": np.float64,
    "reset_after": np.float64,
    "delay": np.float64,
    "limit": np.int16,
    "identifier": np.int16,
}

_SECONDS_PER_STEP = 0.05


class Replay(Answers):
    """What limits would have answered to events: columns with a row for each, in the order of the events.

    Attributes
    ----------
    allowed : numpy.ndarray of bool
        Whether the event passed.
    status : numpy.ndarray of uint8
        Why, as a place in ``Replay.STATUSES``.
    remaining : numpy.ndarray of int64
        Cost units that the binding limit still grants after the event.
    retry_after, reset_after, delay : numpy.ndarray of float64
        Seconds, as of a Decision; infinity for never.
    limit, identifier : numpy.ndarray of int16
        Which of ``limits`` binds, and which column of the event's identifiers.
    events : Events
        The events that were replayed.
    limits : tuple of Limit
        The limits, in the order given.
    penalty : Penalty or None
        What happened to identifiers that went over a limit.

    Notes
    -----
    A column that was not computed raises AttributeError.
    """

    def __init__(
        self,
        events: Events,
        limiter: Limiter | LimitsRoutes,
        columns: dict[str, npt.NDArray[Any]],
        routes: RouteReplay | None = None,
    ) -> None:
        self.events = events
        decided = cast(Limiter, limiter) if routes is None else routes
        self.limits = decided.limits
        self.penalty = decided.penalty
        self.titles = [*map(str, decided.limits)] if routes is None else routes.titles
        self._limiter = limiter
        self._columns = columns

    @property
    def refused(self) -> int:
        """How many events were refused."""
        return len(self) - int(np.count_nonzero(self._columns["allowed"]))

    @property
    def refused_share(self) -> float:
        """The share of events that were refused, from 0 to 1; 0 without events."""
        return self.refused / len(self) if len(self) else 0.0

    def summary(self) -> pd.DataFrame:
        """Return what each limit did, a row per limit, and a row ``"lock"`` where there is a penalty.

        Its columns are ``refused`` (events), ``refused_alone`` (of these, events that nothing else refused),
        ``least_left`` (the smallest ``remaining`` of an identifier that was not locked, as a share of the
        most that the limit can grant) and ``longest_retry_after`` (seconds, over all its refusals). Replays
        the events once more. Raises ImportError without pandas, and TypeError for limits of routes, of which
        `by_limit` tells.
        """
        core = core_replay(self.events, self._limiter)
        if isinstance(core, RouteReplay):
            raise TypeError("limits of routes have no summary: by_limit() says what each of them refused")
        core.start_tallies()
        run(core, self.events, {})
        return summary(self, core.tallies())

    def plot(
        self,
        every: Every | None = None,
        *,
        timezone: str = "UTC",
        title: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw what was sent, passed and refused over time; `plot_timeline` says more."""
        from overlimit.simulation.figures.replays import plot_timeline

        return plot_timeline(self, every, timezone=timezone, title=title, ax=ax)

    def to_arrow(self) -> pyarrow.Table:
        """Return the table of `to_pandas` as one of Arrow; raise ModuleNotFoundError without pyarrow."""
        table, frame = self.events.to_arrow(), self.to_pandas()
        for name in frame.columns[table.num_columns :]:
            table = table.append_column(name, required("pyarrow", "to_arrow").array(frame[name]))
        return table

    def to_polars(self) -> polars.DataFrame:
        """Return the table of `to_arrow` as one of polars; raise ModuleNotFoundError without it."""
        frame: polars.DataFrame = required("polars", "to_polars").from_arrow(self.to_arrow())
        return frame

    def _retry_after(self) -> npt.NDArray[np.float64]:
        """Return the column ``retry_after``, from another replay if it was not computed."""
        if "retry_after" in self._columns:
            return self._columns["retry_after"]
        answers = _empty_columns(("retry_after",), len(self))
        run(core_replay(self.events, self._limiter), self.events, answers)
        return answers["retry_after"]

    def __len__(self) -> int:
        return len(self.events)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            return columns[name]  # type: ignore[no-any-return]
        if name in _TYPES:
            raise AttributeError(
                f"{name} was not computed: this replay has the columns {', '.join(columns)}; "
                f"write replay(..., columns=({', '.join(map(repr, [*columns, name]))}))"
            )
        raise AttributeError(f"a Replay has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._asked()}>"

    def _repr_html_(self) -> str:
        head = ("most refused", "sent", "passed", "refused")
        return html_table(type(self).__name__, self._asked(), head, most_refused(self))

    def _asked(self) -> str:
        refused = f"{self.refused:,} refused ({percent(self.refused_share)})"
        return f"{len(self):,} events under {'; '.join(map(str, self.limits))}: {refused}"


def replay(
    events: Events,
    limits: PolicyLike | LimitsRoutes,
    *,
    penalty: Penalty | None = None,
    columns: Sequence[str] = tuple(_TYPES),
    progress: bool | None = None,
) -> Replay:
    """Return what limits would have answered to events, each at its own time.

    The answers are those of ``Limiter(limits, penalty=penalty).hit(...)`` with a ManualClock set to the time
    of each event, on a memory store without bounds.

    Parameters
    ----------
    events
        What happened.
    limits
        Limits as ``Limiter`` takes them, a Limiter (its limits and penalty), or ``(limits, penalty)``; or
        limits of routes: `RouteLimits`, a RateLimit or a RateLimitMiddleware of an app, or
        ``overlimit.django.get_limits()``. Of an app, functions that need a request are not asked; a warning
        names what is left out for that reason.
    penalty
        A Penalty in place of the policy's own.
    columns
        Which columns to compute; ``allowed`` always is. Fewer take less time and memory.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        For a column that does not exist, or an event that is too large for one call: it names the row.
    """
    check_events(events)
    limiter = policy_of(limits, penalty)
    answers = _empty_columns(columns, len(events))
    core = core_replay(events, limiter)
    with progress_bar(len(events), shown=progress) as bar:
        run(core, events, answers, bar)
    return Replay(events, limiter, answers, core if isinstance(core, RouteReplay) else None)


def check_events(events: object) -> None:
    """Raise TypeError unless they are Events."""
    if not isinstance(events, Events):
        raise TypeError(
            f"events must be Events, such as Events(times, identifiers), not {short_repr(events)}"
        )


def check_question(events: object) -> None:
    """Raise TypeError unless they are Events, and ValueError if there are none."""
    check_events(events)
    if not len(events):  # type: ignore[arg-type]
        raise ValueError("events must not be empty: there is nothing to ask about")


def allowed_in_time(
    events: Events, limiter: Limiter | LimitsRoutes, advance: Advance = unseen
) -> npt.NDArray[np.bool_]:
    """Return whether each event would have passed, in the order of times."""
    answers = _empty_columns(("allowed",), len(events))
    run(core_replay(events, limiter), events, answers, advance, in_order_given=False)
    return answers["allowed"]


def core_replay(events: Events, limiter: Limiter | LimitsRoutes) -> _core.Replay | RouteReplay:
    """Return a replay that has not begun; raise ValueError for an event too large for a call."""
    if not isinstance(limiter, Limiter):
        return RouteReplay(limiter, events)
    core = _core.Replay(limiter, [len(column.labels) for column in events._columns])
    most = min(_core.MAX_IDENTIFIERS, _core.MAX_CELLS // max(1, core.max_cells))
    if len(events._columns) <= most:
        return core
    counts = np.sum([column.codes >= 0 for column in events._columns], axis=0)
    if np.any(too_large := counts > most):
        rows = np.flatnonzero(too_large)
        first = rows[events.order[rows].argmin()]
        raise ValueError(
            f"row {events.order[first]} names {counts[first]} identifiers, and a call under "
            f"these limits names at most {most}: use fewer columns, a coarser precision or smaller logs"
        )
    return core


def run(
    core: _core.Replay | RouteReplay,
    events: Events,
    answers: dict[str, npt.NDArray[Any]],
    advance: Advance = unseen,
    *,
    in_order_given: bool = True,
) -> None:
    """Replay all events, in steps that are short enough for Ctrl-C between them."""
    codes = [np.ascontiguousarray(column.codes) for column in events._columns]
    times, costs = np.ascontiguousarray(events._times), _costs_of(events)
    places = events._order if in_order_given else None
    writable = {
        name: column.view(np.uint8) if name == "allowed" else column for name, column in answers.items()
    }
    for first, last in _steps(len(events)):
        core.run(times, codes, costs, places, writable, first, last)
        advance(last - first)


def _costs_of(events: Events) -> npt.NDArray[np.int64] | None:
    """Return a column of costs; None: each costs 1, so that none need be made and read."""
    is_constant = not events._costs.strides[0]
    return None if is_constant and np.all(events._costs[:1] == 1) else np.ascontiguousarray(events._costs)


def _steps(count: int) -> Iterator[tuple[int, int]]:
    """Cut the events into steps that take about so long each."""
    first, size = 0, 1024
    while first < count:
        last = min(count, first + size)
        before = time.perf_counter()
        yield first, last
        took = time.perf_counter() - before
        size = int(size * min(4.0, max(0.25, _SECONDS_PER_STEP / max(took, 1e-9)))) or 1
        first = last


def _empty_columns(names: Sequence[str], rows: int) -> dict[str, npt.NDArray[Any]]:
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in _TYPES:
            like = nearest(str(name), _TYPES)
            instead = f"; did you mean {like!r}?" if like else ""
            raise ValueError(f"columns must be of {', '.join(_TYPES)}, not {short_repr(name)}{instead}")
    return {name: np.empty(rows, kind) for name, kind in _TYPES.items() if name == "allowed" or name in names}
