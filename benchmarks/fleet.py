"""Simulate a fleet that limits on one server, and hold the model against real processes: benchmarks/fleet.py.

``simulate`` has hosts of workers meet calls at random and says what they ask of the server, how long calls
take, and what is admitted, beside the same fleet without leases and cached refusals. It is a model of
discrete events, in which the records of the server are those of the package itself. ``calibrate`` has one,
two and four real processes make the calls of the model on a redis-server of its own, and fails where they
differ.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fleets.model import Fleet, Outcome, simulated
from fleets.real import LATE, TOLERANCE, Comparison, compared, measured_speed
from fleets.server import Limits, Speed, bounds_of
from fleets.traffic import Traffic
from measuring.servers import redis_server
from measuring.tables import Table, number, show
from overlimit import FixedWindow, Limiter, RedisStore, SlidingWindow
from overlimit.limits import Limit

PROCESSES = (1, 2, 4)
LIVES = (0.0, 0.05, 0.1, 0.5)
AS_ONE = 0.1
"""How long leases are that the processes of a host have together."""
RATE = 1000.0
"""Calls per second of each real process: so few that the processor is not what limits them."""
MOST, HOUR = 10_000_000, 3600
"""So many calls, or identifiers, are the most that are simulated."""
LIMIT, PER = 10_000, 60.0
"""What a simulated fleet is limited to unless it is said: so many calls in so many seconds."""


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Return the options, with the ``fleet`` to simulate; exit with an error before anything runs."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/fleet.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    simulate = commands.add_parser(
        "simulate",
        help="simulate a fleet, beside a strict one",
        description=SIMULATED,
        epilog=rows_explained(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_simulate(simulate)
    calibrate = commands.add_parser("calibrate", help="hold the model against real processes")
    calibrate.add_argument(
        "--seconds", type=above_0(HOUR), default=3.0, help="of each run (default: %(default)s)", metavar="S"
    )
    calibrate.add_argument("--quick", action="store_true", help="one limit, two lives, a second each")
    for each in commands.choices.values():
        each.add_argument("--json", type=in_a_folder, metavar="FILE", help="write all numbers to a file")
    given = parser.parse_args(words)
    if given.command == "simulate":
        try:
            given.fleet = fleet_of(given)
        except ValueError as error:
            simulate.error(str(error))
    return given


Value = TypeVar("Value")


def checked(read: Callable[[str], Value], fits: Callable[[Value], bool], what: str) -> Callable[[str], Value]:
    """Return what reads the value of an option, and says what it takes if it does not fit."""

    def parse(text: str) -> Value:
        with contextlib.suppress(ValueError):
            if fits(value := read(text)):
                return value
        raise argparse.ArgumentTypeError(f"takes {what}, not {text!r}")

    return parse


def whole(least: int, most: int) -> Callable[[str], int]:
    return checked(int, lambda value: least <= value <= most, f"a whole number from {least} to {most:,}")


def above_0(most: float) -> Callable[[str], float]:
    return checked(float, lambda value: 0 < value <= most, f"a number above 0, at most {most:,.0f}")


def from_0(most: float) -> Callable[[str], float]:
    return checked(float, lambda value: 0 <= value <= most, f"a number from 0 to {most:,.0f}")


WHOLE = checked(int, lambda _: True, "a whole number")
COUNT = checked(int, lambda value: value >= 1, "a whole number, 1 or more")
POSITIVE = checked(float, lambda value: 0 < value < math.inf, "a number greater than 0")
NOT_NEGATIVE = checked(float, lambda value: 0 <= value < math.inf, "a number, 0 or more")
in_a_folder = checked(Path, lambda path: path.parent.is_dir(), "a file in a folder that exists")


def add_simulate(parser: argparse.ArgumentParser) -> None:
    for name, read, default, about in (
        ("hosts", whole(1, 1000), 10, "hosts"),
        ("workers", whole(1, 1000), 4, "processes on each host"),
        ("threads", whole(1, 1000), 1, "calls that a process makes at once"),
        ("rate", above_0(MOST), 10_000.0, "calls per second, of all processes together"),
        ("seconds", above_0(24 * HOUR), 10.0, "how long"),
        ("burst", from_0(1000), 1.0, "so many times as many calls come during a tenth of each second"),
        ("identifiers", whole(1, MOST), 1000, "identifiers that are called for"),
        ("zipf", from_0(100), 1.1, "exponent of the Zipf distribution; 0: all equally common"),
        ("lease", NOT_NEGATIVE, 0.5, "seconds of a lease; 0: none"),
        ("max-stale", NOT_NEGATIVE, None, "seconds for which refusals are believed (default: as --lease)"),
        ("round-trip", from_0(60), 0.0005, "seconds to the server and back"),
        ("command-us", above_0(1e6), 20.0, "microseconds of the server's processor for a command"),
        ("failovers", whole(0, 1000), 0, "failovers to a replica"),
        ("lag", from_0(HOUR), 0.1, "seconds by which the replica is behind"),
        ("down", from_0(HOUR), 1.0, "seconds for which nobody answers in a failover"),
        ("deaths", whole(0, 100_000), 0, "processes that are killed, and start again"),
        ("seed", WHOLE, 1, "seed of the random numbers"),
    ):
        shown = about if default is None else f"{about} (default: %(default)s)"
        metavar = "N" if isinstance(default, int) else "X"
        parser.add_argument(f"--{name}", type=read, default=default, help=shown, metavar=metavar)
    parser.add_argument("--per-host", action="store_true", help="processes of a host lease as one (lease_in)")
    for name, read, default, about in (
        (
            "limit",
            COUNT,
            LIMIT,
            "calls allowed per identifier; repeated, with a --per for each: several limits",
        ),
        ("per", POSITIVE, PER, "in so many seconds"),
    ):
        shown = f"{about} (default: {default})"
        parser.add_argument(f"--{name}", type=read, action="append", help=shown, metavar="X")
    parser.add_argument("--fixed", action="store_true", help="by fixed windows, not sliding ones")


def fleet_of(given: argparse.Namespace) -> Fleet:
    """Return the fleet; ValueError for more than can be simulated, and for what its stores would not take."""
    if given.rate * given.seconds > MOST:
        raise ValueError(
            f"--rate for --seconds: takes at most {MOST:,} calls, not {given.rate * given.seconds:,.0f}"
        )
    if given.hosts * given.workers > 100_000:
        raise ValueError(
            f"--hosts and --workers: take at most 100,000 processes, not {given.hosts * given.workers:,}"
        )
    limits = limits_of(
        given.limit or [LIMIT], given.per or [PER], FixedWindow if given.fixed else SlidingWindow
    )
    Limiter(list(limits))
    RedisStore("redis://localhost", lease=given.lease, max_stale=given.max_stale)
    return Fleet(
        limits,
        given.hosts,
        given.workers,
        given.threads,
        given.lease,
        given.max_stale,
        given.per_host,
        Speed.of(given.round_trip, given.command_us / 1e6),
        failovers=given.failovers,
        lag=given.lag if given.failovers else 0.0,
        down=given.down if given.failovers else 0.0,
        deaths=given.deaths,
    )


def limits_of(counts: list[int], periods: list[float], kind: type[FixedWindow | SlidingWindow]) -> Limits:
    if len(counts) != len(periods):
        raise ValueError(f"each --limit takes a --per: {len(counts)} and {len(periods)} are given")
    return tuple(kind(count, per=per) for count, per in zip(counts, periods, strict=True))


def simulate(given: argparse.Namespace) -> dict[str, Any]:
    fleet = given.fleet
    traffic = Traffic(given.rate, given.seconds, given.identifiers, given.zipf, given.burst, given.seed)
    strict = simulated(dataclasses.replace(fleet, lease=0.0, max_stale=0.0), traffic)
    leased = simulated(fleet, traffic)
    limits = " and ".join(map(str, fleet.limits))
    title = f"{fleet.hosts} hosts x {fleet.workers} processes, {limits}, {traffic.rate:,.0f} calls/s"
    show([Table(title, ["", "strict", "leasing"], list(rows_of(strict, leased)))])
    if fleet.lease > 0 and (reason := bounds_of(fleet.limits, fleet.lease).reason):
        print(f"Nothing is leased: {reason}.")
    return {"traffic": dataclasses.asdict(traffic), "strict": strict.told(), "fleet": leased.told()}


SIMULATED = """\
Simulate a fleet and its server, twice: "strict", so that each call asks the server, and "leasing", with
leases and cached refusals as the options say. Not modelled: counts that come back (`remember`: after a
failover both fleets go on with what the replica has), and timeouts of a server that cannot keep up.
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """What is told of a fleet beside the strict one."""

    name: str
    about: str
    told: Callable[[Outcome, Outcome], str]


