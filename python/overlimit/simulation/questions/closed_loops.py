"""Clients that react: those who are refused come back when they are told to, or hammer on."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from overlimit._display import html_table
from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.clocks import ManualClock
from overlimit.limiter import Limiter
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import Column
from overlimit.simulation.events.instants import instant_of, micros_of
from overlimit.simulation.progress import Advance, progress_bar
from overlimit.simulation.replaying import PolicyLike, Replay, limiter_of, replay
from overlimit.simulation.traffic import START, checked_number
from overlimit.stores import MemoryStore

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.limits.penalty import Penalty

_BYTES_PER_CLIENT = 16 << 10


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
    """The clients, the limiter that they ask, and what they have asked so far."""

    def __init__(self, kinds: Sequence[Clients], limiter: Limiter, start_us: int, seed: int) -> None:
        self.kinds, self._random, self._start = kinds, Random(seed), start_us
        self.kind_of = np.repeat(np.arange(len(kinds), dtype=np.int32), [kind.count for kind in kinds])
        self.names = [f"{kind.label}-{k}" for kind in kinds for k in range(kind.count)]
        self._clock = ManualClock()
        store = MemoryStore(2 * len(self.names) + 1024, max(1 << 28, len(self.names) * _BYTES_PER_CLIENT))
        self._limiter = Limiter(list(limiter.limits), penalty=limiter.penalty, store=store, clock=self._clock)
        self._refusals = [0] * len(self.names)
        self.times: list[int] = []
        self.clients: list[int] = []

    def run(self, end_us: int, advance: Advance) -> None:
        kinds = [self.kinds[k] for k in self.kind_of.tolist()]
        coming = [(self._start + self._pause(kind), client) for client, kind in enumerate(kinds)]
        heapq.heapify(coming)
        shown_until = self._start
        while coming and coming[0][0] < end_us:
            now, client = coming[0]
            self.times.append(now)
            self.clients.append(client)
            self._clock.set(now / 1e6)
            wait = self._wait_after(self._limiter.hit(self.names[client]), client, kinds[client])
            if wait is None:
                heapq.heappop(coming)
            else:
                heapq.heapreplace(coming, (now + wait, client))
            if seconds := (now - shown_until) // 1_000_000:
                advance(seconds)
                shown_until += seconds * 1_000_000

    def _wait_after(self, decision: Decision, client: int, kind: Clients) -> int | None:
        """Return in how many microseconds the client comes again; None: not at all."""
        if decision.status == "never":
            return None
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

    def events(self) -> Events:
        clients = np.array(self.clients, np.int32)
        labels = np.array([kind.label for kind in self.kinds], object)
        return Events._of(
            np.array(self.times, np.int64),
            [Column(None, clients, np.array(self.names, object))],
            np.broadcast_to(np.int64(1), len(clients)),
            Column(None, self.kind_of[clients], labels),
        )


def closed_loop(
    clients: Clients | Sequence[Clients],
    limits: PolicyLike,
    duration: float,
    seed: int = 0,
    *,
    penalty: Penalty | None = None,
    start: object = START,
    progress: bool | None = None,
) -> Replay:
    """Return what clients that react to refusals would have sent, and what limits would have answered.

    A log says what came under the limits of its day. Refused clients come back: at ``retry_after``, all at
    the same moment perhaps, or at once and again. This lets them.

    Parameters
    ----------
    clients
        The clients, or several kinds of them.
    limits
        Limits as ``Limiter`` takes them, a Limiter (its limits and penalty), or ``(limits, penalty)``.
    duration
        How long it lasts, in seconds.
    seed
        Another number gives other clients of the same kinds.
    penalty
        A Penalty in place of the policy's own.
    start
        When it starts: seconds since the Unix epoch, a datetime or a text in ISO 8601.
    progress
        Whether to show a bar (tqdm).

    Returns
    -------
    Replay
        The answers; its ``events`` are what was sent, labelled by the kinds. A client whose request can
        never pass is gone.

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        An argument is out of range, or two kinds have the same label.
    """
    kinds = _checked_kinds(clients)
    limiter = limiter_of(limits, penalty)
    checked_number("duration", duration)
    start_us = instant_of(start)
    end_us = start_us + round(duration * 1e6)
    if micros_of(end_us, "us") is None:
        raise ValueError("this ends past 2**53 - 2**50 us since 1970, which is in the year 2219")
    loop = _Loop(kinds, limiter, start_us, seed)
    with progress_bar(math.ceil(duration), shown=progress, unit="seconds") as bar:
        loop.run(end_us, bar)
    return replay(loop.events(), limiter)


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
