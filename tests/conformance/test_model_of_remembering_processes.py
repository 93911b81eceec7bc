"""Counts that come back (``docs/semantics.md``), in a small world of whole microseconds.

A server counts by blocks, and now and then it forgets: all, or what it was told lately, when a replica that
lags takes its place. Processes remember what they were told; a process may make several calls at once. Four
laws: whoever was told of a count is decided by no less; nothing counts that was not charged, or was charged
before a reset; a command on a key other than the remembered one leaves nothing behind; and a process that
makes all calls, on one connection, is admitted no more than the limit, and nothing counts twice.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import pytest

BLOCK, PERIOD, REMEMBER = 5, 300, 80


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    asks_again: bool = True
    keeps_the_older_birth: bool = True
    takes_the_larger: bool = True
    respects_resets: bool = True
    forgets_in_time: bool = True
    restores_on_new_connections: bool = True
    takes_back: bool = True
    tells_that_it_was_restored: bool = True
    compares_with_what_was_known: bool = True
    does_nothing_on_other_keys: bool = True
    asks_again_for_what_was_lost: bool = True
    believes_what_came_back: bool = True
    knows_what_was_lost_before: bool = True


@dataclass(frozen=True)
class Value:
    """A key: when it was created, when last restored as it was lost, its counts, and when it was reset."""

    birth: int
    restored: int = 0
    counts: tuple[tuple[int, int], ...] = ()
    reset: int = -1

    def living(self, now: int) -> int:
        return sum(counted for block, counted in self.counts if block * BLOCK > now - PERIOD)

    def charged(self, now: int, units: int, block: int | None = None) -> Value:
        counts = dict(self.counts)
        block = now // BLOCK if block is None else block
        counts[block] = max(0, counts.get(block, 0) + units)
        return replace(self, counts=tuple(sorted(counts.items())))


@dataclass
class Memory:
    value: Value
    told: int
    asked: int
    answered: int
    connection: int
    order: int  # in which the server told it
    doubted: int = -1
    lost: tuple[tuple[int, int, int], ...] = ()
    """Keys of that name before it, and the order in which the value was told that was restored."""


@dataclass
class Charge:
    """What was charged on a key of this birth, in a block, by a process."""

    birth: int
    restored: int
    block: int
    by: int


@dataclass
class Process:
    name: int
    memory: Memory | None = None
    connection: int = 0  # as it knows
    charges: list[Charge] = field(default_factory=list)
    lapsed_at: int = -1
    unheard: int = 0  # charges of which no reply came
    admitted: list[tuple[int, int]] = field(default_factory=list)  # in which order, and when


@dataclass
class World:
    rules: Rules
    random: Random
    processes: list[Process]
    is_calm: bool  # one process calls, on one connection, and nothing happens but that its key is lost
    value: Value | None = None
    snapshots: list[Value | None] = field(default_factory=list)
    connection: int = 0
    charges: list[Charge] = field(default_factory=list)  # all that were not given back since the last reset
    given_back: list[tuple[int, Charge]] = field(default_factory=list)
    given_back_at: list[int] = field(default_factory=list)
    reset_at: int = -1
    lost_at: int = -1
    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    orders: Iterator[int] = field(default_factory=count)

    def pause(self) -> int:
        return self.random.choice((1, 1, 2, 9))

    def set(self, value: Value | None) -> None:
        self.snapshots.append(self.value)
        self.value = value

    def come_back(self, since: int) -> None:
        """What was given back since then counts again: who restores, or takes over, did not know of it."""
        self.charges += [charge for at, charge in self.given_back if at >= since]
        self.given_back = [(at, charge) for at, charge in self.given_back if at < since]

    @property
    def limit(self) -> int:
        return 12 if self.is_calm else 4

    def is_alone(self) -> bool:
        return len(self.processes) == 1

    def judge_strictness(self, now: int) -> None:
        """Nothing counts twice, or was charged before a reset that nobody has lost."""
        if self.value is None or self.lost_at >= self.reset_at >= 0:
            return
        charged = sum(charge.block * BLOCK > now - PERIOD for charge in self.charges)
        if (self.is_alone() or self.lost_at < 0) and self.value.living(now) > charged:
            self.wrong.append("counts what was not charged")


def doubt(process: Process, time: int) -> None:
    """Not in place: somebody may be restoring it."""
    assert process.memory is not None
    process.memory = replace(process.memory, doubted=time)


def keep(process: Process, memory: Memory) -> None:
    known = process.memory
    if known is not None:
        memory.lost = memory.lost or known.lost
        if memory.order < known.order and memory.asked < known.answered:
            return
        if known.doubted >= memory.asked:
            memory.doubted = known.doubted
    process.memory = memory


def is_same_key(one: Value, other: Value | None) -> bool:
    return other is not None and (one.birth, one.restored) == (other.birth, other.restored)


def keep_restored(world: World, process: Process, memory: Memory, restored: Memory) -> None:
    known = process.memory
    is_same = known is not None and is_same_key(known.value, memory.value)
    if known is not None and not is_same and known.order != restored.order:
        return doubt(process, memory.answered)
    before = known if known is not None and is_same else restored
    lost = {(birth, mark): order for birth, mark, order in before.lost}
    if not world.rules.knows_what_was_lost_before:
        lost.clear()
    if not is_same_key(restored.value, memory.value):
        key = restored.value.birth, restored.value.restored
        lost[key] = max(restored.order, lost.get(key, -1))
    memory.lost = tuple((*key, order) for key, order in lost.items())
    return keep(process, memory)


def recalled(world: World, process: Process, time: int) -> Memory | None:
    memory = process.memory
    if memory is not None and world.rules.forgets_in_time and time - memory.asked >= REMEMBER:
        process.memory = memory = None
        process.lapsed_at = time
    return memory


def is_news(world: World, memory: Memory, connection: int) -> bool:
    if memory.doubted >= 0:
        return True
    return world.rules.restores_on_new_connections and connection > memory.connection


def merged(rules: Rules, own: Value | None, told: Value, now: int) -> Value:
    birth, restored, counts = told.birth, told.restored, dict(told.counts)
    if own is not None:
        restored = own.restored
        if rules.takes_the_larger:
            for block, counted in own.counts:
                counts[block] = max(counted, counts.get(block, 0))
        birth = min(birth, own.birth) if rules.keeps_the_older_birth else max(birth, own.birth)
    if (own is None or own.birth > told.birth) and rules.tells_that_it_was_restored:
        restored = now
    reset = max(told.reset, -1 if own is None else own.reset)
    return Value(birth, restored, tuple(sorted(counts.items())), reset)


def restore(world: World, process: Process, time: int, memory: Memory) -> Generator[int, None, int]:
    asked = time
    time += world.pause()
    yield time
    own = world.value
    is_reset = own is not None and own.reset >= memory.told and memory.value.reset < own.reset
    is_reset = is_reset and own is not None and time < own.reset + REMEMBER
    is_old = world.rules.forgets_in_time and time - memory.told > REMEMBER
    if not is_old and not (world.rules.respects_resets and is_reset):
        result = merged(world.rules, own, memory.value, time)
        if own is None and not world.rules.keeps_the_older_birth:
            result = replace(result, birth=time)
        world.seen["restored"] += result != own
        world.set(result)
        world.come_back(memory.told)
        world.judge_strictness(time)
    told, at, connection, order = world.value, time, world.connection, next(world.orders)
    time += world.pause()
    yield time
    process.connection = connection
    keep_restored(world, process, Memory(told or Value(-1), at, asked, time, connection, order), memory)
    if process.memory is not None and process.memory.value.birth < 0:
        process.memory = None
        process.lapsed_at = time
    return time


def belief(
    world: World, process: Process, sent: Memory | None, heard: Memory, told: Value | None, connection: int
) -> str:
    """Judge a reply to a command that was sent when so much was remembered; keep what is sound."""
    memory = recalled(world, process, heard.answered)
    if not world.rules.compares_with_what_was_known:
        sent = None
    is_same = memory is None or is_same_key(memory.value, told)
    is_elsewhere = any(
        known is not None and connection > known.connection and world.rules.restores_on_new_connections
        for known in (memory, sent)
    )
    if is_same and not is_elsewhere:
        if told is not None:
            keep(process, heard)
        return "sound"
    assert memory is not None or is_elsewhere
    if memory is None:
        return "doubtful"
    lost = {(birth, mark): order for birth, mark, order in memory.lost}
    as_of = None if told is None else lost.get((told.birth, told.restored))
    if is_elsewhere or as_of is None:
        doubt(process, heard.answered)
        return "doubtful"
    world.seen["came back"] += heard.order < as_of
    if heard.order < as_of:
        return "sound" if world.rules.believes_what_came_back else "lost"
    return "lost" if world.rules.asks_again_for_what_was_lost else "sound"


def judge_admissions(world: World, process: Process, now: int) -> None:
    """The fourth law."""
    if process.lapsed_at >= 0:
        return

    def living(time: int, order: int) -> int:
        return sum(at // BLOCK * BLOCK > time - PERIOD for before, at in process.admitted if before <= order)

    if any(living(at, order) > world.limit for order, at in process.admitted):
        world.wrong.append("admitted more than the limit")
    last = next(world.orders)
    if world.value is not None and world.value.living(now) > living(now, last) + process.unheard:
        world.wrong.append("counts what nobody was admitted by")


def give_back(world: World, charge: Charge, time: int, of_restored: bool = True) -> bool:
    """Whether it was still counted."""
    value = world.value
    if value is None or value.birth != charge.birth or not dict(value.counts).get(charge.block):
        return False
    if not of_restored and value.restored != charge.restored:
        return False
    world.set(value.charged(time, -1, charge.block))
    if charge in world.charges:
        world.charges.remove(charge)
        world.given_back.append((time, charge))
    world.given_back_at.append(time)
    return True


def judge(world: World, known: Memory | None, time: int, counted: int, heard: int) -> None:
    """The first law: what this process was told counts, but for what was given back since."""
    if known is None or heard - known.asked >= REMEMBER or world.reset_at >= known.told:
        return
    since = sum(at >= known.told for at in world.given_back_at)
    if counted < known.value.living(time) - since:
        world.wrong.append("was decided by less than it was told")


def hit(world: World, process: Process, time: int) -> Iterator[int]:
    first_known = None
    while True:
        known = recalled(world, process, time)
        first_known = first_known or known
        while known is not None and is_news(world, known, process.connection):
            time = yield from restore(world, process, time, known)
            known = recalled(world, process, time)
        asked, connection = time, process.connection
        time += world.pause()
        yield time
        value, at = world.value, time
        counted = 0 if value is None else value.living(time)
        is_other = known is not None and not is_same_key(known.value, value)
        is_admitted = counted < world.limit and not (is_other and world.rules.does_nothing_on_other_keys)
        charge = None
        if is_admitted and is_other:
            world.wrong.append("left something on another key")
        if is_admitted:
            world.set((value or Value(time)).charged(time, 1))
            assert world.value is not None
            charge = Charge(world.value.birth, world.value.restored, time // BLOCK, process.name)
            world.charges.append(charge)
        told, link, order = world.value, world.connection, next(world.orders)
        if world.random.random() < 0.05:
            process.unheard += charge is not None
            return  # nobody hears of it
        time += world.pause()
        yield time
        process.connection = link
        heard = Memory(told or Value(-1), at, asked, time, connection, order)
        verdict = belief(world, process, known, heard, told, link)
        if verdict == "sound" and not (is_other and world.rules.does_nothing_on_other_keys):
            judge(world, known, at, counted, time)
            if charge is not None:
                process.charges.append(charge)
                process.admitted.append((order, at))
            return
        world.seen["doubted"] += verdict == "doubtful"
        world.seen["lost under way"] += verdict == "lost"
        if verdict == "lost":
            if charge is not None and world.is_alone() and charge in world.charges:
                world.charges.remove(charge)
        elif charge is not None and world.rules.takes_back:
            time += world.pause()
            yield time
            world.seen["taken back"] += give_back(world, charge, time, False)
            time += world.pause()
            yield time
        elif charge is not None and world.is_alone() and charge in world.charges:
            world.charges.remove(charge)  # which nobody was told of
        if not world.rules.asks_again:
            judge(world, first_known, at, counted, time)
            return


def refund(world: World, process: Process, time: int) -> Iterator[int]:
    if not process.charges:
        return
    charge = process.charges.pop(world.random.randrange(len(process.charges)))
    while True:
        known = recalled(world, process, time)
        while known is not None and is_news(world, known, process.connection):
            time = yield from restore(world, process, time, known)
            known = recalled(world, process, time)
        asked, connection = time, process.connection
        time += world.pause()
        yield time
        is_done = give_back(world, charge, time)
        told, link, at, order = world.value, world.connection, time, next(world.orders)
        time += world.pause()
        yield time
        process.connection = link
        heard = Memory(told or Value(-1), at, asked, time, connection, order)
        verdict = belief(world, process, known, heard, told, link)
        if verdict == "sound" or (is_done and verdict == "doubtful"):
            break
    is_due = charge in world.charges and charge.block * BLOCK > at - PERIOD and world.reset_at < 0
    is_due = is_due and charge.block * BLOCK > process.lapsed_at
    if world.is_alone() and is_due and not is_done and known is not None:
        world.charges.remove(charge)  # unless another in its block was restored in its place
        world.judge_strictness(time)


def reset(world: World, process: Process, time: int) -> Iterator[int]:
    asked = time
    time += world.pause()
    yield time
    world.set(Value(time, reset=time))
    world.reset_at = time
    world.charges.clear()
    world.given_back.clear()
    told, at, order = world.value, time, next(world.orders)
    time += world.pause()
    yield time
    assert told is not None
    process.memory = None if process.memory is None else replace(process.memory, lost=())
    keep(process, Memory(told, at, asked, time, world.connection, order))


def forget(world: World, process: Process, time: int) -> Iterator[int]:
    """All of it, as by FLUSHALL, a restart, an eviction."""
    world.seen["lost"] += world.value is not None
    world.value, world.lost_at = None, time
    yield from ()


def fail_over(world: World, process: Process, time: int) -> Iterator[int]:
    """To a replica that lags by some writes."""
    lag = world.random.randrange(1, 5)
    if len(world.snapshots) >= lag:
        world.value = world.snapshots[-lag]
        world.come_back(-1)
        world.lost_at = time
        world.seen["failed over"] += 1
    world.connection += 1
    yield from ()


def reconnect(world: World, process: Process, time: int) -> Iterator[int]:
    world.connection += 1
    yield from ()


ACTIONS = (hit,) * 26 + (refund,) * 4 + (forget, fail_over, reconnect, reset)
CALM_ACTIONS = (hit,) * 8 + (forget,)


def lived(rules: Rules, seed: int) -> World:
    """A world after many actions, some of them at the same time."""
    random = Random(seed)
    is_calm = random.random() < 0.4
    processes = [Process(name) for name in range(1 if is_calm else random.choice((1, 1, 2, 3)))]
    world = World(rules, random, processes, is_calm)
    numbers = count()
    agenda: list[tuple[int, int, Iterator[int]]] = []
    time = 1000

    def go_on_until(time: int) -> None:
        while agenda and agenda[0][0] <= time:
            at, number, running = heapq.heappop(agenda)
            if (then := next(running, None)) is not None:
                heapq.heappush(agenda, (max(then, at), number, running))

    def begin(action: Callable[[World, Process, int], Iterator[int]]) -> None:
        running = action(world, random.choice(processes), time)
        if (then := next(running, None)) is not None:
            heapq.heappush(agenda, (then, next(numbers), running))

    while is_calm and processes[0].memory is None:
        begin(hit)
        time += 40
        go_on_until(time)
    for _ in range(80):
        time += random.choice((0, 0, 1, 5) if is_calm else (0, 1, 5, 20, 40))
        go_on_until(time)
        begin(random.choice(CALM_ACTIONS if is_calm else ACTIONS))
    if is_calm:
        go_on_until(time + 1000)
        judge_admissions(world, processes[0], time)
    return world


def worlds(rules: Rules, worlds: int = 600) -> Iterator[World]:
    return (lived(rules, seed) for seed in range(worlds))


def test_nobody_is_decided_by_less_than_it_was_told_and_nothing_counts_that_was_not_charged():
    seen: Counter[str] = Counter()
    for world in worlds(Rules()):
        assert world.wrong == []
        seen += world.seen
    often = ("restored", "doubted", "taken back", "lost", "lost under way", "came back", "failed over")
    assert min(seen[each] for each in often) > 100, seen


@pytest.mark.parametrize("rule", Rules.__dataclass_fields__)
def test_each_rule_is_needed(rule):
    assert any(world.wrong for world in worlds(Rules(**{rule: False})))
