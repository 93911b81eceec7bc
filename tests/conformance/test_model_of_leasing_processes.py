"""Processes that lease (``docs/semantics.md``), in a small world of whole microseconds.

Their clocks run up to an eighth faster or slower than the server's, requests and replies take a while or get
lost, threads of theirs are at any step when they are stopped, when they fork and when they die; others are
strict. Whatever was admitted is asked again of the strict algorithm, call by call, at the instants at which
it was, by the server's clock. That early is late for each algorithm is proved by ``test_model_of_leases.py``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from random import Random
from typing import Any

import pytest

from .oracle.fixed_window import FixedWindow
from .oracle.sliding_window import SlidingWindow
from .oracle.token_bucket import TokenBucket

pytestmark = pytest.mark.check

LIFE = 40
SPEEDS = (Fraction(8, 9), Fraction(1), Fraction(9, 8))
"""Of a process's clock, by the server's."""
ALGORITHMS: dict[str, Callable[[], Any]] = {
    "epoch_window": lambda: FixedWindow(12, 64, 1),
    "sliding_window": lambda: SlidingWindow(12, 96, 32),
    "bucket": lambda: TokenBucket(12, 1, 4, 1),  # a token comes back every four microseconds
}


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    counts_from_before_the_request: bool = True
    allows_for_speeds: bool = True
    takes_before_the_clock_is_read: bool = True
    ends_with_the_window: bool = True
    takes_out_what_is_given_back: bool = True
    gives_back_once: bool = True
    children_have_none: bool = True
    resets_end_leases: bool = True
    resets_end_leases_under_way: bool = True
    gives_nothing_back_after_a_reset: bool = True
    records_are_known_again: bool = True
    does_not_spend_what_has_ended: bool = True
    puts_back_only_what_was_leased: bool = True


@dataclass
class Record:
    """What a server keeps of one key, and how often it was made anew."""

    algorithm: Any
    state: Any = None
    expires_at: int = 0
    birth: int = 0

    def at(self, now: int) -> Any:
        return None if self.state is None or now >= self.expires_at else self.algorithm.at(self.state, now)

    def admits(self, now: int, cost: int) -> bool:
        return bool(self.algorithm.fits(self.at(now), now, cost))

    def charge(self, now: int, cost: int, extra: int = 0) -> Any:
        state = self.at(now)
        known_until = 0 if state is None else self.expires_at
        self.birth += state is None
        self.state = self.algorithm.leased(state, now, cost + extra, extra, LIFE)
        self.expires_at = now + self.algorithm.reset(self.state, now)
        if self.algorithm.knows_refunds(self.state):
            self.expires_at = max(self.expires_at, known_until)
        return self.state

    def refund(self, now: int, charged: Charged, units: int = 1, *, of_any: bool = False) -> None:
        if self.at(now) is not None and (of_any or self.birth == charged.birth):
            self.state = self.algorithm.refunded(self.state, now, charged.after, units)

    def reset(self) -> None:
        self.state = None


@dataclass(frozen=True)
class Charged:
    """What a refund needs."""

    after: Any
    birth: int


@dataclass
class Lease:
    charged: Charged
    end: int  # by the process's clock
    left: int
    outlived_reset: bool = False
    """Whether another process has reset what was leased, or this one what it leased until that was answered:
    it counts as spent before."""


@dataclass
class Process:
    speed: Fraction
    leases: bool
    lease: Lease | None = None
    ended: list[Lease] = field(default_factory=list)
    given: list[tuple[Lease, int]] = field(default_factory=list)  # to be sent again
    admitted: list[tuple[int, Charged, Lease | None]] = field(default_factory=list)  # that can be refunded
    resets: int = 0
    stopped_until: int = 0
    is_alive: bool = True


@dataclass
class World:
    rules: Rules
    algorithm: Any
    random: Random
    time: int = 1000
    record: Record = field(init=False)
    processes: list[Process] = field(init=False)
    leases: list[tuple[Process, Lease]] = field(default_factory=list)
    resets: list[Process] = field(default_factory=list)  # by whom
    events: list[tuple[str, int, int]] = field(default_factory=list)
    """What the strict algorithm is asked at the end: hit, refund or reset, when, and which call."""
    numbers: Iterator[int] = field(default_factory=count)
    spent: int = 0
    returned: int = 0

    def __post_init__(self) -> None:
        self.record = Record(self.algorithm)
        self.processes = [self.process() for _ in range(3)]

    def process(self) -> Process:
        return Process(self.random.choice(SPEEDS), self.random.random() < 0.75)

    def clock(self, process: Process) -> int:
        return int(self.time * process.speed)

    def pause(self) -> int:
        return self.random.choice((0, 1, 1, 2, 3, 20))

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def note(self, event: str, number: int) -> None:
        self.events.append((event, self.time, number))

    def spend(self, me: Process, lease: Lease, resets: int) -> None:
        """A unit that was taken after so many resets; before one that came since it counts as spent."""
        number = next(self.numbers)
        if not lease.outlived_reset and resets == len(self.resets):
            self.note("hit", number)
        me.admitted.append((number, lease.charged, lease))
        self.spent += 1

    def is_strict(self) -> bool:
        """Whether the strict algorithm admits all that was."""
        strict = Record(self.algorithm)
        charged: dict[int, Charged] = {}
        for event, time, number in self.events:
            if event == "reset":
                strict.reset()
            elif event == "refund":
                if number in charged:
                    strict.refund(time, charged[number])
            elif not strict.admits(time, 1):
                return False
            else:
                after = strict.charge(time, 1)
                charged[number] = Charged(after, strict.birth)
        return True


Steps = Iterator[int]
"""Of a thread; each yields how long it takes."""


def hit(world: World, me: Process) -> Steps:
    rules, lease = world.rules, me.lease
    if lease is None:
        yield from ask(world, me)
        return
    is_alive = world.clock(me) < lease.end
    yield world.pause()
    if lease.left > 0 and (is_alive or rules.takes_before_the_clock_is_read):
        lease.left -= 1
        resets = len(world.resets)
        if rules.takes_before_the_clock_is_read:
            yield world.pause()
            is_alive = world.clock(me) < lease.end
        if is_alive or not rules.does_not_spend_what_has_ended:
            world.spend(me, lease, resets)
            return
        lease.left += 1
    yield from ask(world, me)


def ask(world: World, me: Process) -> Steps:
    """A command, with what is to be given back in front."""
    rules, record = world.rules, world.record
    if me.lease is not None and (me.lease.left == 0 or world.clock(me) >= me.lease.end):
        end(me)
    given = given_back(me, rules)
    own_resets, asked_at = me.resets, world.clock(me)
    yield world.pause()
    if world.happens(0.05):  # the request is lost
        return
    for lease, units in given:
        record.refund(world.time, lease.charged, units, of_any=not rules.records_are_known_again)
        world.returned += units
    answer = decided(world, world.random.choice((1, 2, 4, 8)) if me.leases else 0)
    resets = len(world.resets)
    yield world.pause()
    if world.happens(0.05):  # the reply is lost
        me.given += given if not rules.gives_back_once else []
        return
    for lease, _ in given:
        if not rules.takes_out_what_is_given_back:
            lease.left = 0
    if answer is None:
        return
    began = asked_at if rules.counts_from_before_the_request else world.clock(me)
    lease = Lease(answer.charged, began + life_of(world, answer), answer.extra)
    is_kept = me.resets == own_resets
    lease.outlived_reset = any(is_kept or each is not me for each in world.resets[resets:])
    if answer.extra and (is_kept or not rules.resets_end_leases_under_way):
        end(me)
        me.lease = lease
        world.leases.append((me, lease))
    own = None if rules.puts_back_only_what_was_leased else lease
    me.admitted.append((answer.number, answer.alone(world.algorithm), own))


@dataclass(frozen=True)
class Answer:
    """To a call that was admitted."""

    number: int
    now: int
    charged: Charged
    extra: int

    def alone(self, algorithm: Any) -> Charged:
        """What a refund of the call needs: a bucket's receipt without what was leased."""
        if not is_bucket(algorithm):
            return self.charged
        after = self.charged.after
        return replace(self.charged, after=replace(after, used=after.used - self.extra * algorithm.units))


