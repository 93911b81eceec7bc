"""The word that the processes of a host lease by (``docs/semantics.md``), under every interleaving and death.

One process takes units, puts back and spends; two others replace the lease, one after the other or at once.
Each step is one access to what they share, and between any two of them others go on, time passes, or a
process dies. Nothing is spent twice, nothing late, and nobody shows what another lease was told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import pytest

END = 3
"""When all leases would end: those that follow each other must differ nevertheless."""
GRANTED = 2
LAST = 4


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    a_living_holder_keeps_the_bucket: bool = True
    those_that_follow_each_other_differ: bool = True
    what_is_being_written_is_not_read: bool = True
    it_is_still_that_lease_after_taking: bool = True
    takes_before_the_clock_is_read: bool = True
    what_is_given_back_is_taken_out: bool = True
    puts_back_only_into_its_own: bool = True


class Lease(NamedTuple):
    number: int
    end: int


class Actor(NamedTuple):
    """A process, what it does next, and what it has found out so far."""

    step: str
    known: Any = ()
    is_dead: bool = False

    def at(self, step: str, *known: Any) -> Actor:
        return Actor(step, known)


class World(NamedTuple):
    actors: tuple[Actor, ...]
    now: int = 1
    holder: int = -1
    version: int = 2
    rows: tuple[Lease, Lease] = (Lease(0, END), Lease(0, END))
    tag: int = END
    units: int = GRANTED
    leased: int = 0
    """Whose the units in the word are, which nobody can see."""
    spent: tuple[int, ...] = (0, 0, 0)
    returned: tuple[int, ...] = (0, 0, 0)
    can_die: bool = True

    def moved(self, who: int, actor: Actor, **changes: Any) -> World:
        actors = (*self.actors[:who], actor, *self.actors[who + 1 :])
        return self._replace(actors=actors, **changes)


Next = tuple[Actor, dict[str, Any]]
"""What the actor does next, and how the world changes."""


class Broken(Exception):
    """A law does not hold."""


def plus(counts: tuple[int, ...], which: int, units: int) -> tuple[int, ...]:
    return (*counts[:which], counts[which] + units, *counts[which + 1 :])


def check(world: World) -> None:
    for spent, returned in zip(world.spent, world.returned, strict=True):
        if spent + returned > GRANTED:
            raise Broken(f"of {GRANTED} units {spent} were spent and {returned} returned")


class Spender:
    """Takes a unit of the lease that is found, and spends it unless that has ended."""

    def begin(self, rules: Rules, world: World, actor: Actor) -> Next:
        if rules.what_is_being_written_is_not_read and world.version % 2:
            return actor.at("done"), {}
        return actor.at("first", world.version), {}

    def first(self, _: Rules, world: World, actor: Actor) -> Next:
        return actor.at("second", *actor.known, world.rows[0]), {}

    def second(self, rules: Rules, world: World, actor: Actor) -> Next:
        version, first = actor.known
        if rules.what_is_being_written_is_not_read and world.version != version:
            return actor.at("done"), {}
        if first != world.rows[1]:
            raise Broken("what was read is of two leases")
        read_at = -1 if rules.takes_before_the_clock_is_read else world.now
        return actor.at("take", version, first, read_at), {}

    def take(self, _: Rules, world: World, actor: Actor) -> Next:
        version, lease, read_at = actor.known
        if world.tag != lease.end or not world.units:
            return actor.at("done"), {}
        return actor.at("check", version, lease, world.leased, read_at), {"units": world.units - 1}

    def check(self, rules: Rules, world: World, actor: Actor) -> Next:
        version, *known = actor.known
        is_current = not rules.it_is_still_that_lease_after_taking or world.version == version
        return actor.at("spend" if is_current else "put_back", *known), {}

    def spend(self, _: Rules, world: World, actor: Actor) -> Next:
        lease, taken, read_at = actor.known
        if (world.now if read_at < 0 else read_at) >= lease.end:
            return actor.at("put_back", *actor.known), {}
        if lease.number != taken:
            raise Broken("it shows what another lease was told")
        if read_at >= 0 and world.now >= lease.end:
            raise Broken("it was spent late")
        return actor.at("refund", *actor.known), {"spent": plus(world.spent, taken, 1)}

    def refund(self, rules: Rules, world: World, actor: Actor) -> Next:
        """Or it keeps it, which is the same as being stopped here for ever."""
        after, changes = self.put_back(rules, world, actor)
        return after, changes and changes | {"spent": plus(world.spent, actor.known[1], -1)}

    def put_back(self, rules: Rules, world: World, actor: Actor) -> Next:
        if world.tag != actor.known[0].end and rules.puts_back_only_into_its_own:
            return actor.at("done"), {}
        return actor.at("done"), {"units": world.units + 1}


@dataclass(frozen=True)
class Refiller:
    """Gives back what is left of the lease, and puts another in its place."""

    number: int

    def begin(self, rules: Rules, world: World, actor: Actor) -> Next:
        is_free = world.holder < 0 or world.actors[world.holder].is_dead
        if not is_free and rules.a_living_holder_keeps_the_bucket:
            return actor.at("done"), {}
        return actor.at("end"), {"holder": self.number}

    def end(self, rules: Rules, world: World, actor: Actor) -> Next:
        """It knows a lease if its rows are whole, and takes what is left if that is the one in the word."""
        first, second = world.rows
        if world.version % 2 or first != second or world.tag != first.end:
            return actor.at("odd"), {}
        left = 0 if rules.what_is_given_back_is_taken_out else world.units
        return actor.at("odd"), {"returned": plus(world.returned, world.leased, world.units), "units": left}

    def odd(self, rules: Rules, world: World, actor: Actor) -> Next:
        differs = not rules.those_that_follow_each_other_differ or world.tag != END
        lease = Lease(self.number, END if differs else END - 1)
        return actor.at("row", lease), {"version": (world.version | 1) + 2}

    def row(self, _: Rules, world: World, actor: Actor) -> Next:
        return actor.at("other_row", *actor.known), {"rows": (actor.known[0], world.rows[1])}

    def other_row(self, _: Rules, world: World, actor: Actor) -> Next:
        return actor.at("even", *actor.known), {"rows": (world.rows[0], actor.known[0])}

    def even(self, _: Rules, world: World, actor: Actor) -> Next:
        return actor.at("word", *actor.known), {"version": world.version + 1}

    def word(self, _: Rules, __: World, actor: Actor) -> Next:
        [lease] = actor.known
        return actor.at("let_go"), {"tag": lease.end, "units": GRANTED, "leased": lease.number}

    def let_go(self, _: Rules, world: World, actor: Actor) -> Next:
        return actor.at("done"), {"holder": -1 if world.holder == self.number else world.holder}


PROGRAMS: tuple[Any, ...] = (Spender(), Refiller(1), Refiller(2))


def followers(rules: Rules, world: World) -> Iterator[World]:
    for who, actor in enumerate(world.actors):
        if actor.step == "done" or actor.is_dead:
            continue
        after, changes = getattr(PROGRAMS[who], actor.step)(rules, world, actor)
        yield world.moved(who, after, **changes)
        if world.can_die and who:
            yield world.moved(who, actor._replace(is_dead=True), can_die=False)
    if world.now < LAST:
        yield world._replace(now=world.now + 1)


def explore(rules: Rules) -> tuple[int, set[str]]:
    """Reach all that can be; return how many worlds there are, and where spenders end."""
    first = World((Actor("begin"), Actor("begin"), Actor("begin")))
    known, to_do = {first}, [first]
    while to_do:
        for world in followers(rules, to_do.pop()):
            if world not in known:
                check(world)
                known.add(world)
                to_do.append(world)
    return len(known), {f"{world.actors[0].step} {sum(world.spent)}" for world in known}


def test_nothing_is_spent_twice_or_late_whoever_dies():
    worlds, spenders = explore(Rules())
    assert worlds > 10_000
    assert {"refund 1", "put_back 0", "done 0"} <= spenders


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_each_rule_is_needed(rule):
    with pytest.raises(Broken):
        explore(replace(Rules(), **{rule: False}))
