"""Clients that react: those who are refused come back when they are told to, or hammer on."""

from __future__ import annotations

import heapq
import math
from bisect import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.texts import seconds_text, short_repr
from overlimit._options import whole_number
from overlimit.clocks import ManualClock
from overlimit.limiter import Limiter
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import Column
from overlimit.simulation.events.instants import instant_of, micros_of
from overlimit.simulation.events.labels import Label, unlabelled
from overlimit.simulation.policies import PolicyLike, limiter_of
from overlimit.simulation.progress import Advance, progress_bar
from overlimit.simulation.replaying import Replay, check_question, core_replay, replay
from overlimit.simulation.tables import labels_of_events, passed_in_time, peak
from overlimit.simulation.traffic import START, checked_number
from overlimit.stores import MemoryStore

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.limits.penalty import Penalty

_BYTES_PER_CLIENT = 16 << 10
_FASTEST_US = 100_000
_MOST_TRIES = 20_000_000

Behaviour: TypeAlias = Literal["retry", "hammer", "give up"]
"""What a request does that is refused: it comes back at ``retry_after``, at its client's pace, or never."""


@dataclass(frozen=True)
class Clients:
    """Clients of one kind, each with an identifier of its own and one request at a time.

    Parameters
    ----------
    count
        How many there are.
    rate
        Requests a second of each: after a request has passed, the next comes after an exponential time whose
        mean is 1 / rate.
    honours_retry_after
        Whether a client that is refused comes back after ``retry_after``. If not it hammers on: it comes back
        after an exponential time again.
    jitter
        By how much it comes back later at most, as a share of ``retry_after``: by a random part of that.
    gives_up_after
        After how many refusals in a row it drops the request; None: never.
    label
        What the kind is called; the identifiers are ``label-0``, ``label-1``, ... By default ``"patient"``,
        or ``"hammering"`` for those who do not honour ``retry_after``.
    """

    count: int
    rate: float
    honours_retry_after: bool = True
    jitter: float = 0.0
    gives_up_after: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _whole("count", self.count, least=0))
        checked_number("rate", self.rate, above_zero=True)
        checked_number("jitter", self.jitter)
        if self.gives_up_after is not None:
            object.__setattr__(self, "gives_up_after", _whole("gives_up_after", self.gives_up_after, least=1))
        if not isinstance(self.label, str):
            raise TypeError(f"label must be a str, not {short_repr(self.label)}")
        if not self.label:
            object.__setattr__(self, "label", "patient" if self.honours_retry_after else "hammering")

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(self)]
        honours = "yes" if self.honours_retry_after else "no"
        gives_up = "never" if self.gives_up_after is None else str(self.gives_up_after)
        row = (str(self.count), self.rate, honours, self.jitter, gives_up, self.label)
        return html_table("Clients", "", names, [row], left=(2, 5))


