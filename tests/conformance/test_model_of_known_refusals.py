"""Refusals by what a process was told (``docs/semantics.md``), in a small world of whole microseconds.

A server's clock runs up to an eighth faster or slower than time does; requests and replies take a while. One
process believes what it was told, another asks and changes things as it likes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from random import Random

import pytest

LIMIT, PERIOD, MAX_STALE = 2, 110, 50
SPEEDS = (Fraction(7, 8), Fraction(1), Fraction(9, 8))


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    is_forgotten_in_time: bool = True
    counts_from_the_request: bool = True
    allows_for_speeds: bool = True
    judges_at_the_latest_instant: bool = True
    shows_the_earliest_instant: bool = True
    own_changes_forget: bool = True
    own_changes_forget_again_when_answered: bool = True
    replies_under_way_are_dropped: bool = True


@dataclass
class Server:
    """A log of at most ``LIMIT`` units in any period."""

    speed: Fraction
    units: list[int] = field(default_factory=list)

    def shows(self, time: int) -> int:
        return int(time * self.speed)

    def living(self, now: int) -> list[int]:
        return [unit for unit in self.units if unit > now - PERIOD]

    def hit(self, now: int) -> bool:
        self.units = self.living(now)
        if len(self.units) >= LIMIT:
            return False
        self.units.append(now)
        return True


@dataclass
class Known:
    """What a refusal told: the log, and what the server's clock showed between two instants of ours."""

    units: list[int]
    shown: int
    asked_at: int
    answered_at: int


@dataclass
class World:
    rules: Rules
    random: Random
    server: Server
    known: Known | None = None
    changes: int = 0
    under_way: int = 0
    loosened_by_others: int = -MAX_STALE - 1
    wrong: list[str] = field(default_factory=list)
    refused_here: int = 0

    def pause(self) -> int:
        return self.random.choice((1, 2, 3, 20))


def refuses_here(world: World, time: int) -> bool:
    """Whether the process answers by itself, and if so whether that is true of the server at this time."""
    rules, known = world.rules, world.known
    if known is None or (rules.is_forgotten_in_time and time - known.asked_at >= MAX_STALE):
        return False
    drift = Fraction(1, 8) if rules.allows_for_speeds else 0
    since = known.asked_at if rules.counts_from_the_request else known.answered_at
    latest = known.shown + (time - since) * (1 + drift) + 1
    earliest = known.shown + (time - known.answered_at) * (1 - drift)
    judged_at = latest if rules.judges_at_the_latest_instant else earliest
    living = [unit for unit in known.units if unit > judged_at - PERIOD]
    if len(living) < LIMIT:
        return False
    world.refused_here += 1
    now = world.server.shows(time)
    if world.under_way or time - world.loosened_by_others <= MAX_STALE:
        return True
    if len(world.server.living(now)) < LIMIT:
        world.wrong.append("refused what the server admits")
    ready_at = min(living) + PERIOD
    retry_after = ready_at - int(earliest if rules.shows_the_earliest_instant else latest)
    if len(world.server.living(now + retry_after)) >= LIMIT:
        world.wrong.append("told to come back too early")
    return True


def hit(world: World, time: int) -> Iterator[int]:
    if refuses_here(world, time):
        return
    asked_at, changes = time, world.changes
    time += world.pause()
    yield time
    now = world.server.shows(time)
    admitted = world.server.hit(now)
    told = list(world.server.units)
    time += world.pause()
    yield time
    if admitted:
        world.known = None
        world.changes += 1
        return
    is_kept = changes == world.changes or not world.rules.replies_under_way_are_dropped
    if is_kept and (world.known is None or world.known.asked_at <= asked_at):
        world.known = Known(told, now, asked_at, time)


def reset(world: World, time: int) -> Iterator[int]:
    def change(forgets: bool) -> None:
        world.changes += 1
        if forgets:
            world.known = None

    world.under_way += 1
    change(world.rules.own_changes_forget)
    time += world.pause()
    yield time
    world.server.units.clear()
    time += world.pause()
    yield time
    change(world.rules.own_changes_forget and world.rules.own_changes_forget_again_when_answered)
    world.under_way -= 1


def reset_by_others(world: World, time: int) -> Iterator[int]:
    world.server.units.clear()
    world.loosened_by_others = time
    yield from ()


def hit_by_others(world: World, time: int) -> Iterator[int]:
    world.server.hit(world.server.shows(time))
    yield from ()


ACTIONS = (hit,) * 24 + (hit_by_others,) * 3 + (reset,) * 2 + (reset_by_others,)


def lived(rules: Rules, seed: int) -> World:
    """A world after a hundred actions, many of them at the same time."""
    random = Random(seed)
    world = World(rules, random, Server(random.choice(SPEEDS)))
    numbers = count()
    agenda: list[tuple[int, int, Iterator[int]]] = []
    time = 1000
    for _ in range(100):
        time += random.choice((0, 1, 2, 5, 13))
        while agenda and agenda[0][0] <= time:
            at, number, running = heapq.heappop(agenda)
            if (then := next(running, None)) is not None:
                heapq.heappush(agenda, (max(then, at), number, running))
        running = random.choice(ACTIONS)(world, time)
        if (then := next(running, None)) is not None:
            heapq.heappush(agenda, (then, next(numbers), running))
    return world


def worlds(rules: Rules) -> Iterator[World]:
    return (lived(rules, seed) for seed in range(400))


def test_no_refusal_is_wrong_and_no_retry_too_early():
    refused_here = 0
    for world in worlds(Rules()):
        assert world.wrong == []
        refused_here += world.refused_here
    assert refused_here > 4000


@pytest.mark.parametrize("rule", Rules.__dataclass_fields__)
def test_each_rule_is_needed(rule):
    assert any(world.wrong for world in worlds(Rules(**{rule: False})))