ROWS = (
    Row("decisions", "calls that were decided, or failed", lambda one, _: f"{one.decisions:,}"),
    Row("commands/s", "of the server", lambda one, _: f"{one.per_second:,.0f}"),
    Row("commands per decision", "1 if every call asks", lambda one, _: number(one.per_decision)),
    Row(
        "the server's load",
        "part of the time for which it executes commands: --command-us each, half as much\n"
        "again for one that leases; above 100% it cannot keep up",
        lambda one, _: f"{one.load:.1%}",
    ),
    Row("p50 us", "microseconds from a call to its answer, median", lambda one, _: number(one.p50 * 1e6)),
    Row("p99 us", "the same, 99th percentile", lambda one, _: number(one.p99 * 1e6)),
    Row("admitted", "calls", lambda one, _: f"{one.admitted:,}"),
    Row(
        "admitted, of strict",
        "the same as a part of what the strict fleet admits",
        lambda one, strict: f"{one.admitted / max(1, strict.admitted):.1%}",
    ),
    Row(
        "admitted over the limit",
        "calls that a server which forgets nothing would have refused",
        lambda one, _: f"{one.over:,}",
    ),
    Row(
        "leased decisions",
        "made from a lease, without asking",
        lambda one, _: f"{one.sources.get('lease', 0):,}",
    ),
    Row("refusals without asking", "cached refusals", lambda one, _: f"{one.sources.get('refusal', 0):,}"),
    Row("failed calls", "nobody answered, in a failover", lambda one, _: f"{one.sources.get('failed', 0):,}"),
    Row("units held, on average", "leased, and not spent yet", lambda one, _: number(one.held)),
    Row("units returned", "leased, and given back unspent", lambda one, _: f"{one.returned:,}"),
    Row(
        "units lost",
        "leased, and gone with a killed process or a command that nobody received; they count as\n"
        "used. What a process itself knows of them is `lapsed` in its stats()",
        lambda one, _: f"{one.lapsed:,}",
    ),
)


def rows_explained() -> str:
    """Return what the rows of the table mean, for --help."""
    width = max(len(row.name) for row in ROWS) + 4
    lines = [f"  {row.name}".ljust(width) + row.about.replace("\n", "\n" + " " * width) for row in ROWS]
    return "\n".join(["the rows of the table:", *lines])


def rows_of(strict: Outcome, fleet: Outcome) -> Iterator[list[str]]:
    """Yield what is told of both, a row each."""
    for row in ROWS:
        yield [row.name, row.told(strict, strict), row.told(fleet, strict)]


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
            yield Fleet((limit,), workers=count, lease=lease)
            if lease == AS_ONE and count > 1:
                yield Fleet((limit,), workers=count, lease=lease, per_host=True)


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
    found = {"simulate": simulate, "calibrate": calibrate}[given.command](given)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return int(any(not each["agrees"] for each in found.get("runs", ())))


if __name__ == "__main__":
    sys.exit(main())
