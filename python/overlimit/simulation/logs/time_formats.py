"""How logs write times: a row of the table a form, from which reading, its hints and the docs follow.

Forms are in the words of ``datetime.strptime``; in those of the table, brackets enclose what may be absent.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from overlimit._messages.texts import short_repr


class TimeFormat(NamedTuple):
    """A form of times in the words of strptime, who writes it, and a sample."""

    words: str
    written_by: str
    sample: str


TIME_FORMATS = (
    TimeFormat("%d/%b/%Y:%H:%M:%S[.%f][ %z]", "nginx, Apache, HAProxy", "10/Oct/2025:13:55:36 +0200"),
    TimeFormat("%Y-%m-%d[ %H:%M[:%S[.%f]][ ][%z]]", "databases, Python", "2026-03-02 12:00:00,125"),
    TimeFormat("%Y-%m-%dT%H:%M[:%S[.%f]][ ][%z]", "ISO 8601", "2026-03-02T12:00:00.125Z"),
    TimeFormat("%Y/%m/%d %H:%M:%S[.%f][ %z]", "nginx (error log), Go", "2026/03/02 12:00:00"),
    TimeFormat("%a %b %d %H:%M:%S[.%f] %Y", "Apache (error log)", "Mon Mar 02 12:00:00.125000 2026"),
    TimeFormat("%a, %d %b %Y %H:%M:%S %z", "RFC 1123", "Mon, 02 Mar 2026 12:00:00 GMT"),
    TimeFormat("%d.%m.%Y[[,] %H:%M[:%S[.%f]]]", "spreadsheets in Europe", "02.03.2026 12:00:00"),
)

_WORDS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
    "d": "[0-9]{1,2}",
    "j": "[0-9]{1,3}",
    "a": "[A-Za-z]{3}",
    "A": "[A-Za-z]{6,9}",
    "H": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "p": "[AaPp][Mm]",
    "M": "[0-9]{2}",
    "S": "[0-9]{2}",
    "f": "[0-9]{1,9}",
    "z": "Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?",
    "Z": "Z|UTC|GMT",
}
_SHORT_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = ("january", "february", "march", "april", "june", "july", "august", "september", "october")
_MONTHS = {name: k for k, name in enumerate(_SHORT_MONTHS, 1)}
_MONTHS |= {name: _MONTHS[name[:3]] for name in (*_LONG_MONTHS, "november", "december")}
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_LAST_OF_THIS_CENTURY = 68


class Parsed(NamedTuple):
    """A time in microseconds, None if there is none; and whether it has no zone."""

    micros: int | None
    is_local: bool


NO_PARSED = Parsed(None, False)


@lru_cache(64)
def pattern_of(words: str) -> re.Pattern[str]:
    """Return what finds times in a form that was given as ``time_format=``, with a group for each word.

    Raises ValueError for a word that is unknown or comes twice, and for a form without a day or a year.
    """
    if not isinstance(words, str):
        raise TypeError(f"time_format must be a text, such as '%d.%m.%Y %H:%M', not {short_repr(words)}")
    pattern = _compiled(words, optional=False)
    found = pattern.groupindex.keys()
    has_day = "j" in found or ("d" in found and found & {"m", "b", "B"})
    if not has_day or not found & {"Y", "y"}:
        raise ValueError(f"time_format={words!r} has no day and year, as '%d.%m.%Y %H:%M' has")
    if ("I" in found) != ("p" in found) or found >= {"I", "H"}:
        raise ValueError(f"time_format={words!r}: %I and %p are an hour together, %H is one alone")
    return pattern


def _compiled(words: str, *, optional: bool) -> re.Pattern[str]:
    text = "".join(_piece(each, words, optional) for each in re.findall(r"\.%f|%.?|.", words, re.DOTALL))
    try:
        return re.compile(rf"\[?{text}\]?", re.ASCII)
    except re.error:
        raise ValueError(f"time_format={words!r} has a word twice") from None


def _piece(piece: str, words: str, optional: bool) -> str:
    if piece == ".%f":
        return "[.,]" + _piece("%f", words, optional)
    if piece[0] != "%" or piece == "%%":
        brackets = {"[": "(?:", "]": ")?"} if optional else {}
        return brackets.get(piece) or (r"\s+" if piece.isspace() else re.escape(piece[0]))
    if piece[1:] not in _WORDS:
        known = " ".join(f"%{word}" for word in _WORDS)
        raise ValueError(f"time_format={words!r} has {piece}: it may have {known} and %%")
    return f"(?P<{piece[1]}>{_WORDS[piece[1]]})"


PATTERNS = tuple(_compiled(form.words, optional=True) for form in TIME_FORMATS)


def parsed(found: re.Match[str]) -> Parsed:
    """Return the time that a pattern found; a leap second is the first of the next minute."""
    parts = found.groupdict(default="")
    zone, seconds = parts.get("z") or parts.get("Z", ""), int(parts.get("S") or 0)
    try:
        minute = (_minute(parts) - _offset(zone) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return NO_PARSED
    if seconds > 60:
        return NO_PARSED
    fraction = int(parts.get("f", "").ljust(9, "0"))
    return Parsed(minute + seconds * 1_000_000 + (fraction + 500) // 1000, not zone)


def _minute(parts: dict[str, str]) -> datetime:
    year, hour = int(parts.get("Y") or 2000 + int(parts.get("y", 0))), int(parts.get("H") or 0)
    if not parts.get("Y") and year > 2000 + _LAST_OF_THIS_CENTURY:
        year -= 100
    if half := parts.get("p"):
        twelfth = int(parts["I"])
        if not 1 <= twelfth <= 12:
            raise ValueError("there is no such hour")
        hour = twelfth % 12 + 12 * (half in {"PM", "pm", "Pm", "pM"})
    if days := parts.get("j"):
        day = datetime(year, 1, 1) + timedelta(int(days) - 1)
        if day.year != year:
            raise ValueError("there is no such day")
    else:
        name = parts.get("b") or parts.get("B")
        day = datetime(year, _MONTHS.get(name.lower(), 0) if name else int(parts["m"]), int(parts["d"]))
    return day.replace(hour=hour, minute=int(parts.get("M") or 0))


def _offset(zone: str) -> timedelta:
    if zone[:1] not in {"+", "-"}:
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no offset {zone}")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset
