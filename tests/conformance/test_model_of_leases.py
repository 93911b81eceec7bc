"""Units that are charged early and spent late admit nothing that the strict algorithm, asked call by call at
the same instants, would refuse: the oracle's algorithms (``docs/semantics.md``), over whole microseconds.

Units that are not spent count as asked where a phase begins with a charge; else it is as if nobody had asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from .oracle.algorithm import Algorithm
from .oracle.fixed_window import FixedWindow
from .oracle.leaky_bucket import LeakyBucket
from .oracle.sliding_window import SlidingWindow
from .oracle.sliding_window_counter import SlidingWindowCounter
from .oracle.token_bucket import Bucket, TokenBucket


@dataclass(frozen=True)
class Rules:
    """Each of them broken makes another model."""

    ends_in_time: bool = True  # with the window, the block or the interval
    leases_only_what_goes_at_once: bool = True
    holds: bool = True
    holds_for_a_life: bool = True
    merges_at_the_later_end: bool = True
    rescales_holds: bool = True
    refunds_leave_what_is_held: bool = True
    refunds_reckon_with_holds: bool = True
    holds_that_have_passed_count: bool = True


class HoldingBucket(TokenBucket):
    """A continuous bucket by these rules."""

    most_holds = 2
    rules = Rules()

    def leased(self, state: Bucket | None, now: int, cost: int, extra: int, life: int) -> Bucket:
        return super().leased(state, now, cost, extra if self.rules.holds else 0, life)

    def held_until(self, now: int, life: int) -> int:
        until = super().held_until(now, life)
        return until if self.rules.holds_for_a_life else until - (life + 1) // 2

    def joined(self, oldest: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        until, units = super().joined(oldest, second)
        return until if self.rules.merges_at_the_later_end else oldest[0], units

    def rescaled_holds(self, state: Bucket) -> tuple[tuple[int, int], ...]:
        return super().rescaled_holds(state) if self.rules.rescales_holds else state.held

    def after_hold(self, refunded: int | None, units: int) -> int | None:
        return super().after_hold(refunded, units if self.rules.holds_that_have_passed_count else 0)

    def could_not_drain(self, state: Bucket) -> int:
        reckons = self.rules.refunds_leave_what_is_held and self.rules.refunds_reckon_with_holds
        return super().could_not_drain(state) if reckons else 0

    def may_be_given_back(self, state: Bucket) -> int:
        return super().may_be_given_back(state) if self.rules.refunds_leave_what_is_held else state.used


@dataclass
class Record:
    """One record, which is kept as ``Pair`` keeps it."""

    algorithm: Any
    state: Any = None
    expires_at: int = 0

    def at(self, now: int) -> Any:
        return None if self.state is None or now >= self.expires_at else self.algorithm.at(self.state, now)

    def admits(self, now: int, cost: int) -> bool:
        return bool(self.algorithm.fits(self.at(now), now, cost))

    def charge(self, now: int, cost: int, extra: int = 0, life: int = 0) -> Any:
        known_until = self.expires_at
        self.state = self.algorithm.leased(self.at(now), now, cost, extra, life)
        self.expires_at = now + self.algorithm.reset(self.state, now)
        if self.algorithm.knows_refunds(self.state):
            self.expires_at = max(self.expires_at, known_until)
        return self.state

    def refund(self, now: int, charged: Any, after: Any, cost: int) -> None:
        """By the algorithm that was charged, as it was then."""
        if self.state is not None and now < self.expires_at:
            self.state = charged.refunded(self.state, now, after, cost)


@dataclass
class Lease:
    end: int  # it can be spent before
    left: int
    charged: Any
    after: Any


@dataclass
class World:
    """A record that is charged early, and what the strict algorithm was asked instead, when it was."""

    algorithm: Any
    rules: Rules
    refunds: bool = True
    now: int = 0
    record: Record = field(init=False)
    leases: list[Lease] = field(default_factory=list)
    hits: list[tuple[int, int, Any, Any]] = field(default_factory=list)  # those that can be refunded
    asked: list[tuple[int, int]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)  # when callers of a queue of single ones go
    is_kept: bool = True

    def __post_init__(self) -> None:
        self.record = Record(self.algorithm)

    def strictly(self, cost: int) -> None:
        """Ask the strict algorithm for what was just admitted."""
        strict = Record(self.algorithm)
        for at, each in sorted(self.asked, key=lambda asked: asked[0]):
            strict.charge(at, each)
        self.is_kept &= strict.admits(self.now, cost)
        self.asked.append((self.now, cost))

    def go(self, delay: int) -> None:
        """No more callers of a queue go in one period than it lets go."""
        if isinstance(self.algorithm, LeakyBucket):
            self.gone.append(self.now + delay)
            period, start = self.algorithm.period, self.record.state.start
            periods = [(at - start) // period for at in self.gone]
            self.is_kept &= periods.count(periods[-1]) <= self.algorithm.rate

    def wait(self, time: int) -> None:
        self.now += time
        ended = sorted((each for each in self.leases if each.end <= self.now), key=lambda each: each.end)
        for lease in ended if not self.refunds else ():
            self.asked += [(lease.end - 1, 1)] * lease.left
        self.leases = [each for each in self.leases if each.end > self.now]

    def fill(self) -> None:
        """Take all that is left."""
        self.hit(self.algorithm.remaining(self.record.at(self.now), self.now))

    def hit(self, cost: int) -> None:
        cost = min(cost, 1) if isinstance(self.algorithm, LeakyBucket) else cost
        if cost > 0 and self.record.admits(self.now, cost):
            after = self.record.charge(self.now, cost)
            self.hits.append((self.now, cost, self.algorithm, after))
            self.strictly(cost)
            self.go(self.algorithm.delay(after, self.now))

    def lease(self, extra: int, life: int) -> None:
        if not self.record.admits(self.now, 1 + extra):
            return
        charged = self.algorithm.charged(self.record.at(self.now), self.now, 1 + extra)
        if self.rules.leases_only_what_goes_at_once and self.algorithm.delay(charged, self.now) > 0:
            return
        after = self.record.charge(self.now, 1 + extra, extra, life)
        end = end_of(self.algorithm, after, self.now, life)
        self.leases.append(
            Lease(end if self.rules.ends_in_time else end + life, extra, self.algorithm, after)
        )
        self.strictly(1)
        self.go(self.algorithm.delay(after, self.now))

    def spend(self, chosen: int, cost: int) -> None:
        lease = self.leases[chosen % len(self.leases)]
        for _ in range(min(cost, lease.left)):
            lease.left -= 1
            self.strictly(1)
            self.go(0)

    def give_back(self, chosen: int, cost: int) -> None:
        lease = self.leases[chosen % len(self.leases)]
        cost = min(cost, lease.left)
        if self.refunds and cost > 0:
            lease.left -= cost
            self.record.refund(self.now, lease.charged, lease.after, cost)

    def refund(self, chosen: int) -> None:
        if self.refunds and self.hits:
            at, cost, charged, after = self.hits.pop(chosen % len(self.hits))
            self.asked.remove((at, cost))
            self.record.refund(self.now, charged, after, cost)

    def change(self, factor: int) -> None:
        """The limit's numbers change, its rate does not."""
        if isinstance(self.algorithm, HoldingBucket):
            bucket = self.algorithm
            self.algorithm = holding_bucket(self.rules, factor, bucket.burst)
            self.record.algorithm = self.algorithm


