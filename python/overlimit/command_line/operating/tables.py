"""How commands for operators print numbers and times."""

from __future__ import annotations

import math

from overlimit._messages.texts import seconds_text


def span(microseconds: float) -> str:
    """Return a length of time as people read it: in seconds below a minute, else in at most two units."""
    seconds = microseconds / 1e6
    if seconds < 60 or math.isinf(seconds):
        return seconds_text(round(seconds, 3))
    rest, told = int(seconds), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        whole, rest = divmod(rest, size)
        told += [f"{whole:,} {unit}"] if whole or told else []
    return " ".join(each for each in told[:2] if not each.startswith("0 "))


def counted(number: int, noun: str) -> str:
    """Return how many there are of something, whose plural ends in s."""
    return f"{number:,} {noun if number == 1 else plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Return the plural of a noun."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def be(number: int, one: str = "was", several: str = "were") -> str:
    """Return the verb that goes with a number."""
    return one if number == 1 else several


def amount(charged: float | None) -> str:
    """Return what was charged, or a dash where that is not known."""
    return "-" if charged is None else f"{round(charged, 3):,.6g}"
