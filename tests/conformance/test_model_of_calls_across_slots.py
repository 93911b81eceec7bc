"""Calls across slots (``docs/semantics.md``) in every order in which slots can see their commands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product

import pytest

SLOTS = ("A", "B")
CALLS = (("A", "B"), ("B", "A"), ("A",), ("A", "B"))
"""The slots that each call needs a unit of."""


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    admits_only_if_all_admit: bool = True
    refunds: bool = True
    refunds_only_what_was_charged: bool = True
    reads_are_asked_again: bool = True


@dataclass
class World:
    """What the slots have counted, and what became of the calls."""

    limit: int
    used: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SLOTS, 0))
    admitted: list[tuple[str, ...]] = field(default_factory=list)

    def charge(self, slot: str) -> bool:
        if self.used[slot] >= self.limit:
            return False
        self.used[slot] += 1
        return True


def call(world: World, slots: tuple[str, ...], leading: int, rules: Rules) -> Iterator[None]:
    """Decide one call; between two steps others may go on. The first ``leading`` slots are asked first."""
    charged: dict[str, bool] = {}
    admits: dict[str, bool] = {}
    for place, slot in enumerate(slots):
        if place < leading:
            admits[slot] = charged[slot] = world.charge(slot)
        else:
            admits[slot] = world.used[slot] < world.limit
        yield
    if all(admits.values()) and rules.reads_are_asked_again:
        for slot in slots[leading:]:
            admits[slot] = charged[slot] = world.charge(slot)
            yield
    if (all if rules.admits_only_if_all_admit else any)(admits.values()):
        world.admitted.append(slots)
        return
    if not rules.refunds:
        return
    for slot in slots:
        if charged.get(slot, False) or not rules.refunds_only_what_was_charged:
            world.used[slot] -= 1
            yield


def orders(pending: list[int]) -> Iterator[tuple[int, ...]]:
    """Every order of the steps of calls that have so many steps each."""
    if not any(pending):
        yield ()
    for who, left in enumerate(pending):
        if left:
            rest = [*pending[:who], left - 1, *pending[who + 1 :]]
            yield from ((who, *order) for order in orders(rest))


def worlds(rules: Rules) -> Iterator[World]:
    """Yield how it ends, for three of the calls at once in every order, and every number of leading slots."""
    for calls, limit, leading in product(combinations(CALLS, 3), (1, 2), (1, 2)):
        for order in orders([3] * len(calls)):
            world = World(limit)
            running = [call(world, slots, leading, rules) for slots in calls]
            for who in order:
                next(running[who], None)
            for each in running:
                deque(each, 0)
            yield world


def is_kept(world: World) -> bool:
    """Whether exactly the admitted calls are counted, and no slot admitted more than it has."""
    counted = {slot: sum(slot in slots for slots in world.admitted) for slot in SLOTS}
    return counted == world.used and max(counted.values()) <= world.limit


def test_nothing_is_admitted_or_left_that_should_not_be():
    ends = list(worlds(Rules()))
    assert all(map(is_kept, ends))
    # Calls at the same time may refuse one another, and then none gets the last unit.
    assert {(world.limit, len(world.admitted)) for world in ends} >= {(1, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("rule", Rules.__dataclass_fields__)
def test_each_rule_is_needed(rule):
    assert not all(map(is_kept, worlds(Rules(**{rule: False}))))
