"""Simulate a fleet that limits on one server, and hold the model against real processes: benchmarks/fleet.py.

``simulate`` has hosts of workers meet calls at random and says what they ask of the server, how long calls
take, and what is admitted, beside the same fleet without leases and known refusals. It is a model of discrete
events, in which the records of the server are those of the package itself. ``calibrate`` has one, two and
four real processes make the calls of the model on a redis-server of its own, and fails where they differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fleets.model import Fleet, Outcome, simulated
from fleets.real import LATE, TOLERANCE, Comparison, compared, measured_speed
from fleets.server import Speed
from fleets.traffic import Traffic
from measuring.servers import redis_server
from measuring.tables import Table, number, show
from overlimit import FixedWindow, Limiter, SlidingWindow
from overlimit.limits import Limit

PROCESSES = (1, 2, 4)
LIVES = (0.0, 0.05, 0.1, 0.5)
AS_ONE = 0.1
"""How long leases are that the processes of a host have together."""
RATE = 1000.0
"""Calls per second of each real process: so few that the processor is not what limits them."""


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/fleet.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_simulate(commands.add_parser("simulate", help="simulate a fleet, beside a strict one"))
    calibrate = commands.add_parser("calibrate", help="hold the model against real processes")
    calibrate.add_argument(
        "--seconds", type=float, default=3.0, help="of each run (default: %(default)s)", metavar="S"
    )
    calibrate.add_argument("--quick", action="store_true", help="one limit, two lives, a second each")
    for each in commands.choices.values():
        each.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    return parser.parse_args(words)


def add_simulate(parser: argparse.ArgumentParser) -> None:
    for name, default, about in (
        ("hosts", 10, "hosts"),
        ("workers", 4, "processes of each"),
        ("threads", 1, "calls that a process makes at once"),
        ("identifiers", 1000, "identifiers that are called for"),
        ("failovers", 0, "failovers to a replica"),
        ("deaths", 0, "processes that are killed, and start again"),
        ("seed", 1, "of chance"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{about} (%(default)s)", metavar="N"
        )
    for name, seconds, about in (
        ("rate", 10_000.0, "calls per second, of all together"),
        ("seconds", 10.0, "how long"),
        ("zipf", 1.1, "how much more common the common identifiers are; 0: all alike"),
        ("burst", 1.0, "so many times as many calls come during a tenth of each second"),
        ("lease", 0.5, "seconds of a lease; 0: none"),
        ("round-trip", 0.0005, "seconds to the server and back"),
        ("lag", 0.1, "seconds by which the replica is behind"),
        ("down", 1.0, "seconds for which nobody answers in a failover"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=seconds, help=f"{about} (%(default)s)", metavar="X"
        )
    parser.add_argument(
        "--max-stale", type=float, help="seconds for which refusals are believed (as --lease)", metavar="X"
    )
    parser.add_argument("--per-host", action="store_true", help="processes of a host lease as one")
    parser.add_argument(
        "--limit", type=int, default=10_000, help="of an identifier (%(default)s)", metavar="N"
    )
    parser.add_argument(
        "--per", type=float, default=60.0, help="in so many seconds (%(default)s)", metavar="X"
    )
    parser.add_argument("--fixed", action="store_true", help="by fixed windows, not sliding ones")


def fleet_of(given: argparse.Namespace) -> Fleet:
    limit: Limit = (FixedWindow if given.fixed else SlidingWindow)(given.limit, per=given.per)
    Limiter(limit)  # says what is wrong with it
    return Fleet(
        limit,
        given.hosts,
        given.workers,
        given.threads,
        given.lease,
        given.max_stale,
        given.per_host,
        Speed(given.round_trip),
        failovers=given.failovers,
        lag=given.lag if given.failovers else 0.0,
        down=given.down if given.failovers else 0.0,
        deaths=given.deaths,
    )


def simulate(given: argparse.Namespace) -> dict[str, Any]:
    fleet = fleet_of(given)
    traffic = Traffic(given.rate, given.seconds, given.identifiers, given.zipf, given.burst, given.seed)
    strict = simulated(dataclasses.replace(fleet, lease=0.0, max_stale=0.0), traffic)
    leased = simulated(fleet, traffic)
    title = f"{fleet.hosts} hosts x {fleet.workers} processes, {fleet.limit}, {traffic.rate:,.0f} calls/s"
    show([Table(title, ["", "strict", "leasing"], list(rows_of(strict, leased)))])
    return {"traffic": dataclasses.asdict(traffic), "strict": strict.told(), "fleet": leased.told()}


def rows_of(strict: Outcome, fleet: Outcome) -> Iterator[list[str]]:
    """Yield what is told of both, a row each."""
    told_of: dict[str, Callable[[Outcome], str]] = {
        "decisions": lambda one: f"{one.decisions:,}",
        "commands/s": lambda one: f"{one.per_second:,.0f}",
        "commands per decision": lambda one: number(one.per_decision),
        "the server's load": lambda one: f"{one.load:.1%}",
        "p50 us": lambda one: number(one.p50 * 1e6),
        "p99 us": lambda one: number(one.p99 * 1e6),
        "admitted": lambda one: f"{one.admitted:,}",
        "admitted, of strict": lambda one: f"{one.admitted / max(1, strict.admitted):.1%}",
        "admitted over the limit": lambda one: f"{one.over:,}",
        "leased decisions": lambda one: f"{one.sources.get('lease', 0):,}",
        "refusals without asking": lambda one: f"{one.sources.get('refusal', 0):,}",
        "failed calls": lambda one: f"{one.sources.get('failed', 0):,}",
        "units held, in the mean": lambda one: number(one.held),
        "units returned": lambda one: f"{one.returned:,}",
        "units lost": lambda one: f"{one.lapsed:,}",
    }
    for name, told in told_of.items():
        yield [name, told(strict), told(fleet)]


def calibrate(given: argparse.Namespace) -> dict[str, Any]:
    seconds = 1.0 if given.quick else given.seconds
    with redis_server() as socket:
        speed = measured_speed(socket)
        found = [
            compared(name, fleet, traffic(fleet.processes, seconds, keys), socket, speed)
            for name, limit, keys in cases()[: 1 if given.quick else None]
            for fleet in fleets(limit, LIVES[1:3] if given.quick else LIVES)
        ]
    show([Table("Real processes, and the model", HEADER, [row_of(each) for each in found])])
    wrong = [each for each in found if not each.agrees()]
    print(f"{len(found) - len(wrong)} of {len(found)} runs agree within {TOLERANCE:.0%}.")
    if late := sum(each.real.late > LATE for each in wrong):
        print(f"In {late} of the others calls came late: this machine was busy with something else.")
    return {"speed": dataclasses.asdict(speed), "runs": [each.told() for each in found]}


def cases() -> list[tuple[str, Limit, int]]:
    """Return limits that are not reached, and that are, with the number of identifiers."""
    return [
        ("hot", FixedWindow(10_000_000, per=3600), 1),
        ("tail", SlidingWindow(1_000_000, per=60), 200),
        ("window", FixedWindow(400, per=0.5), 1),
        ("sliding", SlidingWindow(400, per=5), 1),
    ]


def fleets(limit: Limit, lives: Sequence[float]) -> Iterator[Fleet]:
    """Yield processes that lease each for itself, and some that lease as one."""
    for lease in lives:
        for count in PROCESSES:
            yield Fleet(limit, workers=count, lease=lease)
            if lease == AS_ONE and count > 1:
                yield Fleet(limit, workers=count, lease=lease, per_host=True)


def traffic(count: int, seconds: float, keys: int) -> Traffic:
    return Traffic(RATE * count, seconds, keys, 1.1)


HEADER = ("real / model", "commands/s", "per decision", "admitted", "late ms", "differs")


def row_of(each: Comparison) -> Sequence[str]:
    """Return a row in which real figures are before a slash, and those of the model after it."""
    both, fleet = (each.real, each.model), each.fleet
    return [
        f"{each.name}, {fleet.processes} x {fleet.lease * 1e3:.0f} ms{' as one' * fleet.per_host}",
        " / ".join(f"{one.per_second:,.0f}" for one in both),
        " / ".join(number(one.per_decision) for one in both),
        " / ".join(f"{one.admitted:,}" for one in both),
        number(each.real.late * 1e3),
        f"{max(each.differences().values(), key=abs):+.1%}" + ("" if each.agrees() else " !"),
    ]


def main(words: list[str] | None = None) -> int:
    given = parsed(words)
    try:
        found = {"simulate": simulate, "calibrate": calibrate}[given.command](given)
    except ValueError as error:
        print(f"fleet.py: {error}", file=sys.stderr)
        return 2
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return int(any(not each["agrees"] for each in found.get("runs", ())))


if __name__ == "__main__":
    sys.exit(main())
