"""A call: charges that are judged together, and what is written of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .algorithm import EXACT
from .answer import OracleDecision, Receipt, Row
from .pair import Pair
from .penalty import Lock, Penalty
from .records import Record

if TYPE_CHECKING:
    from .policy import Oracle

STATUSES = ("ok", "over", "locked", "never")


def worst(statuses: Iterable[str]) -> str:
    return max(statuses, key=STATUSES.index, default="ok")


@dataclass(frozen=True)
class Charge:
    policy: Oracle
    identifier: str | bytes
    cost: int = 1
    role: str = "enforce"  # enforce | shadow | on_refusal | always
    extra: int = 0  # so much of the cost is for a lease
    life: int = 0

    @property
    def asked(self) -> int:
        return 1 if self.role == "on_refusal" else self.cost

    @property
    def spends(self) -> bool:
        return self.role != "on_refusal" and self.cost > 0


class Judged:
    """A charge with what it meets: every limit of its policy, and the lock of its identifier."""

    def __init__(self, charge: Charge, now: int, patience: int | None = None) -> None:
        self.charge = charge
        self.penalty = charge.policy.penalty_numbers
        pairs = charge.policy.pairs_of(now, charge.identifier, charge.asked, patience)
        self.pairs = [replace(pair, extra=charge.extra, life=charge.life) for pair in pairs]
        self.lock_key, self.lock_record = charge.policy.lock_of(now, charge.identifier)
        self.now = now if self.lock is None else max(now, self.lock.start)
        self.locked = self.lock is not None and self.now < self.lock.end
        self.verdict = worst(self.status_of(pair) for pair in self.pairs)

    @property
    def lock(self) -> Lock | None:
        return None if self.lock_record is None else self.lock_record.state

    def status_of(self, pair: Pair) -> str:
        return worst([pair.status, "locked" if self.locked else "ok"])

    def new_lock(self, call_status: str) -> Record | None:
        """The lock that a call of this status puts on the identifier."""
        if self.penalty is None or self.charge.role in ("shadow", "always") or self.charge.asked == 0:
            return None
        if call_status == self.verdict == "over":
            return self.penalty.locked(self.lock_record, self.now)
        if call_status == "locked" and self.locked and self.penalty.extend:
            return self.extended_lock(self.penalty)
        return None

    def extended_lock(self, penalty: Penalty) -> Record | None:
        assert self.lock_record is not None
        by_hand = self.lock_record.state.by_hand
        return None if by_hand else penalty.extended(self.lock_record, self.now)

    def row_of(self, pair: Pair, new_lock: Record | None) -> Row:
        """A row that is not charged."""
        return self.locked_row(pair, self.status_of(pair), pair.retry_after, new_lock)

    def locked_row(self, pair: Pair, status: str, retry_after: float, new_lock: Record | None = None) -> Row:
        lock = self.lock if new_lock is None else new_lock.state
        locked_for = 0 if lock is None else max(0, lock.end - self.now)
        return pair.row(status, retry_after, locked_for)


class Call:
    """Everything a call finds, answers and would write; nothing is written before ``write``."""

    def __init__(self, now: int, charges: list[Charge], cost: int, patience: int | None = None) -> None:
        self.now, self.cost, self.patience = now, cost, patience
        self.judged = [Judged(charge, now, patience) for charge in charges]
        self.enforced = self.verdict_of("enforce")
        self.passes = self.enforced == self.verdict_of("on_refusal") == "ok"
        self.spends = any(charge.spends for charge in charges)
        self.counts_refusal = (
            self.enforced == "over" and self.verdict_of("on_refusal") == "ok" and self.spends
        )
        self.status = self.verdict_of(self.speaking_role())

    def verdict_of(self, role: str) -> str:
        return worst(judged.verdict for judged in self.judged if judged.charge.role == role)

    def speaking_role(self) -> str:
        if self.verdict_of("on_refusal") != "ok":
            return "on_refusal"
        roles = {judged.charge.role for judged in self.judged}
        return next(role for role in ("enforce", "always", "shadow", "on_refusal") if role in roles)

    def speaks(self, judged: Judged) -> bool:
        return judged.charge.role == self.speaking_role()

    def is_charged(self, judged: Judged) -> bool:
        if judged.charge.role == "on_refusal":
            return self.counts_refusal
        return self.passes and (judged.verdict == "ok" or judged.charge.role == "always")

    def new_lock_of(self, judged: Judged) -> Record | None:
        """Who waits for a turn does no wrong by asking, and who spends nothing writes nothing."""
        if self.patience is not None or self.enforced == "never" or not self.spends:
            return None
        return judged.new_lock(self.status)

    def rows_of(self, judged: Judged) -> list[Row]:
        return [self.row_of(judged, pair) for pair in judged.pairs]

    def row_of(self, judged: Judged, pair: Pair) -> Row:
        if not self.is_charged(judged):
            return judged.row_of(pair, self.new_lock_of(judged))
        after = pair.charged()
        if judged.charge.role == "always":
            retry_after = 0 if self.verdict_of("always") == "ok" else after.retry_after
            return judged.locked_row(after, judged.status_of(pair), retry_after)
        return after.row("ok", after.retry_after if judged.charge.role == "on_refusal" else 0)

    def is_waited_for(self, judged: Judged) -> bool:
        """A refusal that was just counted makes the wait longer: the same call would be counted next time."""
        return self.speaks(judged) or (self.counts_refusal and judged.charge.role == "on_refusal")

    def decision(self) -> OracleDecision:
        rows = [(judged, row) for judged in self.judged for row in self.rows_of(judged)]
        speaking = [row for judged, row in rows if self.speaks(judged)]
        allowed = self.status == "ok"
        binding = binding_row(speaking, allowed)
        return OracleDecision(
            allowed=allowed,
            status=self.status,
            remaining=min(row.remaining for row in speaking),
            retry_after=max(row.retry_after for judged, row in rows if self.is_waited_for(judged)),
            limit=binding.limit,
            identifier=binding.identifier,
            reset_after=binding.reset_after,
            delay=max(row.delay for row in speaking) if allowed else 0,
            cost=self.cost,
            time=self.now,
            source="store",
            details=tuple(row for _, row in rows),
            binding=binding,
        )

    def write(self) -> list[Receipt]:
        for judged in self.judged:
            new_lock = self.new_lock_of(judged)
            if new_lock is not None:
                judged.charge.policy.records.write(judged.lock_key, new_lock)
        charged = [judged for judged in self.judged if self.is_charged(judged)]
        return [self.receipt_of(judged, pair) for judged in charged for pair in judged.pairs if pair.cost > 0]

    def receipt_of(self, judged: Judged, pair: Pair) -> Receipt:
        records, after = judged.charge.policy.records, pair.charged().record
        assert after is not None
        records.write(pair.key, after)
        return Receipt(
            records,
            pair.key,
            records.creation_of(pair.key),
            pair.algorithm,
            after.state,
            min(pair.cost, EXACT),
            judged.charge.policy.later_than_now(pair.key),
        )


def binding_row(rows: list[Row], allowed: bool) -> Row:
    """Refused: the longest retry. Allowed: the least remaining. Ties: the longest reset, then the first."""
    if allowed:
        return min(rows, key=lambda row: (row.remaining, -row.reset_after))
    return max(rows, key=lambda row: (row.retry_after, row.reset_after))


def hit_all(
    now: int, charges: list[Charge], *, cost: int | None = None, patience: int | None = None
) -> OracleDecision:
    call = Call(now, charges, total_of(charges) if cost is None else cost, patience)
    decision = call.decision()
    receipts = call.write()
    is_always = {charge.role for charge in charges} == {"always"}
    decision.receipts.extend(receipts if decision.allowed or is_always else [])
    return decision


def peek_all(
    now: int, charges: list[Charge], *, cost: int | None = None, patience: int | None = None
) -> OracleDecision:
    return Call(now, charges, total_of(charges) if cost is None else cost, patience).decision()


def total_of(charges: list[Charge]) -> int:
    return sum(charge.cost for charge in charges)