class _Loop:
    """A limiter whose clock is moved to each try, and the tries so far: when, and which.

    Of those who come at the same instant, the one with the smallest number goes first. Those of a group
    are asked one after the other until one is refused: then the rest are as well, and come back with it.
    """

    def __init__(self, limiter: Limiter, kind: _MadeUp | _Logged, count: int) -> None:
        self._clock, self._kind = ManualClock(), kind
        store = MemoryStore(2 * count + 1024, max(1 << 28, count * _BYTES_PER_CLIENT))
        self._limiter = Limiter(list(limiter.limits), penalty=limiter.penalty, store=store, clock=self._clock)
        self._coming: list[tuple[int, int, list[int]]] = []
        self._waiting: dict[tuple[int, Hashable], list[int]] = {}
        self.times: list[int] = []
        self.tried: list[int] = []

    def run(self, coming: Iterable[tuple[int, int]], end_us: int, advance: Advance) -> None:
        """Try what comes, in the order of its times, until an instant."""
        self._coming = [(time, which, [which]) for time, which in coming]
        heapq.heapify(self._coming)
        shown_until = self._coming[0][0] if self._coming else 0
        while self._coming and self._coming[0][0] < end_us:
            now, which, group = heapq.heappop(self._coming)
            if not group:  # which was tried when the first of them came
                continue
            self._waiting.pop((now, self._kind.group(which)), None)
            self._clock.set(now / 1e6)
            together = sorted(group)
            group.clear()
            self._try(together, now)
            if seconds := (now - shown_until) // 1_000_000:
                advance(seconds)
                shown_until += seconds * 1_000_000

    def _try(self, group: list[int], now: int) -> None:
        end = self._before_others(group, now)
        if rest := group[end:]:
            heapq.heappush(self._coming, (now, rest[0], rest))
        for k, which in enumerate(group[:end]):
            identifiers, cost = self._kind.asks(which)
            decision = self._limiter.hit(*identifiers, cost=cost)
            self._tell([which], now)
            wait = self._kind.wait_after(decision, which, now)
            if wait is None:
                continue
            self._come_again([which], now + wait)
            # With a penalty the first refusal begins a lock, and the second is by the lock.
            if not decision and (self._limiter.penalty is None or decision.status == "locked"):
                if others := group[k + 1 : end]:
                    self._tell(others, now)
                    self._come_again(others, now + wait)
                return

    def _before_others(self, group: list[int], now: int) -> int:
        """Return how many of a group go before others who come at the same instant: those who came first."""
        if not self._coming or self._coming[0][0] > now:
            return len(group)
        return bisect(group, self._coming[0][1])

    def _tell(self, group: list[int], now: int) -> None:
        self.times += [now] * len(group)
        self.tried += group
        if len(self.tried) > _MOST_TRIES:
            raise ValueError(
                f"these clients would try more than {_MOST_TRIES:,} times: have some of them give up, as by "
                "clients={'crawler': 'give up'}"
            )

    def _come_again(self, group: list[int], when: int) -> None:
        again = self._waiting.setdefault((when, self._kind.group(group[0])), [])
        if again and again[0] < group[0]:
            again += group
            return
        again[:0] = group  # the smallest number stays the first
        heapq.heappush(self._coming, (when, again[0], again))


class _MadeUp:
    """Clients of several kinds, each of which has one request at a time."""

    def __init__(self, kinds: Sequence[Clients], seed: int) -> None:
        self._kinds, self._random = kinds, Random(seed)
        self._kind_of = np.repeat(np.arange(len(kinds), dtype=np.int32), [kind.count for kind in kinds])
        self.names = [f"{kind.label}-{k}" for kind in kinds for k in range(kind.count)]
        self._refusals = [0] * len(self.names)

    def coming(self, start_us: int) -> list[tuple[int, int]]:
        kinds = enumerate(self._kind_of.tolist())
        return [(start_us + self._pause(self._kinds[kind]), client) for client, kind in kinds]

    def asks(self, client: int) -> tuple[tuple[Label, ...], int]:
        return (self.names[client],), 1

    def group(self, client: int) -> Hashable:
        return client  # each has an identifier of its own

    def wait_after(self, decision: Decision, client: int, _: int) -> int | None:
        if decision.status == "never":
            return None
        kind = self._kinds[self._kind_of[client]]
        self._refusals[client] = 0 if decision else self._refusals[client] + 1
        if decision or self._refusals[client] == kind.gives_up_after:
            self._refusals[client] = 0
            return round(decision.delay * 1e6) + self._pause(kind)
        if not kind.honours_retry_after:
            return self._pause(kind)
        later = 1 + kind.jitter * self._random.random() if kind.jitter else 1
        return max(1, round(decision.retry_after * 1e6 * later))

    def _pause(self, kind: Clients) -> int:
        return round(self._random.expovariate(kind.rate) * 1e6)

    def events(self, loop: _Loop) -> Events:
        clients = np.array(loop.tried, np.int32)
        labels = np.array([kind.label for kind in self._kinds], object)
        return Events._of(
            np.array(loop.times, np.int64),
            [Column(None, clients, np.array(self.names, object))],
            np.broadcast_to(np.int64(1), len(clients)),
            {"label": Column(None, self._kind_of[clients], labels)},
        )


class _Logged:
    """The requests of a log, each of which is tried until it passes or is dropped."""

    def __init__(self, events: Events, behaviours: Sequence[str]) -> None:
        self._behaviours, self._paces = behaviours, _paces(events)
        self._came = events._times.tolist()
        each = map(events._event, range(len(events)))
        self._asks = [(event.identifiers, event.cost) for event in each]
        self.delays = np.full(len(events), np.nan)

    def asks(self, request: int) -> tuple[tuple[Label, ...], int]:
        return self._asks[request]

    def group(self, request: int) -> Hashable:
        return self._asks[request], self._behaviours[request]

    def wait_after(self, decision: Decision, request: int, now: int) -> int | None:
        if decision:
            self.delays[request] = (now - self._came[request]) / 1e6 + decision.delay
            return None
        behaviour = self._behaviours[request]
        if behaviour == "give up" or decision.status == "never":
            self.delays[request] = np.inf
            return None
        if behaviour == "hammer" and self._paces[request]:
            return self._paces[request]
        return max(1, round(decision.retry_after * 1e6))


