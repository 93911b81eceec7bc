"""What a process knows and leases, by the rules of docs/semantics.md; times are seconds since it began."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleets.server import Answer

DRIFT = 1 / 8
"""By so much the speeds of clocks may differ."""
REFILL = 0.1
"""Who asks for units and does not come back is waited for so long."""
SHORTEST = 100e-6
MOST_TIMES_SPENT = 16
FRESH = 3 / 4
"""Of this part of the time for which a refusal is believed, nobody asks anew."""


@dataclass
class Lease:
    identifier: str
    number: int
    """Of the command that brought it."""
    granted: int
    ends_at: float
    left: int = field(init=False)
    rest: int = 0
    """What was taken to be given back."""

    def __post_init__(self) -> None:
        self.left = self.granted

    @property
    def spent(self) -> int:
        return self.granted - self.rest - self.left

    def take(self, now: float) -> bool:
        if self.left == 0 or now >= self.ends_at:
            return False
        self.left -= 1
        return True

    def take_rest(self) -> int:
        rest, self.left = self.left, 0
        self.rest += rest
        return rest


@dataclass
class Key:
    """What is known of an identifier of which units may be leased."""

    lease: Lease | None = None
    asked_at: float = float("-inf")
    asked: int = 0
    """What the last command charged for its own call."""
    refilled_by: float = 0.0
    takes_turns: bool = False
    next_turn: float = 0.0


class Leases:
    """Those of a process, or of a host."""

    def __init__(self, life: float) -> None:
        self._life = life
        self._keys: dict[str, Key] = {}
        self._ended: list[tuple[float, Lease]] = []
        self.returned = self.lapsed = 0

    @property
    def held(self) -> int:
        return sum(lease.left for _, lease in self._ended)

    def spend(self, now: float, identifier: str) -> bool:
        key = self._keys.get(identifier)
        return key is not None and key.lease is not None and key.lease.take(now)

    def next_turn(self, identifier: str) -> float:
        key = self._keys.get(identifier)
        return key.next_turn if key is not None and key.takes_turns else 0.0

    def ask(self, now: float, identifier: str) -> int:
        """Return how many units to ask for; 0 for a rare identifier, or while somebody else asks."""
        key = self._keys.get(identifier)
        if key is None or self._life == 0:
            return 0
        wanted = self._wanted(now, key)
        if key.lease is not None and (wanted > 0 or key.lease.left == 0):
            self._end(key)
        if wanted == 0:
            return 0
        key.refilled_by = now + REFILL
        if key.takes_turns:
            key.next_turn = now + self._life
        return wanted

    # What is spent in a life at the rate since the last command.
    def _wanted(self, now: float, key: Key) -> int:
        if now < key.refilled_by:
            return 0
        spent = key.asked + (key.lease.spent if key.lease else 0)
        wanted = min(int(spent * self._life / max(SHORTEST, now - key.asked_at)), MOST_TIMES_SPENT * spent)
        return wanted if wanted >= 2 else 0

    def answered(self, identifier: str, asked_at: float, wanted: int, number: int, answer: Answer) -> None:
        """Note what a command was answered that was sent at that time."""
        key = self._keys.setdefault(identifier, Key())
        if wanted == 0 and key.lease is not None:
            key.asked += answer.allowed
            return
        key.asked_at, key.asked = asked_at, int(answer.allowed)
        if wanted == 0:
            return
        key.refilled_by = 0.0
        key.takes_turns = not answer.allowed
        key.next_turn = asked_at + self._life
        if key.lease is not None:
            self._end(key)
        if answer.allowed and answer.granted:
            key.lease = self._leased(identifier, asked_at, number, answer)

    # It ends by the server's clock, counted from before the request was sent.
    def _leased(self, identifier: str, asked_at: float, number: int, answer: Answer) -> Lease:
        life = min(answer.until - answer.shown, self._life)
        lease = Lease(identifier, number, answer.granted, asked_at + life / (1 + DRIFT))
        self._ended.append((lease.ends_at, lease))
        return lease

    def _end(self, key: Key) -> None:
        lease, key.lease = key.lease, None
        assert lease is not None
        key.asked += lease.spent
        self._ended = [each for each in self._ended if each[1] is not lease]
        self._ended.append((0.0, lease))

    def take_ended(self, now: float) -> list[tuple[Lease, int]]:
        """Return the leases that have ended, with what is left of them."""
        ended = [lease for at, lease in self._ended if at <= now]
        self._ended = [each for each in self._ended if each[0] > now]
        return [(lease, rest) for lease in ended if (rest := lease.take_rest()) > 0]

    def die(self) -> None:
        """Lose all, with the process."""
        self.lapsed += self.held
        self._keys.clear()
        self._ended.clear()


@dataclass(frozen=True)
class Refusal:
    """What the record of an identifier was when it was last told."""

    asked_at: float
    shown: float
    refuses_until: float

    def is_certain(self, now: float) -> bool:
        """Whether the server refuses at the latest instant that its clock can show by now."""
        return self.shown + (now - self.asked_at) * (1 + DRIFT) < self.refuses_until


class Refusals:
    """What a process knows of identifiers that were refused."""

    def __init__(self, max_stale: float) -> None:
        self._max_stale = max_stale
        self._known: dict[str, Refusal] = {}
        self._asked_anew: dict[str, float] = {}

    def refuse(self, now: float, identifier: str, turn: float) -> bool:
        """Whether to refuse without asking: certainly, or until the turn of this process comes."""
        known = self._known.get(identifier)
        if known is None or now - known.asked_at >= self._max_stale:
            return False
        if known.is_certain(now) and (now < turn or not self._asks_anew(now, identifier, known)):
            return True
        return now < turn

    # One caller, while the others are refused.
    def _asks_anew(self, now: float, identifier: str, known: Refusal) -> bool:
        if now - known.asked_at < FRESH * self._max_stale or now < self._asked_anew.get(identifier, 0.0):
            return False
        self._asked_anew[identifier] = now + REFILL
        return True

    def told(self, identifier: str, asked_at: float, answer: Answer) -> None:
        """Keep what refused, and what becomes of it; of a key that has refused nobody nothing is kept."""
        if self._max_stale == 0 or (answer.allowed and identifier not in self._known):
            return
        self._asked_anew.pop(identifier, None)
        self._known[identifier] = Refusal(asked_at, answer.shown, answer.refuses_until)

    def forget(self, identifier: str) -> None:
        """Know nothing of what has made room for an identifier, such as what this process gives back."""
        self._known.pop(identifier, None)

    def forget_all(self) -> None:
        self._known.clear()
        self._asked_anew.clear()
