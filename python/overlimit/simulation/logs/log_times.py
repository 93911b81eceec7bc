"""The times in logs: as access logs write them, in ISO 8601, or as numbers.

A text is read by regular expressions. Where many differ in their minutes and seconds alone, numpy reads
these, and the regular expressions read what they share once.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.clocks import END_US
from overlimit.simulation.events.given import Given, given_column
from overlimit.simulation.events.instants import Instants, Micros, converted, micros_of, unit_hint
from overlimit.simulation.logs.arrow_texts import Positions, Texts, texts_of
from overlimit.simulation.logs.local_times import instants_of_local
from overlimit.simulation.optional import loaded, required

NO_TIME = -1
"""Stands for the time of a row that has none."""

_NAMES_OF_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: k for k, name in enumerate(_NAMES_OF_MONTHS, 1)}
# Each gives the minute, the second, its fraction and the zone.
_COMMON = re.compile(r"\[?(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d):(\d\d)() ([+-]\d{4})\]?", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_NUMBERS = "^(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)$"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_REMEMBERED = 8192
_MOST_DIGITS = 20
_INT64_DIGITS = 18
_LONGEST = 40
_LENGTH_OF_DAY = len("2026-01-01")
_WORD = 8
_NAMED_ZONE = re.compile(r"\d\d:\d\d(:\d\d)?([.,]\d+)? [A-Z][A-Za-z/_]{2,}")
_OTHER_FORM = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b|[A-Z][a-z]{2} +\d{1,2}\b")

Mask = npt.NDArray[np.bool_]


class LogTimes(NamedTuple):
    """The times of a column in microseconds: `NO_TIME` where there is none, also if it was ``skipped``.

    ``skipped`` are those that the clocks of the zone never showed.
    """

    micros: Micros
    skipped: Mask


class _Read(NamedTuple):
    """Times in microseconds, local ones as if their zone were UTC, and which of them are none."""

    micros: Micros
    invalid: Mask
    local: Mask

    def take(self, which: npt.NDArray[Any]) -> _Read:
        """Return some of them."""
        return _Read(self.micros[which], self.invalid[which], self.local[which])


def log_times(column: Any, unit: str | None, zone: tzinfo = timezone.utc) -> LogTimes:
    """Return the instants of a column of a log.

    Numbers, also in texts, count in ``unit``, by default in seconds. Times without a zone are of ``zone``.
    """
    texts = texts_of(column)
    read = _of_values(column, unit) if texts is None else _of_texts(texts, unit or "s")
    micros, skipped = read.micros.copy(), np.zeros(len(read.micros), bool)
    local = read.local & ~read.invalid
    micros[local], skipped[local] = instants_of_local(micros[local], zone)
    outside = (micros < 0) | (micros >= END_US)
    return LogTimes(np.where(read.invalid | skipped | outside, NO_TIME, micros), skipped)


def time_hint(value: object) -> str:
    """Say what may be wrong with a value that is no time."""
    if not isinstance(value, str):
        return unit_hint(value)
    if _NUMBER.fullmatch(value):
        return unit_hint(float(value))
    if _NAMED_ZONE.search(value):
        return "; it ends in the name of a zone: leave that out and say timezone='Europe/Berlin', or the like"
    if _OTHER_FORM.match(value):
        return "; it is in another form than 2026-03-02T12:00:00, which timezone= is for if it is local"
    return ""


def _of_values(column: Any, unit: str | None) -> _Read:
    given = given_column(column, "time").without_codes()
    if given.array.dtype.kind in "iufM":
        micros, invalid = _converted(given, unit)
        return _Read(micros, invalid, np.full(len(micros), _is_local(column)))
    return _joined([_parsed(given.at(row), unit or "s") for row in range(len(given))])


def _converted(given: Given, unit: str | None) -> Instants:
    # Times that are datetimes may be local, so they can be a day before the epoch as they are written.
    micros, invalid = converted(given, unit)
    if given.array.dtype.kind == "M":
        written = given.array.astype("datetime64[us]").astype(np.int64)
        before = (written < 0) & (written > -86_400_000_000)
        return Instants(np.where(before, written, micros), invalid & ~before)
    return Instants(micros, invalid)


def _is_local(column: Any) -> bool:
    """Tell whether a column holds datetimes without a zone."""
    pyarrow = loaded("pyarrow")
    kind = getattr(column, "type", None)
    if pyarrow is None or not isinstance(kind, pyarrow.DataType):
        return False
    return pyarrow.types.is_date(kind) or (pyarrow.types.is_timestamp(kind) and kind.tz is None)


class _Parsed(NamedTuple):
    """A time in microseconds, None if there is none; and whether it has no zone."""

    micros: int | None
    is_local: bool


_NONE = _Parsed(None, False)


def _joined(found: list[_Parsed]) -> _Read:
    micros = [NO_TIME if each.micros is None else each.micros for each in found]
    invalid = [each.micros is None for each in found]
    local = [each.is_local for each in found]
    return _Read(np.array(micros, np.int64), np.array(invalid, bool), np.array(local, bool))


def _parsed(value: object, unit: str) -> _Parsed:
    if isinstance(value, str):
        return _of_text(value, unit)
    try:
        micros = micros_of(value, unit)
    except TypeError:
        return _NONE
    return _Parsed(micros, isinstance(value, datetime) and value.tzinfo is None)


@lru_cache(_REMEMBERED)
def _of_text(text: str, unit: str) -> _Parsed:
    iso = f"{text} 00:00" if len(text) == _LENGTH_OF_DAY else text
    if found := _COMMON.fullmatch(text) or _ISO.fullmatch(iso):
        return _of_parts(*found.groups(default=""))
    if _NUMBER.fullmatch(text):
        is_whole = "." not in text and len(text) <= _MOST_DIGITS
        return _Parsed(micros_of(int(text) if is_whole else float(text), unit), False)
    return _NONE


def _of_parts(minute: str, second: str, fraction: str, zone: str) -> _Parsed:
    """Return a time; a leap second is the first of the next minute."""
    start = _minute(minute, zone)
    seconds = int(second or 0)
    if start is None or seconds > 60:
        return _NONE
    micros = start + seconds * 1_000_000
    if fraction:
        micros += (int(fraction.ljust(9, "0")) + 500) // 1000
    return _Parsed(micros, not zone)


@lru_cache(_REMEMBERED)
def _minute(text: str, zone: str) -> int | None:
    """Return when a minute starts, in microseconds; None if there is no such minute."""
    form = "%d/%m/%Y:%H:%M" if text[2] == "/" else "%Y-%m-%d %H:%M"
    month = _MONTHS.get(text[3:6])
    try:
        local = datetime.strptime(f"{text[:3]}{month}{text[6:]}" if month else text.replace("T", " "), form)
        return (local - _offset(zone) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _offset(zone: str) -> timedelta:
    if zone[:1] not in {"+", "-"}:
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no offset {zone}")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset


def _of_texts(texts: Texts, unit: str) -> _Read:
    count = len(texts.starts)
    read = _Read(np.full(count, NO_TIME), np.ones(count, bool), np.zeros(count, bool))
    todo = texts.lengths > 0
    _read_numbers(texts, unit, read, todo)
    rows = np.flatnonzero(todo)
    for same in _of_one_length(texts, rows):
        _read_alike(texts, same, read, todo)
    others = np.flatnonzero(todo)
    _put(read, others, _joined([_of_text(texts.at(row), unit) for row in others.tolist()]))
    return read


def _of_one_length(texts: Texts, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return the rows of texts that are not long, together with those of the same length."""
    lengths = texts.lengths[rows]
    if not len(rows) or lengths.min() == lengths.max():
        return [rows] if len(rows) and lengths[0] <= _LONGEST else []
    return [rows[lengths == each] for each in np.unique(lengths).tolist() if each <= _LONGEST]


