"""Who waits for whom (``docs/semantics.md``): the steps of ``acquire`` in a world of whole microseconds.

The world runs what threads and tasks run, for callers with one to three identifiers and limits on a store in
memory, and decides what time it is and who goes on next. It keeps an account of its own of what each caller
was told, and knows by that who may hold up whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    MemoryStore,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
    _core,
)
from overlimit.waiting import acquiring, queues
from overlimit.waiting.acquiring import Caller

from .strategies import ROUNDS

SECOND = 1_000_000


class WakeUp:
    """What a caller sleeps by."""

    is_gone = False
    longest_sleep = 0.5

    def __init__(self):
        self.is_notified = self.is_set = False

    def notify(self):
        self.is_notified = self.is_set = True

    def set(self):
        self.is_set = True

    def sleep(self, seconds):
        """What the world does."""


@dataclass(eq=False)
class Person:
    """A caller, and what it was told."""

    number: int
    charges: list
    deadline: float
    steps: Any = None
    step: Any = None
    answer: Any = None
    until: float = 0
    """When it wakes up by itself."""
    longest: dict = field(default_factory=dict)
    """The longest wait by pair that refused it longest."""
    due: dict = field(default_factory=dict)
    """When the last of them ended."""
    waits_for: frozenset = frozenset()
    """The pairs for which it was told to wait; while it waits behind others, those that it keeps."""
    is_held_up: bool = False
    held_at: Any = ()
    """The pairs for which others came first when it looked."""
    told: float = 0
    """When it was told to come back, or those that hold it up."""
    asked: int = 0
    is_through: bool = False
    lost: int = 0
    """How often it had to wait again for a pair that it had waited for."""

    @property
    def pairs(self):
        found = []
        for limiter, key, _ in self.charges:
            tags = [limit.tag for limit in limiter.limits]
            found += [(limiter._family, key, tag, tags[:i].count(tag)) for i, tag in enumerate(tags)]
        return found

    def keeps(self, until):
        """Return the pairs for which it keeps its place until an instant."""
        return {pair for pair, due in self.due.items() if until <= due + 2 * self.longest[pair]}

    @property
    def sleeper(self):
        """What it sleeps by; None while it does something else."""
        owner = getattr(self.step.func, "__self__", None)
        return owner if isinstance(owner, WakeUp) else None


class World:
    """Callers, and a clock that moves when nobody has anything left to do."""

    def __init__(self, seed, *, interleaved=False):
        self.random, self.interleaved = Random(seed), interleaved
        self.now = 1_700_000_000 * SECOND
        self.store = MemoryStore()
        self.waiting: list[Person] = []
        self.admitted: list = []
        self.refused: list = []
        self.came = 0

    def clock(self):
        return self.now / SECOND

    def limiter(self, *limits):
        return Limiter(list(limits), store=self.store, clock=self.clock)

    def come(self, *charges, timeout=None):
        """Let one come who wants these charges."""
        self.came += 1
        end = math.inf if timeout is None else self.now + round(timeout * SECOND)
        person = Person(self.came, [(limiter, name.encode(), cost) for limiter, name, cost in charges], end)
        checked = _core._checked_charges(list(charges))
        caller = Caller(
            partial(self.hit, person, checked),
            partial(_core._peek_all_within, checked),
            charges[0][0].refund,
            WakeUp,
        )
        person.steps = acquiring.acquiring(acquiring.subjects_in(checked), timeout, caller)
        self.waiting.append(person)
        self.go_on(person)
        self.settle()
        return person

    def hit(self, person, checked, patience):
        person.asked += 1
        decision = _core._hit_all_within(checked, patience)
        if not decision:
            self.note_refusal(person, decision)
        elif not self.interleaved:
            assert not self.holders(person), "passed somebody who came before"
        if decision:
            person.is_through, person.waits_for = True, frozenset()
            self.admitted.append((person, decision))
        return decision

    def note_refusal(self, person, decision):
        wait = math.inf if decision.status == "never" else round(decision.retry_after * SECOND)
        rows = zip(person.pairs, decision.details, strict=True)
        binding = {pair for pair, row in rows if not row.allowed and row.retry_after == decision.retry_after}
        person.lost += any(pair in person.longest for pair in binding)
        for pair in binding:
            person.longest[pair] = max(wait, person.longest.get(pair, 0))
            person.due[pair] = self.now + wait
        kept = person.keeps(self.now + wait)
        person.waits_for, person.told = frozenset(binding | kept), self.now + wait
        person.is_held_up = False

    def holders(self, person):
        """Who came before and waits for a pair that a person needs: by pair, the first of them."""
        found = {}
        for other in self.waiting:
            if other.number < person.number:
                for pair in other.waits_for.intersection(person.pairs, other.pairs):
                    found.setdefault(pair, other)
        return found

    def go_on(self, person):
        """Let one go on until it asks or sleeps."""
        answer, person.answer = person.answer, None
        try:
            person.step = person.steps.send(answer)
        except StopIteration as end:
            self.waiting.remove(person)
            if not end.value:
                self.check_refusal(person, end.value)
            return
        if person.sleeper is not None:
            person.until = self.now + round(person.step.args[0] * SECOND)

    def turn(self, person):
        """Let one that is awake go on; unless steps are interleaved, until it sleeps again."""
        if person.sleeper is not None:
            # By itself it wakes up now and then, and looks at its clock; otherwise it looks who is before it.
            if person.sleeper.is_notified or (self.now >= person.told and not person.is_held_up):
                person.waits_for, person.is_held_up = frozenset(), False
            person.sleeper.is_set = False
        elif person.answer is None:
            person.answer = person.step()
            if self.interleaved:
                return
        self.go_on(person)
        if person in self.waiting and person.sleeper is None:
            if not self.interleaved:
                self.turn(person)
        elif not (person.waits_for or person.is_held_up or person.is_through):
            self.note_hold(person)

    def note_hold(self, person):
        """Note what one keeps that waits behind others."""
        holders = self.holders(person)
        person.is_held_up, person.held_at = True, holders.keys()
        person.told = max((holder.told for holder in holders.values()), default=0)
        person.waits_for = frozenset(person.keeps(max(self.now, person.told)))

    def is_awake(self, person):
        return person.sleeper is None or person.sleeper.is_set or self.now >= person.until

    def settle(self):
        """Let all go on that are awake, in any order, until nobody is; then see that all is right.

        If steps are interleaved, something may happen before.
        """
        turns = 10_000 if not self.interleaved or self.random.random() < 0.4 else self.random.randrange(4)
        for _ in range(turns):
            awake = [each for each in self.waiting if self.is_awake(each)]
            if not awake:
                return self.check()
            self.turn(self.random.choice(awake))
        assert turns < 10_000, "somebody asks for ever"

    def check(self):
        """Nobody waits who could pass, or in vain, unless for somebody who came before."""
        for person in self.waiting:
            if person.is_through:
                continue
            holders = self.holders(person)
            if not holders:
                assert not person.is_held_up, "held up by nobody"
                assert not self.peek(person), "waits although it could pass"
            elif person.is_held_up:  # who waits for a pair looks who is before it when that admits it
                same = holders.keys() & person.held_at
                known = max((holders[pair].told for pair in same), default=person.told)
                assert known <= person.deadline, "waits in vain"
                keeps = person.waits_for - holders.keys()
                assert known == person.told or not keeps, "keeps a place without knowing for how long"
            assert person.asked <= self.most_asked(person), "asks too often"

    def most_asked(self, person):
        """At first, for each pair, for each that came before, and after a wait of twice the longest."""
        return 2 + len(person.pairs) + person.number + 30 + self.disturbed

    disturbed = 0
    """How often something happened after which all may ask again."""

    def peek(self, person):
        patience = min(1e9, max(0, person.deadline - self.now) / SECOND)
        return _core._peek_all_within(list(person.charges), patience)

    def check_refusal(self, person, decision):
        """What it was told is true of the pair that it names."""
        self.refused.append((person, decision))
        if self.interleaved:  # then something else may be true by now
            return
        own, holders = self.peek(person), self.holders(person)
        if decision.status == "never":
            assert own.status == "never"
            return
        for pair, row, alone in zip(person.pairs, decision.details, own.details, strict=True):
            assert row.remaining <= alone.remaining + decision.cost
            if not row.allowed and alone.allowed and self.now < person.deadline:
                assert pair in holders, "refused by a stranger"
                assert self.now + round(row.retry_after * SECOND) >= holders[pair].told
        late = self.now + round(own._ready_after * SECOND) > person.deadline
        held = any(holder.told > person.deadline for holder in holders.values())
        assert late or held or self.now >= person.deadline, "could have waited"

    def interrupt(self, person):
        """End one wherever it is."""
        self.waiting.remove(person)
        self.disturbed += 1
        with suppress(KeyboardInterrupt, StopIteration):
            person.step = person.steps.throw(KeyboardInterrupt)
            while True:
                person.step = person.steps.send(person.step())
        self.settle()

    def change(self, change, *arguments):
        """Do something that may let somebody in."""
        self.disturbed += 1
        change(*arguments)
        self.settle()

    def move(self, most):
        """Move the clock on to when somebody wakes up, by so much at most."""
        self.now = min(
            [self.now + most, *(math.ceil(each.until) for each in self.waiting if each.until > self.now)]
        )
        self.settle()

    def run_out(self):
        """Move the clock until nobody waits."""
        for _ in range(20_000):
            if not self.waiting:
                return
            self.move(10 * 3600 * SECOND)
        raise AssertionError("somebody waits for ever")


# ---------------------------------------------------------------------------------------- random lives

PERIODS = [0.000007, 0.01, 0.3, 1, 2, 3, 10, 60]


def any_limit(random):
    count, per = random.choice([1, 1, 2, 3, 5]), random.choice(PERIODS)
    return random.choice(
        [
            FixedWindow(count, per),
            FixedWindow(count, per, start="epoch"),
            SlidingLog(count, per),
            SlidingWindow(count, per, precision=per),
            TokenBucket(count, per=per, burst=count + random.randrange(3)),
            LeakyBucket(count, per, capacity=random.randrange(3)),
        ]
    )


def some_limits(random):
    """Return limits that differ by more than their numbers."""
    limits = {limit.tag: limit for limit in (any_limit(random) for _ in range(random.choice([1, 1, 2, 3])))}
    return list(limits.values())


class Town:
    """A world with a service, its customers and what else they need."""

    def __init__(self, seed, *, interleaved=False):
        self.world = World(seed, interleaved=interleaved)
        self.random = self.world.random
        self.service, self.customers, self.other = (
            self.world.limiter(*some_limits(self.random)) for _ in range(3)
        )
        # No buckets: one whose record another limit's rate has drained admits earlier than it said.
        windows = [
            limit for limit in some_limits(self.random) if not isinstance(limit, TokenBucket | LeakyBucket)
        ]
        self.premium = self.customers.with_limits(windows or [SlidingLog(3, 2)])

    def charges(self):
        random, customers = self.random, self.random.choice([self.customers, self.customers, self.premium])
        names = random.sample(["ada", "bob", "cleo"], random.choice([1, 1, 2]))
        wanted = [(customers, name, random.choice([1, 1, 1, 2])) for name in names]
        wanted += [(self.service, "api", random.choice([1, 1, 2]))] * random.choice([0, 1, 1])
        wanted += [(self.other, "x", 1)] * (len(wanted) < 3 and random.random() < 0.3)
        random.shuffle(wanted)
        return wanted

    def step(self):
        random, world = self.random, self.world
        kind = random.choices(
            ["come", "move", "refund", "reset", "hit", "lock", "update", "interrupt"],
            [8, 8, 2, 1, 1, 0.5, 0.5, 1],
        )[0]
        limiter = random.choice([self.service, self.customers, self.other, self.premium])
        name = random.choice(["api", "ada", "bob", "x"])
        if kind == "come" and len(world.waiting) < 12:
            world.come(*self.charges(), timeout=random.choice([None, None, 0, 0.01, 1, 5, 70]))
        elif kind == "move":
            world.move(round(random.choice([*PERIODS, 0.5]) * SECOND))
        elif kind == "refund" and world.admitted:
            person, decision = world.admitted.pop(random.randrange(len(world.admitted)))
            world.change(person.charges[0][0].refund, decision)
        elif kind == "reset":
            world.change(limiter.reset, name)
        elif kind == "hit":
            limiter.hit(name)
        elif kind == "lock":
            world.change(limiter.lock, name, random.choice(PERIODS))
        elif kind == "update" and limiter is not self.premium:
            world.change(limiter.update, some_limits(random))
        elif kind == "interrupt" and world.waiting:
            world.interrupt(random.choice(world.waiting))

    def live(self, steps):
        for _ in range(steps):
            self.step()
        for person in [each for each in self.world.waiting if each.deadline == math.inf]:
            if not any(
                cost <= limit.quota for limiter, _, cost in person.charges for limit in limiter.limits
            ):
                self.world.interrupt(person)
        self.world.run_out()
        assert not queues.wait_queues().by_family
        assert not queues.wait_queues()._queues


class Crossing(Town):
    """A world whose callers need one or two of three, each of which admits one at a time."""

    def __init__(self, seed, *, interleaved=False):
        self.world = World(seed, interleaved=interleaved)
        self.random = self.world.random
        periods = self.random.choices([0.5, 1, 1.5, 2, 9], k=3)
        self.ways = [self.world.limiter(SlidingLog(1, per)) for per in periods]

    def step(self):
        kind = self.random.choice(["come", "come", "move", "move", "hit"])
        if kind == "come" and len(self.world.waiting) < 9:
            ways = self.random.sample(self.ways, self.random.choice([1, 2, 2]))
            self.world.come(*((way, "x", 1) for way in ways), timeout=self.random.choice([None, None, 3]))
        elif kind == "move":
            self.world.move(SECOND // 2)
        elif kind == "hit":
            self.random.choice(self.ways).hit("x")


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch):
    fresh = queues.PerProcess(queues._WaitQueues)
    monkeypatch.setattr(queues, "wait_queues", fresh)
    monkeypatch.setattr(acquiring, "wait_queues", fresh)


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("interleaved", [False, True], ids=["one after the other", "interleaved"])
@pytest.mark.parametrize("place", [Town, Crossing])
def test_nobody_is_held_up_or_refused_by_somebody_whose_wait_it_does_not_share(place, interleaved):
    came = refused = 0
    for seed in range(150 * ROUNDS):
        town = place(seed, interleaved=interleaved)
        town.live(60)
        came, refused = came + town.world.came, refused + len(town.world.refused)
    assert came > 1000
    assert refused > 100


@pytest.mark.parametrize("seed", range(8))
def test_a_call_that_needs_much_is_made_to_wait_again_a_few_times_however_many_others_come(seed):
    """Each of three identifiers is wanted all the time by callers who need nothing else."""
    world = World(seed)
    limiters = [world.limiter(FixedWindow(1, per)) for per in world.random.sample([0.7, 1, 1.3, 5, 20], 3)]
    names = ["a", "b", "c"]

    def come():
        for limiter, name in zip(limiters, names, strict=True):
            if (
                sum(limiter is person.charges[0][0] for person in world.waiting if len(person.charges) == 1)
                < 3
            ):
                world.come((limiter, name, 1))

    come()
    wide = world.come(*((limiter, name, 1) for limiter, name in zip(limiters, names, strict=True)))
    before, began = len(world.waiting) - 1, world.now
    longest = max(limiter.limits[0].per for limiter in limiters) * SECOND
    while wide in world.waiting:
        world.move(SECOND)
        come()
        assert world.now - began < (before + 4) * longest, "starves"
    assert wide.is_through
    assert wide.lost <= 2
    for person in world.waiting:
        person.steps.close()


def test_a_place_is_kept_for_twice_its_wait_and_not_for_ever():
    world = World(0)
    one, other = world.limiter(SlidingLog(1, 1)), world.limiter(SlidingLog(1, 1))
    one.hit("x")
    began = world.now
    both, behind = world.come((one, "x", 1), (other, "x", 1)), world.come((one, "x", 1))
    while behind in world.waiting:
        assert world.now <= began + 3 * SECOND, "a second of waiting, and twice as long"
        world.now += SECOND // 2
        other.hit("x")
        world.settle()
    assert world.now > began + 2 * SECOND
    assert not both.is_through
    both.steps.close()


# ------------------------------------------------------------------------------------------- every rule


BROKEN: list[Callable[[pytest.MonkeyPatch], None]] = []


def breaks(owner: type, name: str, broken: list[Any] = BROKEN) -> Callable[[Any], Any]:
    """Decorate what stands in the place of a method, which it gets first, and so breaks a rule."""

    def register(instead):
        def rule(rules):
            method = getattr(owner, name)
            rules.setattr(owner, name, lambda *arguments: instead(method, *arguments))

        rule.__name__ = instead.__name__
        broken.append(rule)

    return register


def unheard(waiters, change):
    """Do something that wakes nobody."""
    before = [(each.wake_up, each.wake_up.is_notified, each.wake_up.is_set) for each in waiters]
    change()
    for wake_up, *were in before:
        wake_up.is_notified, wake_up.is_set = were


@breaks(queues._WaitQueues, "_wait_as_told")
def in_all_queues(wait, self, waiter, places, *rest):
    wait(self, waiter, (), *rest)


@breaks(queues._WaitQueues, "_wait_as_told")
def in_no_queue(_, self, waiter, places, now, until, wakes):
    self._stand(waiter, frozenset())
    waiter.told = until


@breaks(queues._WaitQueues, "_wait_as_told")
def at_one_of_several(wait, self, waiter, places, *rest):
    wait(self, waiter, places[:1], *rest)


@breaks(queues._WaitQueues, "_wait_as_told")
def deaf_while_it_asks(wait, self, waiter, places, now, until, wakes):
    wait(self, waiter, places, now, until, self.wakes)


@breaks(queues._Queue, "add")
def behind_who_came_later(add, self, waiter):
    before = list(self.waiters)
    add(self, waiter)
    self.waiters[:] = [*before, waiter]


@breaks(queues._WaitQueues, "_holding")
def before_who_stands_elsewhere(holding, self, waiter):
    return holding(self, waiter)[:0]


@breaks(queues._WaitQueues, "_stand")
def where_it_stood(stand, self, waiter, pairs):
    stand(self, waiter, pairs | waiter.stands_at if pairs else pairs)


@breaks(queues._WaitQueues, "_leave_queue")
def waking_nobody_who_was_told(leave, self, waiter, pair):
    for queue in self._queues.get(pair.subject, {}).values():
        for each in queue.waiters:
            each.told_after = self.wakes
    leave(self, waiter, pair)


@breaks(queues._WaitQueues, "_leave_queue")
def waking_nobody(leave, self, waiter, pair):
    queue = self._queues.get(pair.subject, {}).get(pair)
    others = [each for each in queue.waiters if each is not waiter] if queue else []
    unheard(others, lambda: leave(self, waiter, pair))


@breaks(queues._Queue, "in_vain")
def telling_nobody_who_waits_in_vain(*_):
    return []


@breaks(queues._WaitQueues, "_tell")
def telling_nobody_who_keeps_a_place(tell, self, queue, first):
    keepers, queue.keepers = queue.keepers, {}
    tell(self, queue, first)
    queue.keepers = keepers


@breaks(queues._WaitQueues, "_wait")
def keeping_nothing_behind_others(wait, self, waiter, *rest):
    waits, waiter.waits = waiter.waits, {} if waiter.is_held_up else waiter.waits
    wait(self, waiter, *rest)
    waiter.waits = waits


@breaks(queues._WaitQueues, "_earliest")
def naming_another_pair(earliest, self, waiter):
    until, place = earliest(self, waiter)
    return until, (place + 1) % len(waiter.pairs)


@breaks(queues._WaitQueues, "leave")
def leaving_by_halves(leave, self, waiter):
    return waiter.stands_at or leave(self, waiter)


@breaks(queues._WaitQueues, "_wake_subjects")
def hearing_of_no_change(*_):
    pass


def keeping_nothing(rules):
    rules.setattr(queues, "_KEEPS", 0)


def keeping_for_ever(rules):
    rules.setattr(queues, "_KEEPS", 10**9)


@pytest.mark.check
@pytest.mark.parametrize("rule", [*BROKEN, keeping_nothing, keeping_for_ever], ids=lambda rule: rule.__name__)
def test_each_rule_is_needed(monkeypatch, rule):
    rule(monkeypatch)
    kinds = [(place, interleaved) for place in (Crossing, Town) for interleaved in (False, True)]
    assert any(not is_right(seed, *kind) for seed in range(300) for kind in kinds)


def is_right(seed, place, interleaved):
    town = place(seed, interleaved=interleaved)
    try:
        town.live(60)
    except AssertionError:
        return False
    finally:
        for person in town.world.waiting:
            person.steps.close()
    return True
