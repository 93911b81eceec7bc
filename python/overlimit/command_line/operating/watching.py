"""``overlimit watch``: what is charged under each policy, by looking at the states again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import click

from overlimit.command_line.finite import FiniteRange
from overlimit.command_line.operating.doctor.redis_checks import Info
from overlimit.command_line.operating.endings import asks_store, status_of
from overlimit.command_line.operating.listing import keys_option, policy_option
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.servers import servers_of
from overlimit.command_line.operating.shapes import algorithm_of, growth
from overlimit.command_line.operating.tables import amount
from overlimit.command_line.operating.walking import Found, Walk
from overlimit.command_line.output import print_json, print_json_line, print_rows
from overlimit.errors import StoreError

Counts: TypeAlias = dict[str, tuple[int, int]]

_KEYS = 20_000  # which are kept between two looks
_LONGEST = 86_400  # seconds between two looks; the system cannot sleep for any length
_EXAMPLES = """
\b
Examples:
  overlimit watch redis://localhost:6379/0
  overlimit watch shm://myapp --policy login --every 5
  overlimit watch env:REDIS_URL --count 12 --json
"""


@dataclass
class Row:
    """What became of a policy since the look before."""

    policy: str
    identifiers: int = 0
    charged: float = 0.0
    locked: int = 0
    newly_locked: int = 0


@dataclass(frozen=True)
class Sample:
    """A look at all policies; of Redis also what the server counted since the look before."""

    time: str
    seconds: float
    calls: int | None
    writes: int | None
    policies: list[Row]
    unreachable: list[str]


@click.command(epilog=_EXAMPLES, short_help="Watch what is charged under each policy.")
@url_argument
@policy_option
@click.option(
    "--every",
    type=FiniteRange(min=0.1, max=_LONGEST),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Look this many times; otherwise until Ctrl-C."
)
@keys_option(_KEYS)
@asks_store
def watch(place: Place, policy: str | None, every: float, count: int | None, keys: int, as_json: bool) -> int:
    """Watch what is charged under each policy of the store at URL, until Ctrl-C.

    It looks at the states of all identifiers, and tells from them the least that was charged since the last
    look, since what drains from a bucket meanwhile is not seen. A refused call writes nothing, so
    states do not show refusals, except by the locks that penalties set. Redis also counts the calls and the
    writes of all its clients: calls that wrote nothing were refused, or peeks.
    """
    place.require()
    walk = Walk(place, policy, keys)
    samples = []
    for number, sample in enumerate(_samples(place, walk, every, count)):
        if not as_json:
            click.echo("\n" * (number > 0), nl=False)
            _print(sample)
        elif count is None:
            print_json_line(asdict(sample))
        else:
            samples.append(asdict(sample))
    if as_json:
        print_json({**walk.told(), "samples": samples})
    else:
        click.echo(f"\n{walk.summary}")
    return walk.ended()


def _samples(place: Place, walk: Walk, every: float, count: int | None) -> Iterator[Sample]:
    before, counted, began = {each.name: each for each in walk}, _server_counts(place), time.monotonic()
    lost, may_count = set(walk.unreached), counted is not None
    while count is None or count > 0:
        time.sleep(every)
        (after, counts), now = _looked(place, walk, may_count=may_count), time.monotonic()
        calls, writes = _difference(counted, counts)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        unreached = sorted(lost.union(walk.unreached))
        yield Sample(when, now - began, calls, writes, _rows(before, after), unreached)
        before, counted, began, lost = after, counts, now, set(walk.unreached)
        count = None if count is None else count - 1


def _looked(
    place: Place, walk: Walk, *, may_count: bool
) -> tuple[dict[tuple[str, str], Found], Counts | None]:
    """Look at all states, as far as anybody answers: an outage is watched to its end.

    What this user may not ask is not asked again, or ACL LOG would fill.
    """
    try:
        return {each.name: each for each in walk}, _server_counts(place) if may_count else None
    except StoreError as error:
        walk.lose(place.store.endpoint, error)
        return {}, None


def _difference(before: Counts | None, after: Counts | None) -> tuple[int, int] | tuple[None, None]:
    """Return the sums of what grew at the servers that were reached both times."""
    if before is None or after is None:
        return None, None
    both = before.keys() & after.keys()
    calls, writes = (sum(after[name][which] - before[name][which] for name in both) for which in (0, 1))
    return calls, writes


def _rows(before: dict[tuple[str, str], Found], after: dict[tuple[str, str], Found]) -> list[Row]:
    rows: dict[str, Row] = {}
    looked_at = max((each.now for each in before.values()), default=0)
    for name, found in after.items():
        if not found.counts:
            continue
        row = rows.setdefault(found.policy, Row(found.policy))
        row.identifiers += 1
        row.charged += _charged(before.get(name), found, looked_at)
        if found.value.locked_for(found.now):
            row.locked += 1
            row.newly_locked += name not in before or not before[name].value.locked_for(before[name].now)
    return sorted(rows.values(), key=lambda row: (-row.charged, row.policy))


def _charged(before: Found | None, after: Found, looked_at: int) -> float:
    """Return what was charged to a key: all its limits were charged the same, so the largest growth."""
    if before is None and after.value.created_at < looked_at:
        return 0.0  # a bounded walk did not come there before
    same = before is not None and before.value.created_at == after.value.created_at
    old = {each.tag: each for each in before.value.records} if before is not None and same else {}
    records = after.value.limits(after.now)
    return max((growth(old.get(each.tag), each, algorithm_of(each)) for each in records), default=0.0)


def _server_counts(place: Place) -> Counts | None:
    """Return how many scripts and writes of scripts each server has run; None if that is not known."""
    if not place.is_redis:
        return None
    counts: Counts = {}
    for server in servers_of(place):
        try:
            told = server.answer("INFO", "commandstats")
        except StoreError as error:
            if status_of(error) != "unreachable":
                raise
            continue
        if isinstance(told, StoreError):
            return None
        info = Info.read(told)
        counts[server.name] = _calls(info, "evalsha"), _calls(info, "set")
    return counts


def _calls(told: Mapping[str, str], command: str) -> int:
    return int(told.get(f"cmdstat_{command}", "").partition("calls=")[2].partition(",")[0] or 0)


def _print(sample: Sample) -> None:
    click.echo(f"{sample.time}, in {sample.seconds:.1f} s")
    if sample.unreachable:
        click.echo(f"unreachable: {', '.join(sample.unreachable)}", err=True)
    if sample.calls is not None:
        click.echo(f"{sample.calls:,} calls of scripts and {sample.writes:,} writes, of all clients")
    rows = []
    for each in sample.policies:
        charged, rate = amount(each.charged), f"{each.charged / sample.seconds:,.1f}"
        rows.append((each.policy, f"{each.identifiers:,}", charged, rate, each.locked, each.newly_locked))
    print_rows(("policy", "identifiers", "charged", "per second", "locked", "newly"), rows)