def decided(world: World, extra: int) -> Answer | None:
    """What the server does: the call, and as many extra units as four times of which would fit."""
    record, now = world.record, world.time
    if not record.admits(now, 1):
        return None
    while extra and not record.admits(now, 1 + 4 * extra):
        extra //= 2
    number = next(world.numbers)
    world.note("hit", number)
    after = record.charge(now, 1, extra)
    return Answer(number, now, Charged(after, record.birth), extra)


def life_of(world: World, answer: Answer) -> int:
    """Of a lease, by the process's clock."""
    life = LIFE
    if world.rules.ends_with_the_window:
        life = min(life, window_end(world.algorithm, answer.now) - answer.now)
    return life - (-(-life // 9) + 1 if world.rules.allows_for_speeds else 0)


def end(me: Process) -> None:
    """What is left goes back with the next command."""
    if me.lease is not None:
        me.ended.append(me.lease)
        me.lease = None


def given_back(me: Process, rules: Rules) -> list[tuple[Lease, int]]:
    """What a process sends back, which it has no more."""
    given = me.given + [(lease, lease.left) for lease in me.ended if lease.left > 0]
    for lease in me.ended:
        lease.left = 0 if rules.takes_out_what_is_given_back else lease.left
    me.ended, me.given = [], []
    return given


def is_bucket(algorithm: Any) -> bool:
    return isinstance(algorithm, TokenBucket)


def window_end(algorithm: Any, now: int) -> int:
    if is_bucket(algorithm):
        return now + LIFE
    length = algorithm.precision if isinstance(algorithm, SlidingWindow) else algorithm.period
    return (now // length + 1) * length


def refund(world: World, me: Process) -> Steps:
    """Give back what a call was charged: to its lease, as long as that lives, or to the record."""
    if not me.admitted:
        return
    number, charged, lease = me.admitted.pop(world.random.randrange(len(me.admitted)))
    if lease is not None and me.lease is lease and world.clock(me) < lease.end:
        lease.left += 1
        world.note("refund", number)
        return
    yield world.pause()
    world.record.refund(world.time, charged)
    world.note("refund", number)


def close(world: World, me: Process) -> Steps:
    """Give back all that is left, and go on."""
    end(me)
    yield from ask(world, me)


def reset(world: World, me: Process) -> Steps:
    rules = world.rules

    def end_lease() -> None:
        me.resets += 1
        if not rules.resets_end_leases:
            return
        end(me)
        rest = given_back(me, Rules())
        me.given += [] if rules.gives_nothing_back_after_a_reset else rest

    end_lease()
    yield world.pause()
    world.record.reset()
    world.resets.append(me)
    world.note("reset", 0)
    for owner, lease in world.leases:
        lease.outlived_reset |= owner is not me or rules.resets_end_leases
    yield world.pause()
    end_lease()


def fork(world: World, me: Process) -> Steps:
    child = world.process()
    child.speed = me.speed
    if not world.rules.children_have_none and me.lease is not None:
        child.lease = replace(me.lease)
        world.leases.append((child, child.lease))
    world.processes.append(child)
    yield from ()


def die(world: World, me: Process) -> Steps:
    me.is_alive = False
    world.processes.append(world.process())
    yield from ()


def stop(world: World, me: Process) -> Steps:
    """For a while no thread of it goes on."""
    me.stopped_until = world.time + world.random.choice((10, 40, 100))
    yield from ()


def lived(name: str, rules: Rules, seed: int) -> World:
    """A world after three hundred actions, many of them at the same time."""
    random = Random(seed)
    world = World(rules, ALGORITHMS[name](), random)
    agenda: list[tuple[int, int, Process, Steps]] = []
    numbers = count()
    gaps = random.choice(((0, 0, 1), (0, 1, 2, 5), (0, 0, 0, 0, 0, 0, 0, 30)))
    rare = [close, close, stop, stop, fork, die, *[reset] * random.choice((0, 1, 5))]
    actions = [hit] * 60 + [refund] * random.choice((0, 6, 30)) + rare

    def go_on(process: Process, steps: Steps) -> None:
        if (after := next(steps, None)) is not None:
            heapq.heappush(agenda, (world.time + after, next(numbers), process, steps))

    for _ in range(300):
        until = world.time + random.choice(gaps)
        while agenda and agenda[0][0] <= until:
            at, number, process, steps = heapq.heappop(agenda)
            world.time = max(world.time, at)
            if not process.is_alive:
                continue
            if world.time < process.stopped_until:
                heapq.heappush(agenda, (process.stopped_until, number, process, steps))
            else:
                go_on(process, steps)
        world.time = until
        process = random.choice([each for each in world.processes if each.is_alive])
        if world.time >= process.stopped_until:
            go_on(process, random.choice(actions)(world, process))
    return world


def worlds(name: str, rules: Rules) -> Iterator[World]:
    return (lived(name, rules, seed) for seed in range(400))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_is_admitted_that_the_strict_would_refuse(name):
    spent = returned = 0
    for seed, world in enumerate(worlds(name, Rules())):
        assert world.is_strict(), seed
        spent += world.spent
        returned += world.returned
    assert spent > 1000
    assert returned > 1000


TOGETHER = ("gives_nothing_back_after_a_reset", "records_are_known_again")
ALONE = [rule for rule in Rules.__dataclass_fields__ if rule not in TOGETHER]


@pytest.mark.parametrize("rule", ALONE)
def test_each_rule_is_needed(rule):
    broken = Rules(**{rule: False})
    assert any(not world.is_strict() for name in ALGORITHMS for world in worlds(name, broken))


def test_a_record_that_was_reset_is_kept_from_give_backs_twice():
    """Nobody sends them, and the record would not take them."""
    once = Rules(gives_nothing_back_after_a_reset=False)
    twice = replace(once, records_are_known_again=False)
    assert all(world.is_strict() for world in worlds("epoch_window", once))
    assert not all(world.is_strict() for world in worlds("epoch_window", twice))
