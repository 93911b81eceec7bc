"""Who goes first of those that wait (``docs/semantics.md``): by priority, in order, none passed for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overlimit import SlidingLog, _core
from overlimit.waiting import acquiring, queues
from overlimit.waiting.queues import Urgency

from .strategies import ROUNDS
from .test_model_of_waiting import SECOND, World, breaks, nobody_else, unheard

__all__ = ["nobody_else"]

PATIENCES = [0, SECOND // 2, 2 * SECOND, 7 * SECOND]


class Line(World):
    """Callers of several priorities for one identifier, one of whom may go each second."""

    def __init__(self, seed):
        super().__init__(seed)
        self.service = self.limiter(SlidingLog(1, 1))
        self.urgencies: dict[int, Urgency] = {}
        self.came_at: dict[int, int] = {}
        self.asks: list[tuple[int, int]] = []
        """Who asked the store, and when."""
        self.order: list[tuple[int, int, int]] = []
        """Who was admitted when, as which of those that asked."""

    def come_with(self, urgency):
        person = self.come_as(urgency, (self.service, "x", 1))
        self.settle()
        return person

    def come_as(self, urgency, charge):
        number = self.came + 1
        self.urgencies[number], self.came_at[number] = urgency, self.now
        acquire = acquiring.acquiring
        try:
            acquiring.acquiring = lambda *about: acquire(*about, None, urgency)
            return self.come(charge)
        finally:
            acquiring.acquiring = acquire

    def settle(self):
        """Let all go on that are awake, in any order."""
        for _ in range(10_000):
            awake = [each for each in self.waiting if self.is_awake(each)]
            if not awake:
                return
            self.turn(self.random.choice(awake))
        raise AssertionError("somebody asks for ever")

    def hit(self, person, checked, patience):
        self.asks.append((person.number, self.now))
        decision = _core._hit_all_within(checked, patience)
        if decision:
            person.is_through = True
            self.order.append((person.number, self.now, len(self.asks)))
        return decision

    def live(self, steps):
        for _ in range(steps):
            if self.random.random() < 0.6 and len(self.waiting) < 9:
                priority = self.random.choice([0, 0, 1, 5])
                self.come_with(Urgency(priority, self.random.choice(PATIENCES)))
            else:
                self.now += self.random.choice([SECOND // 4, SECOND])
                self.settle()
        for _ in range(200):
            if not self.waiting:
                break
            self.now += SECOND // 4
            self.settle()
        assert not self.waiting, "somebody waits for ever"
        self.check_order()

    def check_order(self):
        """Whoever went before another came first, is more urgent, or goes with one passed for too long."""
        assert len(self.order) == self.came
        for place, (one, now, asked) in enumerate(self.order):
            for other, *_ in self.order[place + 1 :]:
                if self.came_at[other] >= now:
                    continue
                mine, its = self.urgencies[one].priority, self.urgencies[other].priority
                if mine == its:
                    assert one < other, "not in the order in which they came"
                elif mine < its:
                    assert any(
                        self.was_passed_for(each, now, asked) >= self.urgencies[each].patience
                        for each in range(one, other)
                    ), "a lower one went before a higher one"
                elif other < one:
                    waited = self.was_passed_for(other, now, asked)
                    assert waited <= self.urgencies[other].patience, "passed for too long"

    def was_passed_for(self, number, now, asked):
        """For how long those that came later ask before one that waits; -1: none has."""
        urgency = self.urgencies[number]
        passed = [
            at
            for other, at in self.asks[: asked - 1]
            if other > number and self.urgencies[other].priority > urgency.priority
        ]
        return now - passed[0] if passed else -1


def is_right(seed):
    try:
        Line(seed).live(60)
    except AssertionError:
        return False
    return True


@pytest.mark.longer_in_prove
def test_a_higher_priority_goes_first_each_in_order_and_nobody_is_passed_for_too_long():
    admitted = 0
    for seed in range(60 * ROUNDS):
        line = Line(seed)
        line.live(60)
        admitted += len(line.order)
    assert admitted > 500


BROKEN: list[Callable[[pytest.MonkeyPatch], None]] = []


def higher_last(self):
    return self.goes_with, self.priority, self.number


def all_alike(self):
    return 0, 0, self.number


def last_come_first(self):
    return self.goes_with, -self.priority, -self.number


@breaks(queues._Queue, "pass_by", BROKEN)
def passing_for_ever(*_):
    pass


@breaks(queues._Queue, "pass_by", BROKEN)
def passing_nobody(pass_by, self, waiter, now):
    pass_by(self, waiter, now - 10 * SECOND)


@breaks(queues._WaitQueues, "_reorder", BROKEN)
def going_first_alone(reorder, self, waiter, goes_with):
    if waiter.number == goes_with:
        reorder(self, waiter, goes_with)


@breaks(queues._WaitQueues, "_go_on_with", BROKEN)
def telling_nobody_who_may_go_first(go_on, self, waiter):
    of_all = [queue for pairs in self._queues.values() for queue in pairs.values()]
    unheard([each for queue in of_all for each in queue.waiters], lambda: go_on(self, waiter))


@pytest.mark.check
@pytest.mark.parametrize("order", [higher_last, all_alike, last_come_first], ids=lambda order: order.__name__)
def test_the_order_is_needed(monkeypatch, order):
    monkeypatch.setattr(queues.Waiter, "order", property(order))
    assert any(not is_right(seed) for seed in range(60))


@pytest.mark.check
@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_each_rule_is_needed(monkeypatch, rule):
    rule(monkeypatch)
    assert any(not is_right(seed) for seed in range(60))


@pytest.mark.parametrize(("patience", "behind"), [(None, 10), (3 * SECOND, 3), (0, 1)])
def test_one_that_is_passed_all_the_time_goes_when_its_patience_is_over(patience, behind):
    """It was told to wait for a second: by default it is passed for ten times as long."""
    line = Line(0)
    line.service.hit("x")
    low = line.come_with(Urgency(0, patience))
    for _ in range(3):
        line.come_with(Urgency(1))
    while low in line.waiting:
        line.now += SECOND
        line.settle()
        line.come_with(Urgency(1))
        assert len(line.order) <= behind + 1, "starves"
    assert low.is_through
    assert len(line.order) >= behind
    for person in line.waiting:
        person.steps.close()
