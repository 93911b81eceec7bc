"""What limits with a history have in common."""

from __future__ import annotations

from abc import abstractmethod

from .algorithm import EXACT, Algorithm, is_saturated


class Entries(Algorithm):
    """A state is what was admitted and when: place -> count. Only the newest place may have a count of 0."""

    @abstractmethod
    def place(self, now: int) -> int:
        """Where a charge is counted."""

    @abstractmethod
    def leaves(self, place: int) -> int:
        """The instant at which a place no longer counts."""

    @abstractmethod
    def begins(self, place: int) -> int:
        """The first instant of a place."""

    def at(self, state: dict[int, int], now: int) -> dict[int, int] | None:
        return {place: count for place, count in state.items() if now < self.leaves(place)} or None

    def used(self, state: dict[int, int], now: int) -> int:
        return sum(state.values())

    def retry(self, state: dict[int, int], now: int, cost: int) -> int:
        instants = sorted(map(self.leaves, state))
        return next(at - now for at in instants if self.fits(self.at(state, at), at, cost))

    def charged(self, state: dict[int, int] | None, now: int, cost: int) -> dict[int, int]:
        counts = state or {}
        place = self.place(now)
        if sum(counts.values()) + cost >= EXACT - 1:
            return {place: EXACT - 1}
        return without_empty({**counts, place: counts.get(place, 0) + cost})

    def merged(self, own: dict[int, int] | None, told: dict[int, int], now: int) -> dict[int, int]:
        """Of each place the larger count, as far as one counts beside the newest."""
        own = own or {}
        newest = max({**own, **told})
        counts = {
            place: max(own.get(place, 0), told.get(place, 0))
            for place in {**own, **told}
            if self.leaves(place) > self.begins(newest)
        }
        if sum(counts.values()) >= EXACT - 1:
            return {newest: EXACT - 1}
        return without_empty(counts)

    def lasts_until(self, state: dict[int, int], now: int) -> int:
        return self.leaves(max(state))

    def refunded(self, state: dict[int, int], now: int, after: dict[int, int], cost: int) -> dict[int, int]:
        place = max(after)
        if place not in state or now >= self.leaves(place) or is_saturated(self.used(state, now)):
            return state
        return without_empty({**state, place: max(0, state[place] - cost)})


def without_empty(state: dict[int, int]) -> dict[int, int]:
    return {place: count for place, count in state.items() if count or place == max(state)}
