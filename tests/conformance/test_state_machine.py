"""Random lives of two policies: every call there is, on the oracle, in memory and on Redis, step by step.

``make prove`` (PROVE=10) makes some 250,000 steps and other ones each time; ``make test`` makes 3,000.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from overlimit import Limit, Limiter, ManualClock, MemoryStore, Penalty, RedisStore, hit_all

from .answers import answer_of, expected_of
from .oracle import Charge, Oracle, OracleDecision
from .oracle import hit_all as oracle_hit_all
from .strategies import (
    LAST_US,
    ROUNDS,
    START_US,
    costs,
    durations_of,
    identifiers,
    limits,
    moves,
    penalties,
    renumbered,
)

LIVES = 800 * ROUNDS if ROUNDS > 1 else 80
STEPS_PER_LIFE = 50

names = st.sampled_from(["one", "two"])
callers = st.lists(identifiers, min_size=1, max_size=3)
lists_of_limits = st.lists(limits, min_size=1, max_size=3).map(tuple)


class Life(RuleBasedStateMachine):
    """Whatever is asked is asked three times, and each answer compared in every field."""

    redis: RedisStore
    seen: Counter[str]
    lives = itertools.count()

    @initialize(
        one=lists_of_limits, two=lists_of_limits, penalty=st.none() | penalties, clock_goes_back=st.booleans()
    )
    def begin(
        self, one: tuple[Limit, ...], two: tuple[Limit, ...], penalty: Penalty | None, clock_goes_back: bool
    ) -> None:
        self.now = START_US
        self.clock = ManualClock(start=START_US / 1e6)
        self.goes_back = clock_goes_back
        self.stores = [MemoryStore(max_keys=100, max_bytes=1 << 20), self.redis]
        self.oracles: dict[str, Oracle] = {}
        self.limiters: dict[str, list[Limiter]] = {}
        self.refundable: list[tuple[str, OracleDecision, list[Any]]] = []
        life = next(self.lives)
        first = Oracle(one, f"life-{life}-one", penalty=penalty)
        second = Oracle(two, f"life-{life}-two", first.records)
        for name, oracle in (("one", first), ("two", second)):
            self.oracles[name] = oracle
            self.limiters[name] = [
                Limiter(
                    list(oracle.limits),
                    name=oracle.name,
                    store=store,
                    clock=self.clock,
                    penalty=oracle.penalty,
                )
                for store in self.stores
            ]

    def agree(self, decision: OracleDecision, answers: list[Any], kind: str) -> None:
        self.seen["steps"] += 1
        self.seen[kind] += 1
        self.seen[decision.status] += 1
        for answer in answers:
            assert answer_of(answer) == expected_of(decision)

    def move_to(self, us: int) -> None:
        settled = self.oracles["one"].settled_from
        self.now = min(max(us, settled, 0), LAST_US)
        self.clock.set(self.now / 1e6)

    def ask(self, kind: str, name: str, who: list[Any], cost: int, **patience: int) -> OracleDecision:
        oracle_kind = "hit" if kind == "_hit_within" else kind
        decision: OracleDecision = getattr(self.oracles[name], oracle_kind)(self.now, who, cost, **patience)
        seconds = {key: us / 1e6 for key, us in patience.items()}
        answers = [getattr(limiter, kind)(*who, cost=cost, **seconds) for limiter in self.limiters[name]]
        self.agree(decision, answers, kind)
        if kind != "peek":
            self.refundable.append((name, decision, answers))
        return decision

    @rule(name=names, data=st.data())
    def move(self, name: str, data: st.DataObject) -> None:
        us = data.draw(moves(durations_of(self.oracles[name].limits)))
        if us < 0:
            self.seen["moved back"] += self.goes_back
        self.move_to(self.now + (us if self.goes_back else abs(us)))

    @rule(name=names, who=callers, cost=costs)
    def hit(self, name: str, who: list[Any], cost: int) -> None:
        self.ask("hit", name, who, cost)

    @rule(name=names, who=callers)
    def hit_again(self, name: str, who: list[Any]) -> None:
        self.ask("hit", name, who, 1)

    @rule(name=names, who=callers, cost=costs)
    def charge(self, name: str, who: list[Any], cost: int) -> None:
        self.ask("charge", name, who, cost)

    @precondition(lambda self: self.refundable)
    @rule(back=st.integers(1, 4), cost=st.integers(0, 9) | costs)
    def settle(self, back: int, cost: int) -> None:
        name, decision, answers = self.refundable[-min(back, len(self.refundable))]
        if decision.cost == 0 or {row.policy for row in decision.details} != {self.oracles[name].name}:
            return
        costs = {receipt.cost for receipt in decision.receipts}
        if len(costs) > 1 or len(decision.receipts) not in (0, len(decision.details)):
            return
        settled = self.oracles[name].settle(self.now, decision, cost)
        limiters = self.limiters[name]
        answers = [each.settle(answer, cost) for each, answer in zip(limiters, answers, strict=True)]
        self.agree(settled, answers, "settle")
        self.look(name)

    @rule(name=names, who=callers, cost=costs)
    def peek_and_hit(self, name: str, who: list[Any], cost: int) -> None:
        """A peek foretells the hit, in every field."""
        foretold = self.ask("peek", name, who, cost)
        assert expected_of(self.ask("hit", name, who, cost)) == expected_of(foretold)

    @rule(name=names, who=callers, cost=costs, data=st.data())
    def hit_within(self, name: str, who: list[Any], cost: int, data: st.DataObject) -> None:
        longest = max(durations_of(self.oracles[name].limits))
        patience = data.draw(st.sampled_from([0, 1, longest, 3 * longest]) | st.integers(0, 2 * longest))
        self.ask("_hit_within", name, who, cost, patience=min(patience, 2**49))

    @rule(charges=st.lists(st.tuples(names, identifiers, costs), min_size=1, max_size=4))
    def hit_several(self, charges: list[tuple[str, Any, int]]) -> None:
        keys = {}
        for name, who, cost in charges:
            keys.setdefault((name, as_bytes(who)), (name, who, cost))
        asked = [Charge(self.oracles[name], who, cost) for name, who, cost in keys.values()]
        total = sum(cost for _, _, cost in keys.values())
        decision = oracle_hit_all(self.now, asked, cost=total)
        answers = [
            hit_all([(self.limiters[name][store], who, cost) for name, who, cost in keys.values()])
            for store in range(len(self.stores))
        ]
        self.agree(decision, answers, "hit_all")
        self.refundable.append((charges[0][0], decision, answers))

    @rule(name=names, who=callers, cost=costs)
    def come_back_in_time(self, name: str, who: list[Any], cost: int) -> None:
        """retry_after is exact for a caller alone whose clock is not behind."""
        refused = self.ask("peek", name, who, cost)
        penalty = self.oracles[name].penalty
        would_lock = penalty is not None and (refused.status == "over" or penalty.extend)
        if refused.status not in ("over", "locked") or would_lock:
            return
        if self.oracles[name].is_behind(self.now, who) or self.now + refused.retry_after > LAST_US:
            return
        assert refused.retry_after >= 1
        self.move_to(self.now + int(refused.retry_after) - 1)
        assert self.ask("peek", name, who, cost).status != "ok"
        self.move_to(self.now + 1)
        assert self.ask("hit", name, who, cost).status == "ok"
        self.seen["came back in time"] += 1

    @precondition(lambda self: self.refundable)
    @rule(back=st.integers(1, 4))
    def refund(self, back: int) -> None:
        name, decision, answers = self.refundable[-min(back, len(self.refundable))]
        self.seen["refund"] += 1
        self.oracles[name].refund(self.now, decision)
        for limiter, answer in zip(self.limiters[name], answers, strict=True):
            limiter.refund(answer)
        self.look(name)

    @rule(name=names, who=identifiers, us=st.sampled_from([1, 2, 1_000, 1_000_000, 60_000_000]))
    def lock(self, name: str, who: Any, us: int) -> None:
        self.seen["lock"] += 1
        self.oracles[name].lock(self.now, who, us)
        for limiter in self.limiters[name]:
            limiter.lock(who, us / 1e6)

    @rule(name=names, data=st.data())
    def update(self, name: str, data: st.DataObject) -> None:
        """The same limits with other numbers, in another order, perhaps with a new one or without one."""
        oracle = self.oracles[name]
        changed = [data.draw(renumbered(limit)) for limit in data.draw(st.permutations(oracle.limits))]
        if len(changed) < 5 and data.draw(st.booleans()):
            changed.append(data.draw(limits))
        elif len(changed) > 1 and data.draw(st.booleans()):
            changed.pop()
        self.seen["update"] += 1
        oracle.update(tuple(changed))
        for limiter in self.limiters[name]:
            limiter.update(changed)

    @rule(name=names, who=callers)
    def reset(self, name: str, who: list[Any]) -> None:
        self.seen["reset"] += 1
        self.oracles[name].reset(who)
        for limiter in self.limiters[name]:
            limiter.reset(*who)

    def look(self, name: str) -> None:
        for who in ("ip:1", "user:é", "\ud800"):
            self.ask("peek", name, [who], 0)


def as_bytes(who: str | bytes) -> bytes:
    return who if isinstance(who, bytes) else who.encode("utf-8", "surrogatepass")


@pytest.mark.longer_in_prove
def test_every_life_is_the_same_on_every_store(redis_store, capsys):
    Life.redis, Life.seen = redis_store, Counter()
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=LIVES,
            stateful_step_count=STEPS_PER_LIFE,
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    seen = Life.seen
    with capsys.disabled():
        print("\n" + ", ".join(f"{count} {what}" for what, count in seen.most_common()))
    assert seen["steps"] >= 20 * LIVES
    for status in ("ok", "over", "locked", "never"):
        assert seen[status] >= seen["steps"] / 50, status
    # How often depends on the modules of the process, too: hypothesis draws constants from them.
    assert min(seen[kind] for kind in ("hit_all", "charge", "settle", "refund", "update")) >= LIVES / 8
    assert seen["came back in time"] >= LIVES / 20
