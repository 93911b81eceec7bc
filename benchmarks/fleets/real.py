"""The same traffic by real processes on a real redis-server, beside the model: how far they agree."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

import redis

from fleets.model import Fleet, simulated
from fleets.server import Limits, Speed
from fleets.traffic import Arrival, Traffic
from overlimit import Limiter, RedisStore

PATIENCE = 60.0
TIMEOUT = 5.0
TOLERANCE = 0.15
FEW = 20
"""Differences of so few commands or calls are those of chance."""
LATE, TRIES = 0.01, 3
"""A run of a machine that was busy with something else is made again: by how late calls came, in seconds."""


@dataclass(frozen=True)
class Counted:
    """What real processes, or simulated ones, came to."""

    decisions: int
    commands: int
    admitted: int
    seconds: float
    late: float = 0.0
    """How late a call was at the 99th percentile, in seconds: the machine was busy with something else."""

    @property
    def per_decision(self) -> float:
        return self.commands / max(1, self.decisions)

    @property
    def per_second(self) -> float:
        return self.commands / self.seconds


@dataclass(frozen=True)
class Comparison:
    """A fleet as it was and as it was simulated."""

    name: str
    fleet: Fleet
    real: Counted
    model: Counted

    def differences(self) -> dict[str, float]:
        """Return by what part of the real figure the simulated one differs."""
        pairs = {
            "commands": (self.real.commands, self.model.commands),
            "admitted": (self.real.admitted, self.model.admitted),
        }
        return {name: (model - real) / max(1, real) for name, (real, model) in pairs.items()}

    def agrees(self) -> bool:
        return all(
            abs(part) <= TOLERANCE or abs(getattr(self.model, name) - getattr(self.real, name)) <= FEW
            for name, part in self.differences().items()
        )

    def told(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "processes": self.fleet.processes,
            "lease": self.fleet.lease,
            "per_host": self.fleet.per_host,
            "real": {**vars(self.real), "commands_per_decision": self.real.per_decision},
            "simulated": {**vars(self.model), "commands_per_decision": self.model.per_decision},
            "differences": self.differences(),
            "agrees": self.agrees(),
        }


def compared(name: str, fleet: Fleet, traffic: Traffic, socket: str, speed: Speed) -> Comparison:
    """Have processes meet some traffic, and the model too, at the speed that was measured."""
    real = met(fleet, traffic, socket)
    for _ in range(TRIES - 1):
        if real.late <= LATE:
            break
        real = met(fleet, traffic, socket)
    model = simulated(Fleet(**{**vars(fleet), "speed": speed}), traffic)
    return Comparison(
        name, fleet, real, Counted(model.decisions, model.commands, model.admitted, traffic.seconds)
    )


def met(fleet: Fleet, traffic: Traffic, socket: str) -> Counted:
    """Have a process for each of the fleet make its calls when they are due, and count the commands."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(fleet.processes + 1), context.Queue()
    arrivals = traffic.arrivals(fleet.processes)
    with redis.Redis(unix_socket_path=socket) as client, tempfile.TemporaryDirectory() as folder:
        options = options_of(fleet, folder)
        workers = [
            context.Process(
                target=work, args=(fleet.limits, socket, options, calls_of(arrivals, each), start, answers)
            )
            for each in range(fleet.processes)
        ]
        client.flushall()
        for worker in workers:
            worker.start()
        start.wait(PATIENCE)
        client.config_resetstat()
        start.wait(PATIENCE)
        told = [answers.get(timeout=traffic.seconds + PATIENCE) for _ in workers]
        for worker in workers:
            worker.join()
        commands = scripts_run(client)
    return Counted(
        len(arrivals), commands, sum(each for each, _ in told), traffic.seconds, max(late for _, late in told)
    )


def options_of(fleet: Fleet, folder: str) -> dict[str, Any]:
    """Return those of the stores of the processes, all of which are of one host."""
    own = {"lease": fleet.lease, "max_stale": fleet.max_stale}
    return own | {"lease_in": f"shm://{folder}/leases"} if fleet.per_host else own


def calls_of(arrivals: list[Arrival], process: int) -> list[tuple[float, str]]:
    return [(each.time, each.identifier) for each in arrivals if each.process == process]


def scripts_run(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


def work(
    limits: Limits,
    socket: str,
    options: dict[str, Any],
    calls: list[tuple[float, str]],
    start: Barrier,
    answers: Any,
) -> None:
    """Make calls when they are due; answer with how many were admitted, and how late calls were."""
    store = RedisStore(f"unix://{socket}", timeout=TIMEOUT, **options)
    warm_up(store)
    limiter = Limiter(list(limits), name="fleet", store=store)
    start.wait(PATIENCE)
    start.wait(PATIENCE)
    began, admitted, late = time.perf_counter(), 0, []
    for due, identifier in calls:
        while (wait := began + due - time.perf_counter()) > 0:
            time.sleep(wait)
        admitted += limiter.hit(identifier).allowed
        late.append(-wait)
    answers.put((admitted, sorted(late)[int(0.99 * (len(late) - 1))] if late else 0.0))
    store.close()


def warm_up(store: RedisStore) -> None:
    """Connect, and have the server know the scripts."""
    limiter = Limiter("100000/hour", name="warm-up", store=store)
    limiter.refund(limiter.hit("a"))
    for _ in range(10):
        limiter.hit("a")
    limiter.reset("a")


def measured_speed(socket: str) -> Speed:
    """Measure round trips of this machine, and what commands take of the server.

    As rarely as processes call in a run: who is woken takes longer than who has just been busy.
    """
    store = RedisStore(f"unix://{socket}", timeout=TIMEOUT)
    limiter = Limiter("1000000/hour", name="speed", store=store)
    with redis.Redis(unix_socket_path=socket) as client:
        warm_up(store)
        client.config_resetstat()
        taken = []
        for _ in range(300):
            time.sleep(0.001)
            began = time.perf_counter()
            limiter.hit("a")
            taken.append(time.perf_counter() - began)
        decide = float(client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"]) / 1e6
    round_trip = max(0.0, statistics.median(taken) - decide)
    return Speed.of(round_trip, decide)
