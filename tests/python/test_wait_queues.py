"""What is known of those that wait, whatever queues they share: compared with a model that asks everybody."""

from __future__ import annotations

import math
import random

import pytest

from overlimit import Limiter, MemoryStore
from overlimit.waiting.queues import Waiter, _WaitQueues


class WakeUp:
    is_gone = False

    def __init__(self):
        self.is_notified = False

    def notify(self):
        self.is_notified = True


class Model:
    """Those that wait, in the order in which they came; who shares a key with an earlier one is behind it."""

    def __init__(self):
        self.waiting = []
        self.told = {}

    def earliest(self, waiter):
        known = {}
        for each in self.waiting:
            ahead = [at for other, at in known.items() if other.places & each.places]
            known[each] = max([self.told.get(each, 0), *ahead])
        return known[waiter]

    def is_first(self, waiter):
        before = self.waiting[: self.waiting.index(waiter)]
        return not any(other.places & waiter.places for other in before)

    def wake(self, key):
        place = next((place for each in self.waiting for place in each.places if place[1] == key), None)
        first = next((each for each in self.waiting if place in each.places), None)
        if first is not None and self.is_first(first):
            self.told[first] = 0


def play(seed, keys, most):
    """Have callers join, leave, be told and be woken in a random order; check all of them after each step."""
    chance = random.Random(seed)
    queues, model = _WaitQueues(), Model()
    limiter = Limiter("5/minute", store=MemoryStore())
    for _ in range(120):
        firsts = [each for each in model.waiting if model.is_first(each)]
        step = chance.choice(["join", "join", "leave", "tell", "tell", "wake"])
        if step == "join":
            names = chance.sample(keys, chance.randint(1, most))
            deadline = chance.choice([math.inf, *range(10, 100, 10)])
            waiter = Waiter([(limiter, name) for name in names], deadline, WakeUp())
            queues.join(waiter)
            model.waiting.append(waiter)
        elif step == "leave" and model.waiting:
            waiter = chance.choice(model.waiting)
            queues.leave(waiter)
            model.waiting.remove(waiter)
        elif step == "wake":
            key = chance.choice(keys)
            queues.wake(limiter.store, [key])
            model.wake(key)
        elif step == "tell" and firsts:
            waiter = chance.choice(firsts)
            before = {each: model.earliest(each) for each in model.waiting}
            for each in model.waiting:
                each.wake_up.is_notified = False
            model.told[waiter] = chance.randrange(120)
            queues.postpone(waiter, model.told[waiter])
            for each in model.waiting:
                in_vain = model.earliest(each) > each.deadline
                known = before[each] > each.deadline
                assert each.wake_up.is_notified or known or not in_vain, (seed, each.number)
                assert in_vain or not each.wake_up.is_notified, (seed, each.number)
        for each in model.waiting:
            earliest = model.earliest(each)
            found = queues.earliest(each)
            assert found == earliest or (found == 0 and earliest <= each.deadline), (seed, each.number)
            assert queues.is_first(each) == model.is_first(each), (seed, each.number)
    for each in model.waiting:
        queues.leave(each)
    assert not queues.by_family
    assert not queues._queues


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("keys", [2, 4, 7])
def test_what_those_before_were_told_holds_for_all_behind_them_and_nobody_else(keys, most):
    names = [f"key {number}".encode() for number in range(keys)]
    for seed in range(6):
        play(seed, names, min(most, keys))


def test_a_crowd_that_gives_up_is_not_remembered():
    queues, limiter = _WaitQueues(), Limiter("5/minute", store=MemoryStore())
    one = Waiter([(limiter, b"a")], math.inf, WakeUp())
    queues.join(one)
    for number in range(500):
        other = Waiter([(limiter, b"a")], number, WakeUp())
        queues.join(other)
        queues.leave(other)
    (queue,) = queues._queues.values()
    assert list(queue.waiters) == [one]
    assert len(queue._deadlines._heap) < 50
    assert len(queues._deadlines._heap) < 50
