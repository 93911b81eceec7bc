"""One limit of every algorithm, and of every way in which it can be set up."""

from __future__ import annotations

from overlimit import FixedWindow, LeakyBucket, Limit, TokenBucket
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms


def plain_limits(most: int, per: int) -> dict[str, Limit]:
    """Return the limit that a string such as ``3 per 10 seconds`` means to each algorithm, by its name."""
    return {name: kind.from_terms(Terms(most, per)) for name, kind in ALGORITHMS.items()}


def with_bursts(burst: int, rate: int, per: int) -> dict[str, Limit]:
    """Return limits of the algorithms that know bursts: ``burst`` at once, and ``rate`` per period."""
    return {
        name: kind.from_terms(Terms(rate, per, burst=burst))
        for name, kind in ALGORITHMS.items()
        if "burst" in kind.optional_terms
    }


def of_each_algorithm(most: int, per: int) -> dict[str, Limit]:
    """Return limits that admit ``most`` at once, and as much again within two periods, by what they are."""
    return plain_limits(most, per) | {
        "epoch": FixedWindow(most, per, start="epoch"),
        "interval": TokenBucket(most, per, refill="interval"),
        "epoch_interval": TokenBucket(most, per, refill="interval", start="epoch"),
        "queue": LeakyBucket(1, per / most, capacity=most - 1),
        "paced_queue": LeakyBucket(most, per, capacity=most - 1, burst=1),
    }


CALENDAR: dict[str, Limit] = {
    "calendar": FixedWindow(3, "hour", start="calendar", timezone="America/St_Johns"),
    "calendar_day": FixedWindow(3, "day", start="calendar", timezone="Europe/Berlin"),
}
"""Windows of a calendar, which admit 3; their lengths are their own."""


def in_debt(burst: int, debt: int, per: int) -> dict[str, Limit]:
    """Return buckets of ``burst`` tokens, and as many per period, that may be overdrawn by ``debt``."""
    return {
        "debt": TokenBucket(burst, per, debt=debt),
        "interval_debt": TokenBucket(burst, per, refill="interval", debt=debt),
    }
