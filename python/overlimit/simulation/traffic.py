"""Traffic that is made up: for documentation, tests, and questions about traffic that has not come yet.

Each function returns `Events` with one column of identifiers, such as ``poisson-3``, and a label for each
event. The same arguments give the same events. `mix` puts several together; those with the same label are
then sent by the same identifiers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import Column
from overlimit.simulation.events.instants import instant_of, micros_of

__all__ = ["START", "bursty", "diurnal", "mix", "poisson", "scanner"]

START = 1_767_225_600
"""When traffic starts by default: 2026-01-01 00:00 UTC, in seconds since the Unix epoch."""

_DAY = 86_400.0
_IN_BURST = 0.01
_JITTER = 0.05

Seconds = npt.NDArray[np.float64]


def poisson(
    rate: float,
    duration: float,
    identifiers: int | Sequence[str] = 10,
    *,
    start: object = START,
    label: str = "poisson",
    seed: int = 0,
) -> Events:
    """Return events that know nothing of each other: the traffic of many independent people.

    Parameters
    ----------
    rate
        Events in a second, of all identifiers together.
    duration
        How long it lasts, in seconds.
    identifiers
        How many identifiers there are, each equally likely; or their names.
    start
        When it starts: seconds since the Unix epoch, a datetime or a text in ISO 8601.
    label
        The label of the events, with which the names of the identifiers start.
    seed
        Another number gives other events of the same kind.

    Raises
    ------
    ValueError
        A rate or duration is negative or not finite, there are no identifiers, or it ends past the range of
        times.
    """
    random = np.random.default_rng(seed)
    at = _uniform(random, checked_number("rate", rate), checked_number("duration", duration))
    names = _names(identifiers, label)
    return _events(at, random.integers(len(names), size=len(at)), names, start, label)


def bursty(
    rate: float,
    duration: float,
    identifiers: int | Sequence[str] = 10,
    *,
    burst: int = 20,
    start: object = START,
    label: str = "bursty",
    seed: int = 0,
) -> Events:
    """Return events that come in bursts: the traffic of pages that load many things, and of batch jobs.

    A burst is ``burst`` events of one identifier, 10 ms apart on average. Bursts themselves come at random,
    so that there are ``rate`` events in a second on average. Other parameters and errors: as for `poisson`.
    """
    if not isinstance(burst, int) or burst < 1:
        raise ValueError(f"burst must be a whole number from 1, not {short_repr(burst)}")
    random, duration = np.random.default_rng(seed), checked_number("duration", duration)
    names = _names(identifiers, label)
    starts = _uniform(random, checked_number("rate", rate) / burst, duration)
    senders = random.integers(len(names), size=len(starts))
    gaps = random.exponential(_IN_BURST, (len(starts), burst))
    gaps[:, 0] = 0
    at = (starts[:, np.newaxis] + np.cumsum(gaps, axis=1)).ravel()
    inside = at < duration
    return _events(at[inside], np.repeat(senders, burst)[inside], names, start, label)


def diurnal(
    rate: float,
    duration: float,
    identifiers: int | Sequence[str] = 10,
    *,
    swing: float = 0.8,
    peak: float = 14.0,
    start: object = START,
    label: str = "diurnal",
    seed: int = 0,
) -> Events:
    """Return events that follow the day: many in the afternoon, few at night.

    Over whole days there are ``rate`` events in a second on average: ``rate * (1 + swing)`` at ``peak``
    o'clock UTC, and ``rate * (1 - swing)`` twelve hours later. ``swing`` is from 0 to 1, ``peak`` in hours.
    Other parameters and errors: as for `poisson`.
    """
    if not 0 <= swing <= 1:
        raise ValueError(f"swing must be from 0 to 1, not {short_repr(swing)}")
    random = np.random.default_rng(seed)
    names = _names(identifiers, label)
    candidates = _uniform(
        random, checked_number("rate", rate) * (1 + swing), checked_number("duration", duration)
    )
    since_peak = instant_of(start) / 1e6 % _DAY + candidates - peak * 3600
    level = 1 + swing * np.cos(2 * math.pi * since_peak / _DAY)
    at = candidates[random.random(len(candidates)) * (1 + swing) < level]
    return _events(at, random.integers(len(names), size=len(at)), names, start, label)


def scanner(
    rate: float,
    duration: float,
    identifiers: int | Sequence[str] = 1,
    *,
    start: object = START,
    label: str = "scanner",
    seed: int = 0,
) -> Events:
    """Return events at a steady pace: a program that asks as fast as it was told to, taking turns.

    There are ``rate * duration`` events, evenly spaced but for a jitter of a twentieth of the distance. By
    default it is one identifier. Other parameters and errors: as for `poisson`.
    """
    random, duration = np.random.default_rng(seed), checked_number("duration", duration)
    names = _names(identifiers, label)
    count = round(checked_number("rate", rate) * duration)
    at = (np.arange(count) + random.uniform(0, _JITTER, count)) / rate if count else np.empty(0)
    return _events(at, np.arange(count) % len(names), names, start, label)


def mix(*events: Events) -> Events:
    """Return several as one, in the order of their times; each keeps its labels.

    Raises ValueError if there are none, or if their columns of identifiers have other names.
    """
    return Events.concat(events)


def _uniform(random: np.random.Generator, rate: float, duration: float) -> Seconds:
    """Return the times of a Poisson process, in no order."""
    return random.uniform(0, duration, random.poisson(rate * duration))


def checked_number(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a finite number from 0, or above it; raise TypeError or ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, not {short_repr(value)}")
    if not 0 <= value < math.inf or (above_zero and not value):
        raise ValueError(
            f"{name} must be a number {'above' if above_zero else 'from'} 0, not {short_repr(value)}"
        )
    return float(value)


def _names(identifiers: int | Sequence[str], label: str) -> list[str]:
    if isinstance(identifiers, (str, bool)):
        raise TypeError(f"identifiers must be their number or a list of names, not {short_repr(identifiers)}")
    names = (
        [f"{label}-{k}" for k in range(identifiers)] if isinstance(identifiers, int) else list(identifiers)
    )
    if not names or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"identifiers must be a number from 1 or different names, not {short_repr(identifiers)}"
        )
    return names


def _events(
    at: Seconds, senders: npt.NDArray[np.int64], names: list[str], start: object, label: str
) -> Events:
    """Build events of seconds since the start and the numbers of their senders."""
    times = instant_of(start) + np.rint(at * 1e6).astype(np.int64)
    if len(times) and micros_of(int(times.max()), "us") is None:
        raise ValueError("this traffic ends past 2**53 - 2**50 us since 1970, which is in the year 2219")
    in_order = np.argsort(times, kind="stable")
    return Events._of(
        times[in_order],
        [Column(None, senders[in_order].astype(np.int32), np.array(names, object))],
        np.broadcast_to(np.int64(1), len(times)),
        {"label": Column(None, np.zeros(len(times), np.int32), np.array([label], object))},
    )