def _paces(events: Events) -> list[int]:
    """Return the median gap of each event's client in us, at least `_FASTEST_US`; 0 for one with no gap."""
    clients, names = events._codes_of()
    order = np.argsort(clients, kind="stable")
    is_same = np.diff(clients[order]) == 0
    whose, gaps = clients[order][1:][is_same], np.diff(events._times[order])[is_same]
    gaps = gaps[np.lexsort((gaps, whose))]
    counts = np.bincount(whose, minlength=len(names))
    middle = np.cumsum(counts) - (counts + 1) // 2 - (counts == 0)
    paces = np.where(counts > 0, np.maximum(_FASTEST_US, np.append(gaps, 0)[middle]), 0)
    found: list[int] = paces[clients].tolist()
    return found


def _behaviours(events: Events, clients: object) -> list[str]:
    """Return what the client of each event does when it is refused."""
    by_label = clients if isinstance(clients, Mapping) else {}
    for behaviour in by_label.values() if isinstance(clients, Mapping) else [clients]:
        if behaviour not in get_args(Behaviour):
            known = ", ".join(map(repr, get_args(Behaviour)))
            raise ValueError(f"clients must be one of {known}, or a dict of them by label, not {behaviour!r}")
    if not isinstance(clients, Mapping):
        return [str(clients)] * len(events)
    labels = labels_of_events(events) or unlabelled(len(events))
    names = labels.compact().labels.tolist()
    if unknown := [label for label in by_label if label and label not in names]:
        raise ValueError(
            f"clients: no event has the label {unknown[0]!r}: events.with_labels(...) gives some"
        )
    of_labels = [by_label.get(label, "retry") for label in (*labels.labels, "")]
    return [of_labels[code] for code in labels.codes.tolist()]


class ClosedLoop(Replay):
    """What would have become of the requests of a log whose clients react; ``closed_loop`` makes it.

    It is a Replay of all tries: its ``events`` are the requests, some of them several times.

    Attributes
    ----------
    requests : Events
        The requests of the log.
    delays : numpy.ndarray of float64
        For each of them how many seconds after its first try it passed: 0 at once, infinity if it was
        dropped, NaN if it was still waiting when the log ended.
    dropped, waiting : int
        How many were dropped: given up, or too large ever to pass; and how many were still waiting.
    peak_1s, peak_60s : int
        The most cost that passed in any second and in any 60 seconds.
    """

    def __init__(self, tries: Replay, requests: Events, delays: npt.NDArray[np.float64]) -> None:
        super().__init__(tries.events, tries._limiter, tries._columns)
        self.requests, self.delays = requests, requests._as_given(delays)
        self.dropped, self.waiting = (int(np.count_nonzero(is_so(delays))) for is_so in (np.isinf, np.isnan))
        passed = passed_in_time(self)
        times, costs = self.events._times[passed], self.events._costs[passed]
        self.peak_1s, self.peak_60s = (peak(times, costs, seconds * 1_000_000) for seconds in (1, 60))

    def _asked(self) -> str:
        late = self.delays[np.isfinite(self.delays) & (self.delays > 0)]
        delays = ""
        if len(late):
            delays = f" ({seconds_text(np.median(late))} in the median, {seconds_text(late.max())} at most)"
        return (
            f"{len(self.requests):,} requests, tried {len(self):,} times under "
            f"{'; '.join(map(str, self.limits))}: {len(late):,} delayed{delays}, {self.dropped:,} dropped, "
            f"{self.waiting:,} still waiting"
        )


