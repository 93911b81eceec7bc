"""Random lives of two policies: every call there is, on the oracle and on each kind of store, step by step.

``make prove`` (PROVE=10) makes some 250,000 steps and other ones each time; ``make test`` makes 3,000.
"""

from __future__ import annotations

import secrets
from collections import Counter
from fractions import Fraction
from typing import Any, ClassVar

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

from overlimit import (
    Limit,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RedisStore,
    SharedMemoryStore,
    hit_all,
    peek_all,
)
from own_stores import DictStore
from servers.patience import PATIENCE
from servers.redis_server import RedisServer

from .answers import answer_of, expected_of
from .oracle import Charge, Oracle, OracleDecision
from .oracle import hit_all as oracle_hit_all
from .oracle import peek_all as oracle_peek_all
from .outages import NOWHERE
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
kinds_of_many = st.sampled_from(["hit", "hit", "peek"])
lists_of_limits = st.lists(limits, min_size=1, max_size=3).map(tuple)


class Life(RuleBasedStateMachine):
    """Whatever is asked is asked of each, and every answer compared in every field."""

    server: RedisServer
    seen: Counter[str]
    options: ClassVar[dict[str, Any]] = {}
    said: ClassVar[dict[str, Any]] = {}

    @initialize(
        one=lists_of_limits, two=lists_of_limits, penalty=st.none() | penalties, clock_goes_back=st.booleans()
    )
    def begin(
        self, one: tuple[Limit, ...], two: tuple[Limit, ...], penalty: Penalty | None, clock_goes_back: bool
    ) -> None:
        self.now = START_US
        self.clock = ManualClock(start=START_US / 1e6)
        self.goes_back = clock_goes_back
        self.stores = self.new_stores()
        self.oracles: dict[str, Oracle] = {}
        self.limits = {"one": one, "two": two}
        self.limiters: dict[str, list[Limiter]] = {}
        self.refundable: list[tuple[str, OracleDecision, list[Any]]] = []
        first = Oracle(self.kept(one), "one", penalty=penalty)
        second = Oracle(self.kept(two), "two", first.records)
        for name, oracle in (("one", first), ("two", second)):
            self.oracles[name] = oracle
            self.limiters[name] = [
                Limiter(
                    list(self.limits[name]),
                    name=oracle.name,
                    store=store,
                    clock=self.clock,
                    penalty=oracle.penalty,
                    **self.options,
                )
                for store in self.stores
            ]

    def new_stores(self) -> list[Any]:
        """Those of one life, in which nobody has counted before."""
        self.server.ask("FLUSHALL")
        self.shared_memory = SharedMemoryStore(f"test-{secrets.token_hex(6)}", max_keys=100, timeout=PATIENCE)
        redis_store, values_store = RedisStore(self.server.unix_url(), timeout=PATIENCE), DictStore()
        values_store.timeout = PATIENCE
        return [MemoryStore(max_keys=100, max_bytes=1 << 20), self.shared_memory, redis_store, values_store]

    def teardown(self) -> None:
        self.shared_memory.unlink()

    def kept(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """What stores are to keep of limits."""
        return limits

    def agree(self, decision: OracleDecision, answers: list[Any], kind: str) -> None:
        self.seen["steps"] += 1
        self.seen[kind] += 1
        self.seen[decision.status] += 1
        for answer in answers:
            assert answer_of(answer) == expected_of(decision) | self.said

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
        several = [
            [(self.limiters[name][store], who, cost) for name, who, cost in keys.values()]
            for store in range(len(self.stores))
        ]
        foretold = oracle_peek_all(self.now, asked, cost=total)
        self.agree(foretold, [peek_all(each) for each in several], "peek_all")
        decision = oracle_hit_all(self.now, asked, cost=total)
        answers = [hit_all(each) for each in several]
        self.agree(decision, answers, "hit_all")
        self.refundable.append((charges[0][0], decision, answers))

    @rule(name=names, rows=st.lists(st.tuples(callers, costs), min_size=1, max_size=5), kind=kinds_of_many)
    def ask_many(self, name: str, rows: list[tuple[list[Any], int]], kind: str) -> None:
        """Each row is a call by itself."""
        of_each = [getattr(self.oracles[name], kind)(self.now, who, cost) for who, cost in rows]
        who, asked = [tuple(each) for each, _ in rows], [cost for _, cost in rows]
        decided = [getattr(limiter, f"{kind}_many")(who, asked) for limiter in self.limiters[name]]
        for row, decision in enumerate(of_each):
            self.agree(decision, [each[row] for each in decided], f"{kind}_many")

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

    @rule(name=names, who=identifiers)
    def unlock(self, name: str, who: Any) -> None:
        self.seen["unlock"] += 1
        if self.oracles[name].lock_of(self.now, who)[1] is not None:
            self.oracles[name].lock(self.now, who, 0)
        for limiter in self.limiters[name]:
            limiter.unlock(who)
        self.look(name)

    @rule(name=names, data=st.data())
    def update(self, name: str, data: st.DataObject) -> None:
        """The same limits with other numbers, in another order, perhaps with a new one or without one."""
        changed = [data.draw(renumbered(limit)) for limit in data.draw(st.permutations(self.limits[name]))]
        if len(changed) < 5 and data.draw(st.booleans()):
            changed.append(data.draw(limits))
        elif len(changed) > 1 and data.draw(st.booleans()):
            changed.pop()
        self.seen["update"] += 1
        self.limits[name] = tuple(changed)
        self.oracles[name].update(self.kept(self.limits[name]))
        for limiter in self.limiters[name]:
            limiter.update(changed)

    @rule(name=names, who=st.lists(identifiers, max_size=3))
    def reset(self, name: str, who: list[Any]) -> None:
        """Somebody, or everybody."""
        self.seen["reset" if who else "reset_all"] += 1
        for each in (self.oracles[name], *self.limiters[name]):
            if not who:
                each.reset_all()
            elif isinstance(each, Oracle):
                each.reset(who)
            else:
                each.reset(*who)

    def look(self, name: str) -> None:
        for who in ("ip:1", "user:é", "\ud800"):
            self.ask("peek", name, [who], 0)


class LifeCutOff(Life):
    """Of limiters whose store never answers, which grant a share of their limits by themselves."""

    said: ClassVar[dict[str, Any]] = {"source": "local"}
    lock = unlock = reset = None  # these are errors

    def new_stores(self) -> list[Any]:
        return [RedisStore(NOWHERE)]

    def teardown(self) -> None:
        """Nothing is left."""

    def kept(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return tuple(limit.scaled(self.options["local_share"]) for limit in limits)


def as_bytes(who: str | bytes) -> bytes:
    return who if isinstance(who, bytes) else who.encode("utf-8", "surrogatepass")


def live(kind: type[Life], lives: int) -> Counter[str]:
    kind.seen = Counter()
    phases = (Phase.generate, Phase.shrink)
    run_state_machine_as_test(
        kind, settings=settings(max_examples=lives, stateful_step_count=STEPS_PER_LIFE, phases=phases)
    )
    return kind.seen


@pytest.mark.longer_in_prove
def test_every_life_is_the_same_on_every_store(shared_memory, start_redis, capsys):
    Life.server = start_redis()
    seen = live(Life, LIVES)
    with capsys.disabled():
        print("\n" + ", ".join(f"{count} {what}" for what, count in seen.most_common()))
    assert seen["steps"] >= 20 * LIVES
    for status in ("ok", "over", "locked", "never"):
        assert seen[status] >= seen["steps"] / 50, status
    # How often depends on the modules of the process, too: hypothesis draws constants from them.
    assert (
        min(seen[kind] for kind in ("hit_all", "hit_many", "charge", "settle", "refund", "unlock", "update"))
        >= LIVES / 8
    )
    assert seen["came back in time"] >= LIVES / 20


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("share", [1, Fraction(3, 10), Fraction(1, 3), Fraction(1, 100)], ids=str)
def test_a_life_cut_off_from_its_store_is_that_of_the_scaled_limits(share):
    LifeCutOff.options = {"on_error": "local", "local_share": share}
    assert live(LifeCutOff, 10 * ROUNDS)["steps"] > 200 * ROUNDS