def holding_bucket(rules: Rules, factor: int = 1, burst: int = 12) -> HoldingBucket:
    """A token comes back every microsecond."""
    bucket = HoldingBucket(burst, 1, factor, factor)
    bucket.rules = rules
    return bucket


def end_of(algorithm: Any, after: Any, now: int, life: int) -> int:
    """When a lease ends that was charged now."""
    if isinstance(algorithm, FixedWindow):
        return int(after.end)
    if isinstance(algorithm, SlidingWindowCounter | LeakyBucket):
        return int(after.start) + algorithm.period
    if isinstance(algorithm, SlidingWindow):
        return (max(after) + 1) * algorithm.precision
    return now + life + 1 if algorithm.every == 1 else int(after.last) + int(algorithm.every)


MODELS: dict[str, tuple[Callable[[Rules], Algorithm], bool]] = {
    "fixed_window": (lambda _: FixedWindow(7, 8, 0), False),
    "epoch_window": (lambda _: FixedWindow(7, 8, 1), True),
    "sliding_window": (lambda _: SlidingWindow(7, 12, 4), True),
    "sliding_window_counter": (lambda _: SlidingWindowCounter(7, 8), True),
    "interval_bucket": (lambda _: TokenBucket(7, 5, 1, 4, 5), False),
    "leaky_bucket": (lambda _: LeakyBucket(5, 7, 4), False),
    "continuous_bucket": (holding_bucket, True),
}
"""And whether what is given back is as if it had never been charged: else a phase may have begun with it."""

