"""A policy as a caller sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .algorithm import EXACT, Algorithm
from .answer import OracleDecision
from .call import Charge, Judged, hit_all, peek_all
from .pair import Pair
from .penalty import Penalty, after_hand, locked_by_hand, merged_locks
from .plain import algorithm_of
from .records import Key, Record, Records

Identifier = str | bytes
Tag = tuple[object, ...]
NOTED_FOR = 3_600_000_000


@dataclass
class Oracle:
    """A policy and its records. Pass another oracle's ``records`` to share a store with it."""

    limits: tuple[Any, ...]
    name: str = "default"
    records: Records = field(default_factory=Records)
    penalty: Any = None
    updates: list[dict[Tag, Algorithm]] = field(default_factory=list)

    def hit(
        self, now: int, identifiers: list[Identifier], cost: int = 1, patience: int | None = None
    ) -> OracleDecision:
        return hit_all(now, self._charges(identifiers, cost), cost=cost, patience=patience)

    def peek(self, now: int, identifiers: list[Identifier], cost: int = 1) -> OracleDecision:
        return peek_all(now, self._charges(identifiers, cost), cost=cost)

    def charge(self, now: int, identifiers: list[Identifier], cost: int = 1) -> OracleDecision:
        charges = [replace(charge, role="always") for charge in self._charges(identifiers, cost)]
        return hit_all(now, charges, cost=cost)

    def lease(
        self, now: int, identifier: Identifier, cost: int, extra: int, life: int, patience: int | None = None
    ) -> tuple[OracleDecision, int]:
        """Hit, and charge up to so many extra units that are spent within a life; return how many.

        No more than a quarter of what would fit at once.
        """
        if not peek_all(now, [Charge(self, identifier, cost)], patience=patience).allowed:
            extra = 0
        while extra and not peek_all(now, [Charge(self, identifier, cost + 4 * extra)], patience=0).allowed:
            extra //= 2
        charge = Charge(self, identifier, cost + extra, extra=extra, life=life)
        return hit_all(now, [charge], cost=cost, patience=0 if extra else patience), extra

    def settle(self, now: int, decision: OracleDecision, cost: int) -> OracleDecision:
        """Of a decision that charged this policy alone, and not 0."""
        if not decision.receipts:
            return decision
        charged, asked = decision.receipts[0].cost, min(cost, EXACT)
        identifiers = list({row.identifier: None for row in decision.details})
        if asked > charged:
            decision.receipts.clear()
            self.charge(now, identifiers, asked - charged)
        else:
            self.refund(now, decision, charged - asked)
        return peek_all(now, self._charges(identifiers, 0), cost=cost)

    def refund(self, now: int, decision: OracleDecision, cost: int | None = None) -> None:
        """Give back what the decision charged, of whatever policy, where and as far as it still counts.

        With a cost, so much of each charge.
        """
        while decision.receipts:
            receipt = decision.receipts.pop()
            given = receipt.cost if cost is None else cost
            record = receipt.records.live(receipt.key, now)
            if record is None or receipt.creation != receipt.records.creation_of(receipt.key):
                continue
            algorithm, after = receipt.algorithm, receipt.after
            for later in receipt.later():
                algorithm = later if later.drains_faster(algorithm) else algorithm
            if algorithm is not receipt.algorithm:
                after = algorithm.counted(receipt.algorithm, after)
            clamped = max(now, algorithm.time_of(record.state))
            state = algorithm.refunded(record.state, clamped, after, given)
            receipt.records.write(receipt.key, Record(record.expires_at, state))

    def lock(self, now: int, identifier: Identifier, length: int, *, noted: bool = False) -> None:
        """Lock by hand, or lift a lock; processes that remember note when, so that no earlier one returns."""
        key, record = self.lock_of(now, identifier)
        clamped = now if record is None else max(now, record.state.start)
        if noted:
            self.records.write(self._note_of(identifier), Record(now + NOTED_FOR, clamped))
        self.records.write(key, locked_by_hand(record, clamped, length))

    def reset(self, identifiers: list[Identifier]) -> None:
        self.records.drop({self._owner(identifier) for identifier in identifiers})

    def reset_all(self) -> None:
        self.records.drop({owner for owner in self.records.creations if owner[0] == self.name})

    def restore(self, now: int, identifier: Identifier, told: Records) -> None:
        """Merge what was told of an identifier into the records."""
        owner = self._owner(identifier)
        if owner not in told.creations:
            return
        births = [each.creations[owner] for each in (self.records, told) if owner in each.creations]
        for key, algorithm in self._algorithms(owner).items():
            record, own = told.written.get(key), self.records.live(key, now)
            if record is None or record.expires_at <= now or algorithm.time_of(record.state) > now:
                continue
            instant = now if own is None else max(now, algorithm.time_of(own.state))
            state = algorithm.merged(None if own is None else own.state, record.state, instant)
            if state is None:
                continue
            expires_at = algorithm.lasts_until(state, instant)
            if algorithm.knows_refunds(state):
                expires_at = max(expires_at, record.expires_at, 0 if own is None else own.expires_at)
            self.records.write(key, Record(expires_at, state))
        self._restore_lock(now, identifier, told)
        if owner in self.records.creations:
            self.records.creations[owner] = min(births)

    def _restore_lock(self, now: int, identifier: Identifier, told: Records) -> None:
        note = self._note_of(identifier)
        ours, theirs = self.records.live(note, now), told.written.get(note)
        if theirs is not None and (theirs.expires_at <= now or theirs.state > now):
            theirs = None
        if theirs is not None and (ours is None or ours.state < theirs.state):
            expires_at = max(theirs.expires_at, 0 if ours is None else ours.expires_at)
            ours = Record(expires_at, theirs.state)
            self.records.write(note, ours)
        key, own = self.lock_of(now, identifier)
        lock = told.written.get(key)
        if lock is not None and (lock.expires_at <= now or lock.state.start > now):
            lock = None
        by_hand = 0 if ours is None else ours.state
        merged = merged_locks(after_hand(own, by_hand), after_hand(lock, by_hand))
        if merged is not None:
            self.records.write(key, merged)

    def _note_of(self, identifier: Identifier) -> Key:
        return (*self._owner(identifier), "unlocked")

    def _algorithms(self, owner: Key) -> dict[Key, Algorithm]:
        return {(*owner, *tag): algorithm for tag, algorithm in tagged(self.limits)}

    def update(self, limits: tuple[Any, ...]) -> None:
        self.limits = limits
        self.updates.append(dict(tagged(limits)))

    def later_than_now(self, key: Key) -> Callable[[], list[Algorithm]]:
        """When called: what updates have made of the limit of this key since."""
        known, tag = len(self.updates), key[len(self._owner("")) :]
        return lambda: [update[tag] for update in self.updates[known:] if tag in update]

    def is_behind(self, now: int, identifiers: list[Identifier]) -> bool:
        """Whether the clock is before the stored time of any record that the call reads."""
        judged = [Judged(charge, now) for charge in self._charges(identifiers, 0)]
        return any(instant > now for each in judged for instant in (each.now, *[p.now for p in each.pairs]))

    @property
    def settled_from(self) -> int:
        """The instant from which answers are certain again.

        A store may drop a record that a call has found expired. Should the clock then jump back to before
        that expiry, the record may be there or not.
        """
        return max(self.records.seen_expired.values(), default=0)

    @property
    def penalty_numbers(self) -> Penalty | None:
        return None if self.penalty is None else Penalty(*self.penalty._numbers)

    def lock_of(self, now: int, identifier: Identifier) -> tuple[Key, Record | None]:
        key = (*self._owner(identifier), "penalty")
        record = self.records.live(key, now)
        # By its own time, which the clock may be behind, one that is lifted ends as it begins.
        return key, None if record is not None and record.expires_at <= record.state.start else record

    def pairs_of(
        self, now: int, identifier: Identifier, cost: int, patience: int | None = None
    ) -> list[Pair]:
        pairs = []
        for limit, (tag, algorithm) in zip(self.limits, tagged(self.limits), strict=True):
            key = (*self._owner(identifier), *tag)
            record = self.records.live(key, now)
            clamped = now if record is None else max(now, algorithm.time_of(record.state))
            pairs.append(Pair(identifier, limit, self.name, algorithm, key, record, clamped, cost, patience))
        return pairs

    def _charges(self, identifiers: list[Identifier], cost: int) -> list[Charge]:
        firsts: dict[bytes, Identifier] = {}
        for identifier in identifiers:
            firsts.setdefault(as_bytes(identifier), identifier)
        return [Charge(self, identifier, cost) for identifier in firsts.values()]

    def _owner(self, identifier: Identifier) -> Key:
        return (self.name, as_bytes(identifier))


def tagged(limits: tuple[Any, ...]) -> list[tuple[Tag, Algorithm]]:
    """The limits' algorithms with their tags, in which equal ones are numbered."""
    alike: Counter[Tag] = Counter()
    found = []
    for limit in limits:
        algorithm = algorithm_of(limit)
        tag = (*algorithm.identity, limit.name)
        found.append(((*tag, alike[tag]), algorithm))
        alike[tag] += 1
    return found


def as_bytes(identifier: Identifier) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