@overload
def closed_loop(
    events: Events,
    limits: PolicyLike,
    *,
    clients: Behaviour | Mapping[Label, Behaviour] = "retry",
    penalty: Penalty | None = None,
    progress: bool | None = None,
) -> ClosedLoop: ...
@overload
def closed_loop(
    clients: Clients | Sequence[Clients],
    /,
    limits: PolicyLike,
    duration: float,
    seed: int = 0,
    *,
    penalty: Penalty | None = None,
    start: object = START,
    progress: bool | None = None,
) -> Replay: ...
def closed_loop(
    events: Any = None,
    limits: Any = None,
    duration: float | None = None,
    seed: int = 0,
    *,
    clients: Any = None,
    penalty: Penalty | None = None,
    start: object = START,
    progress: bool | None = None,
) -> Replay:
    """Return what clients that react to refusals would have sent, and what limits would have answered.

    A log says what came under the limits of its day. Refused clients come back: at ``retry_after``, all at
    the same moment perhaps, or at once and again. This lets them: those of a log, or made-up ones.

    Parameters
    ----------
    events
        The events of a log; or ``Clients`` that are made up, or several kinds of them, which may also be
        given as ``clients=``.
    limits
        Limits as ``Limiter`` takes them, a Limiter (its limits and penalty), or ``(limits, penalty)``.
    duration
        Of made-up clients: how long it lasts, in seconds. That of a log ends with its last event.
    seed
        Of made-up clients: another number gives other clients of the same kinds.
    clients
        Of a log: what refused requests do, each by itself. They ``"retry"`` when ``retry_after`` is over, the
        default, ``"hammer"`` at the pace of their client (the median gap between its requests, at least 0.1
        s), or ``"give up"``. Or a dict of these by label; other labels retry. Of those that come at the same
        microsecond, the one that is earlier in the log goes first.
    penalty
        A Penalty in place of the policy's own.
    start
        Of made-up clients: when it starts: seconds since the Unix epoch, a datetime or a text in ISO 8601.
    progress
        Whether to show a bar (tqdm).

    Returns
    -------
    ClosedLoop
        Of a log: when each request passed, what was dropped, and the answer to every try.
    Replay
        Of made-up clients: the answers; its ``events`` are what was sent, labelled by the kinds. A client
        whose request can never pass is gone.

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        An argument is out of range, two kinds have the same label, or there are no events.

    Notes
    -----
    A million requests take some seconds. Of a log that is far above the limits, as that of a crawler, each of
    whose requests waits, the tries may be many: past 20 million it is an error that says so.
    """
    if isinstance(events, Events):
        if duration is not None:
            raise ValueError(
                "duration is for Clients: requests of a log come at their own times, so leave it out"
            )
        return _of_log(events, limiter_of(limits, penalty), "retry" if clients is None else clients, progress)
    kinds = _checked_kinds(clients if events is None else events)
    limiter = limiter_of(limits, penalty)
    duration = checked_number("duration", duration)
    start_us = instant_of(start)
    end_us = start_us + round(duration * 1e6)
    if micros_of(end_us, "us") is None:
        raise ValueError("this ends past 2**53 - 2**50 us since 1970, which is in the year 2219")
    made_up = _MadeUp(kinds, seed)
    loop = _Loop(limiter, made_up, len(made_up.names))
    with progress_bar(math.ceil(duration), shown=progress, unit="seconds") as bar:
        loop.run(made_up.coming(start_us), end_us, bar)
    return replay(made_up.events(loop), limiter)


def _of_log(events: Events, limiter: Limiter, clients: object, progress: bool | None) -> ClosedLoop:
    check_question(events)
    core_replay(events, limiter)  # which raises for an event that is too large for one call
    logged = _Logged(events, _behaviours(events, clients))
    loop = _Loop(limiter, logged, len(events))
    first, end_us = int(events._times[0]), int(events._times[-1]) + 1
    with progress_bar((end_us - first) // 1_000_000, shown=progress, unit="seconds") as bar:
        loop.run(zip(events._times.tolist(), range(len(events)), strict=True), end_us, bar)
    tries = events._copies(np.array(loop.tried), np.array(loop.times, np.int64))
    return ClosedLoop(replay(tries, limiter), events, logged.delays)


def _checked_kinds(clients: object) -> Sequence[Clients]:
    kinds = [clients] if isinstance(clients, Clients) else clients
    if (
        isinstance(kinds, (str, Mapping))
        or not isinstance(kinds, Sequence)
        or not all(isinstance(kind, Clients) for kind in kinds)
    ):
        raise TypeError(f"clients must be Clients(count, rate), or a list of them, not {short_repr(clients)}")
    labels = [kind.label for kind in kinds]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"two kinds of clients are called {label!r}: give one another label=")
    return kinds


def _whole(name: str, value: object, least: int) -> int:
    wrong = f"{name} must be a whole number from {least}, not {short_repr(value)}"
    whole = whole_number(value)
    if whole is None:
        raise TypeError(wrong)
    if whole < least:
        raise ValueError(wrong)
    return whole
