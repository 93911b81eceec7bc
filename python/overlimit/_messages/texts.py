"""Texts that others chose, shares and numbers, as messages, terminals and pages show them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most like a wrong one; None when none is as like as that (0 to 1)."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)), None)


def short_repr(value: object) -> str:
    """Return a short ``repr`` for a message, whatever the value."""
    try:
        text = repr(value)
    except Exception:  # e.g. an int of more digits than Python agrees to print
        return f"a very large or unprintable {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: object) -> str:
    """Return a text with escapes for all that is not printable, as what moves cursors or is no UTF-8."""
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else str(text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else escaped(each) for each in shown)


def percent(share: float, bound: float = 0.0) -> str:
    """Return a share from 0 to 1 with as many digits as tell it from 0, from 1 and from a bound."""
    apart = min(distance or 1.0 for distance in (share, 1 - share, 10 * abs(share - bound)))
    digits = max(2, -math.floor(math.log10(100 * apart)) + 1)
    whole, _, fraction = f"{share:.{digits}%}"[:-1].partition(".")
    return f"{whole}.{fraction[:2]}{fraction[2:].rstrip('0')}%"


def number_text(value: float) -> str:
    """Return a number with thousands separators and six digits at least, never as a power of 10."""
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{min(6, max(0, 5 - magnitude))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds_text(seconds: float) -> str:
    """Return seconds as a text; infinity is ``never``, and what there is none of a dash."""
    if math.isnan(seconds):
        return "-"
    return "never" if math.isinf(seconds) else f"{number_text(seconds)} s"


def escaped(character: str) -> str:
    """Return a character as a backslash escape."""
    return character.encode("unicode_escape").decode()