def _put(read: _Read, rows: npt.NDArray[np.int64], found: _Read) -> None:
    for whole, part in zip(read, found, strict=True):
        whole[rows] = part


def _read_numbers(texts: Texts, unit: str, read: _Read, todo: Mask) -> None:
    """Read the numbers that are small enough to be read by pyarrow."""
    rows = np.flatnonzero(todo)
    if not len(rows) or not _NUMBER.fullmatch(texts.at(int(rows[0]))):
        return
    compute = required("pyarrow.compute", "reading logs quickly")
    numeric = todo & texts.mask(compute.match_substring_regex(texts.column, _NUMBERS))
    whole = numeric & texts.mask(compute.ascii_is_decimal(texts.column))
    for which, kind in ((whole & (texts.lengths <= _INT64_DIGITS), "int64"), (numeric & ~whole, "float64")):
        rows = np.flatnonzero(which)
        if len(rows):
            numbers = texts.column.take(rows) if len(rows) < len(which) else texts.column
            micros, invalid = converted(Given(numbers.cast(kind).to_numpy(zero_copy_only=False)), unit)
            _put(read, rows, _Read(micros, invalid, np.zeros(len(rows), bool)))
            todo &= ~which


def _read_alike(texts: Texts, rows: npt.NDArray[np.int64], read: _Read, todo: Mask) -> None:
    """Read the texts of one length that are written as the first of them is."""
    first = texts.at(int(rows[0]))
    found = _COMMON.fullmatch(first) or _ISO.fullmatch(first)
    if found is None:
        return
    letters = texts.matrix(rows, len(first))
    if found[3]:
        times, alike = _of_alike(letters, found)
    else:
        # In a busy log many lines share their second.
        begins, numbers = _runs(letters)
        times, alike = _of_alike(letters[begins], found)
        times, alike = times.take(numbers), alike[numbers]
    if alike.all():
        _put(read, rows, times)
        todo[rows] = False
    else:
        _put(read, rows[alike], times.take(alike))
        todo[rows[alike]] = False


def _of_alike(letters: npt.NDArray[np.uint8], found: re.Match[str]) -> tuple[_Read, Mask]:
    """Return times whose parts are where those of ``found`` are, and which of them can be read like this."""
    spans = ((found.end(1) - 2, found.end(1)), *found.regs[2:4])
    minutes, seconds, fractions = (_number(letters[:, start:end]) for start, end in spans)
    alike = (minutes >= 0) & (minutes < 60) & (seconds >= 0) & (seconds <= 60) & (fractions >= 0)
    for start, end in spans:
        letters[:, start:end] = ord("0")
    base = _of_repeated(letters, found[0][: max(end for _, end in spans)])
    micros = base.micros + (minutes * 60 + seconds) * 1_000_000
    if found[3]:
        micros += (fractions * 10 ** (9 - len(found[3])) + 500) // 1000
    return base._replace(micros=micros), alike & ~base.invalid


def _number(digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the numbers that rows of digits are, negative ones where something else is among them."""
    number = np.zeros(len(digits), np.int64)
    for column in digits.T:
        digit = column - np.uint8(ord("0"))
        number = np.where(digit > 9, -(10**9), number * 10 + digit)
    return number


def _of_repeated(letters: npt.NDArray[np.uint8], form: str) -> _Read:
    """Read rows of letters of which most are as the row before.

    Those are invalid whose separators are not those of ``form``, with which they should begin.
    """
    begins, numbers = _runs(letters)
    written = [row.tobytes().decode("latin-1") for row in letters[begins]]
    separators = [(k, letter) for k, letter in enumerate(form) if not letter.isalnum()]
    alike = [all(text[k] == letter for k, letter in separators) for text in written]
    found = [_of_text(text, "s") if same else _NONE for text, same in zip(written, alike, strict=True)]
    return _joined(found).take(numbers)


def _runs(letters: npt.NDArray[np.uint8]) -> tuple[Positions, Positions]:
    """Return at which rows of letters a run of rows that are the same begins, and each row's run."""
    words = np.zeros((len(letters), -(-letters.shape[1] // _WORD) * _WORD), np.uint8)
    words[:, : letters.shape[1]] = letters
    changes = np.ones(len(letters), bool)
    changes[1:] = False
    for column in words.view(np.uint64).T:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes), np.cumsum(changes) - 1