Step = tuple[Any, ...]

WRITTEN: dict[str, list[Step]] = {
    "holds": [("lease", 3, 4), ("wait", 4), ("spend", 0, 3), ("fill",)],
    "holds_for_a_life": [("lease", 3, 4), ("wait", 4), ("spend", 0, 3), ("fill",)],
    "merges_at_the_later_end": [
        *[("lease", 2, 4), ("lease", 2, 8), ("lease", 2, 14), ("wait", 8)],
        *[("spend", 0, 2), ("spend", 1, 2), ("fill",)],
    ],
    "rescales_holds": [("lease", 3, 4), ("change", 3), ("wait", 4), ("spend", 0, 3), ("fill",)],
    # What was hit first has drained, although more than that is used: by the lease.
    "refunds_leave_what_is_held": [
        *[("lease", 7, 10), ("hit", 3), ("wait", 4), ("hit", 4)],
        *[("refund", 0), ("fill",), ("spend", 0, 7)],
    ],
    # It is not enough that usage stays above what is held: that may have passed.
    "refunds_reckon_with_holds": [
        *[("lease", 7, 10), ("hit", 4), ("wait", 9), ("hit", 4), ("wait", 1), ("spend", 0, 7)],
        *[("wait", 1), ("refund", 0), ("fill",)],
    ],
    "holds_that_have_passed_count": [
        *[("lease", 7, 10), ("hit", 4), ("wait", 10), ("spend", 0, 7), ("wait", 1)],
        *[("hit", 1), ("refund", 0), ("fill",)],
    ],
}
"""How a bucket of 12 admits too much without a rule."""

NEEDED = [
    *[(name, "ends_in_time") for name in MODELS],
    ("leaky_bucket", "leases_only_what_goes_at_once"),
    *[("continuous_bucket", rule) for rule in WRITTEN],
]
KINDS = ["wait", "hit", "fill", "lease", "spend", "give_back", "refund", "change"]


def random_steps(chance: random.Random) -> Iterator[Step]:
    """Yield the calls of a life. Lives differ in what happens often, and in how long it takes."""
    weights, longest = [chance.choice([1, 2, 5, 20]) for _ in KINDS], chance.choice([2, 4, 8])
    for kind in chance.choices(KINDS, weights, k=40):
        if kind == "wait":
            yield kind, chance.randrange(1, longest + 1)
        elif kind == "lease":
            yield kind, chance.choice([1, 2, 3, 7]), chance.choice([4, 8, 14, 20])
        elif kind in {"spend", "give_back"}:
            yield kind, chance.randrange(9), chance.randrange(1, 5)
        elif kind == "fill":
            yield (kind,)
        else:
            yield kind, chance.choice([1, 3]) if kind == "change" else chance.randrange(1, 5)


def live(name: str, rules: Rules, steps: Iterable[Step]) -> World:
    """Return what has become of one record after these calls, up to one that admits too much."""
    build, refunds = MODELS[name]
    world = World(build(rules), rules, refunds)
    for kind, *numbers in steps:
        if kind not in {"spend", "give_back"} or world.leases:
            getattr(world, kind)(*numbers)
        if not world.is_kept:
            break
    return world


def worlds(name: str, rules: Rules, count: int) -> Iterator[World]:
    if name == "continuous_bucket":
        yield from (live(name, rules, steps) for steps in WRITTEN.values())
    yield from (live(name, rules, random_steps(random.Random(seed))) for seed in range(count))


@pytest.mark.parametrize("name", MODELS)
def test_early_is_late(name):
    assert all(world.is_kept for world in worlds(name, Rules(), 500))


@pytest.mark.parametrize(("name", "rule"), NEEDED)
def test_each_rule_is_needed(name, rule):
    assert not all(world.is_kept for world in worlds(name, replace(Rules(), **{rule: False}), 500))
