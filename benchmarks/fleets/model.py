"""A fleet as discrete events: processes that are busy with one call after the other, and their server."""

from __future__ import annotations

import heapq
import itertools
import random
import statistics
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from fleets.rules import Lease, Leases, Refusals
from fleets.server import Answer, Limits, Records, Server, Speed, bounds_of
from fleets.traffic import Arrival, Traffic
from measuring.turns import quantile

SAMPLES = 200
"""So often it is looked at what is held."""
PAUSE = 0.1
"""Seconds after a failure for which the calls of a process fail at once, as its breaker is open."""


@dataclass(frozen=True)
class Fleet:
    """Processes of hosts, with the options of their stores."""

    limits: Limits
    hosts: int = 1
    workers: int = 1
    """Processes of each host."""
    threads: int = 1
    """Calls that a process makes at once."""
    lease: float = 0.0
    max_stale: float | None = None
    """Seconds; None: as ``lease``."""
    per_host: bool = False
    """Whether the processes of a host lease as one."""
    speed: Speed = field(default_factory=Speed)
    timeout: float = 0.1
    failovers: int = 0
    lag: float = 0.0
    """Seconds by which the replica is behind that takes over."""
    down: float = 0.0
    """Seconds for which nobody answers then."""
    deaths: int = 0
    """Processes that are killed, and start again."""

    @property
    def processes(self) -> int:
        return self.hosts * self.workers


@dataclass
class Outcome:
    """What became of the calls of a fleet."""

    seconds: float
    decisions: int
    commands: int
    admitted: int
    over: int
    """Admitted beyond what a strict server admits at the same instants."""
    sources: dict[str, int]
    load: float
    """The share of its time for which the server computes."""
    p50: float
    p99: float
    """Seconds from a call to its answer."""
    held: float
    """Units that are leased and not spent, on average."""
    returned: int
    lapsed: int

    @property
    def per_decision(self) -> float:
        return self.commands / max(1, self.decisions)

    @property
    def per_second(self) -> float:
        return self.commands / self.seconds

    def told(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            **asdict(self),
            "commands_per_decision": self.per_decision,
            "commands_per_second": self.per_second,
        }


def simulated(fleet: Fleet, traffic: Traffic) -> Outcome:
    """Have a fleet meet its traffic; ValueError for a limit that is not modelled."""
    return Simulation(fleet, traffic).run()


class Simulation:
    """Events in the order of their times."""

    def __init__(self, fleet: Fleet, traffic: Traffic) -> None:
        self.fleet, self.traffic = fleet, traffic
        self.server = Server(fleet.limits, fleet.speed, lag=fleet.lag, down=fleet.down)
        self.now = 0.0
        self.numbers = itertools.count()
        self.sources: Counter[str] = Counter()
        self.admitted: list[tuple[float, str]] = []
        self.latencies: list[float] = []
        self._held: list[int] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        life = bounds_of(fleet.limits, fleet.lease).lease
        self._leases = [Leases(life) for _ in range(fleet.hosts if fleet.per_host else fleet.processes)]
        self._processes = [Process(self, self._leases_of(each)) for each in range(fleet.processes)]

    def _leases_of(self, process: int) -> Leases:
        return self._leases[process // self.fleet.workers if self.fleet.per_host else process]

    def at(self, time: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self.numbers), event))

    def run(self) -> Outcome:
        for arrival in self.traffic.arrivals(self.fleet.processes):
            self.at(arrival.time, partial(self._processes[arrival.process].call, arrival))
        for number in range(SAMPLES):
            self.at(self.traffic.seconds * number / SAMPLES, self._look)
        self._disturb(random.Random(self.traffic.seed))
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()
        for leases in self._leases:
            self._close(leases)
        return self._outcome()

    # As processes do that end.
    def _close(self, leases: Leases) -> None:
        for lease, rest in leases.take_ended(float("inf")):
            leases.returned += rest
            self.server.give_back(self.now, lease.number, rest)

    def _look(self) -> None:
        self._held.append(sum(leases.held for leases in self._leases))

    def _disturb(self, chance: random.Random) -> None:
        for number in range(self.fleet.failovers):
            time = self.traffic.seconds * (number + 1) / (self.fleet.failovers + 1)
            self.at(time, lambda: self.server.fail_over(self.now))
        for _ in range(self.fleet.deaths):
            self.at(chance.uniform(0, self.traffic.seconds), chance.choice(self._processes).die)

    def _outcome(self) -> Outcome:
        latencies = sorted(self.latencies)
        return Outcome(
            self.traffic.seconds,
            len(latencies),
            self.server.commands,
            len(self.admitted),
            over(self.fleet.limits, self.admitted),
            dict(self.sources),
            self.server.busy / self.traffic.seconds,
            quantile(latencies, 0.5) if latencies else 0.0,
            quantile(latencies, 0.99) if latencies else 0.0,
            statistics.fmean(self._held),
            sum(each.returned for each in self._leases),
            sum(each.lapsed for each in self._leases),
        )


def over(limits: Limits, admitted: Sequence[tuple[float, str]]) -> int:
    """Return how many of these calls a server refuses that is asked for each at its time."""
    records = Records(limits)
    return sum(not records.decide(time, identifier, 0).allowed for time, identifier in sorted(admitted))


class Process:
    """Makes calls in as many threads as it has, the others wait."""

    def __init__(self, simulation: Simulation, leases: Leases) -> None:
        fleet = simulation.fleet
        self._simulation, self._leases = simulation, leases
        self._refusals = Refusals(fleet.lease if fleet.max_stale is None else fleet.max_stale)
        self._free = fleet.threads
        self._waiting: deque[Arrival] = deque()
        self._fails_until = 0.0

    def call(self, arrival: Arrival) -> None:
        self._waiting.append(arrival)
        self._go_on()

    def _go_on(self) -> None:
        while self._free > 0 and self._waiting:
            self._decide(self._waiting.popleft())

    def _decide(self, call: Arrival) -> None:
        now, identifier = self._simulation.now, call.identifier
        if self._leases.spend(now, identifier):
            self._end(call, "lease", now)
        elif self._refusals.refuse(now, identifier, self._leases.next_turn(identifier)):
            self._end(call, "refusal", None)
        elif now < self._fails_until:
            self._end(call, "failed", None)
        else:
            self._free -= 1
            self._ask(call)

    # What is left of leases that have ended goes in front of the command.
    def _ask(self, call: Arrival) -> None:
        simulation, sent_at = self._simulation, self._simulation.now
        wanted = self._leases.ask(sent_at, call.identifier)
        ended = self._leases.take_ended(sent_at)
        for lease, _ in ended:
            self._refusals.forget(lease.identifier)
        number = next(simulation.numbers)
        arrives_at = sent_at + simulation.fleet.speed.round_trip / 2
        simulation.at(arrives_at, lambda: self._arrive(call, sent_at, wanted, number, ended))

    def _arrive(
        self, call: Arrival, sent_at: float, wanted: int, number: int, ended: list[tuple[Lease, int]]
    ) -> None:
        simulation, units = self._simulation, sum(rest for _, rest in ended)
        if not simulation.server.is_up(simulation.now):
            self._leases.lapsed += units + wanted
            simulation.at(sent_at + simulation.fleet.timeout, lambda: self._fail(call))
            return
        self._leases.returned += units
        for lease, rest in ended:
            simulation.server.give_back(simulation.now, lease.number, rest)
        answer, sent = simulation.server.decide(simulation.now, call.identifier, number, wanted)
        comes_at = sent + simulation.fleet.speed.round_trip / 2
        simulation.at(comes_at, lambda: self._answered(call, sent_at, wanted, number, answer))

    def _answered(self, call: Arrival, sent_at: float, wanted: int, number: int, answer: Answer) -> None:
        self._refusals.told(call.identifier, sent_at, answer)
        self._leases.answered(call.identifier, sent_at, wanted, number, answer)
        self._free += 1
        self._end(call, "store", answer.shown if answer.allowed else None)
        self._go_on()

    def _fail(self, call: Arrival) -> None:
        self._fails_until = self._simulation.now + PAUSE
        self._free += 1
        self._end(call, "failed", None)
        self._go_on()

    def _end(self, call: Arrival, source: str, admitted_at: float | None) -> None:
        simulation = self._simulation
        simulation.sources[source] += 1
        simulation.latencies.append(simulation.now - call.time)
        if admitted_at is not None:
            simulation.admitted.append((admitted_at, call.identifier))

    def die(self) -> None:
        """Begin anew; leases of a host go on without it."""
        self._refusals.forget_all()
        if not self._simulation.fleet.per_host:
            self._leases.die()
