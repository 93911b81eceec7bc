"""The times in logs: in the forms of the table of formats, or as numbers.

A text is read by regular expressions. Where many differ in their minutes and seconds alone, numpy reads
these, and the regular expressions read what they share once.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.clocks import END_US
from overlimit.simulation.events.given import Given, given_column
from overlimit.simulation.events.instants import Instants, Micros, converted, micros_of, unit_hint
from overlimit.simulation.logs.arrow_texts import Positions, Texts, texts_of
from overlimit.simulation.logs.local_times import instants_of_local
from overlimit.simulation.logs.time_formats import NO_PARSED, PATTERNS, Parsed, parsed, pattern_of
from overlimit.simulation.optional import loaded, required

NO_TIME = -1
"""Stands for the time of a row that has none."""

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_NUMBERS = "^(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)$"
_REMEMBERED = 8192
_MOST_DIGITS = 20
_INT64_DIGITS = 18
_LONGEST = 40
_WORD = 8
_NOWHERE = (0, 0)
_NAMED_ZONE = re.compile(r"\d\d:\d\d(:\d\d)?([.,]\d+)? [A-Z][A-Za-z/_]{2,}")
_OTHER_FORM = re.compile(
    r"\[?\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b|(?:[A-Z][a-z]{2},? +)?[A-Z][a-z]{2} +\d{1,2}\b"
)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?")

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


class Reading(NamedTuple):
    """How times are read: texts in these forms, and numbers, unless there are none, in the unit."""

    patterns: tuple[re.Pattern[str], ...]
    unit: str | None
    has_numbers: bool


def reading_of(unit: str | None, time_format: str | None) -> Reading:
    """Return how times are read; raise ValueError or TypeError for a wrong form, and for both together."""
    if time_format is None:
        return Reading(PATTERNS, unit, True)
    if unit is not None:
        raise ValueError("unit= is for times that are numbers, and time_format= for texts: leave out one")
    return Reading((pattern_of(time_format),), None, False)


def log_times(column: Any, reading: Reading, zone: tzinfo = UTC) -> LogTimes:
    """Return the instants of a column of a log.

    Numbers, also in texts, count in the unit. Times without a zone are of ``zone``.
    """
    texts = texts_of(column)
    read = _of_values(column, reading) if texts is None else _of_texts(texts, reading)
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
    if _TIME_OF_DAY.fullmatch(value):
        return "; it is a time of day: time=('date', 'time') joins it to a column of days"
    if _OTHER_FORM.match(value):
        return "; in which form it is written can be said, as time_format='%m/%d/%Y %H:%M:%S'"
    return ""


def is_day(value: object, reading: Reading) -> bool:
    """Tell whether a value is a day, without a time."""
    if isinstance(value, str):
        found = _found(value, reading)
        return found is not None and not any(found.groupdict().get(hour) for hour in "HI")
    return isinstance(value, date) and not isinstance(value, datetime)


def _of_values(column: Any, reading: Reading) -> _Read:
    given = given_column(column, "time").without_codes()
    if given.array.dtype.kind in "iufM" and reading.has_numbers:
        micros, invalid = _converted(given, reading.unit)
        return _Read(micros, invalid, np.full(len(micros), _is_local(column)))
    return _joined([_parsed(given.at(row), reading) for row in range(len(given))])


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


def _joined(found: list[Parsed]) -> _Read:
    micros = [NO_TIME if each.micros is None else each.micros for each in found]
    invalid = [each.micros is None for each in found]
    local = [each.is_local for each in found]
    return _Read(np.array(micros, np.int64), np.array(invalid, bool), np.array(local, bool))


def _parsed(value: object, reading: Reading) -> Parsed:
    if not reading.has_numbers and isinstance(value, int):
        value = str(value)
    if isinstance(value, str):
        return _of_text(value, reading)
    try:
        micros = micros_of(value, reading.unit or "s")
    except TypeError:
        return NO_PARSED
    return Parsed(micros, isinstance(value, datetime) and value.tzinfo is None)


@lru_cache(_REMEMBERED)
def _of_text(text: str, reading: Reading) -> Parsed:
    if found := _found(text, reading):
        return parsed(found)
    number = text.removeprefix("[").removesuffix("]")
    if reading.has_numbers and _NUMBER.fullmatch(number):
        is_whole = "." not in number and len(number) <= _MOST_DIGITS
        return Parsed(micros_of(int(number) if is_whole else float(number), reading.unit or "s"), False)
    return NO_PARSED


def _found(text: str, reading: Reading) -> re.Match[str] | None:
    return next(filter(None, (pattern.fullmatch(text) for pattern in reading.patterns)), None)


def _of_texts(texts: Texts, reading: Reading) -> _Read:
    count = len(texts.starts)
    read = _Read(np.full(count, NO_TIME), np.ones(count, bool), np.zeros(count, bool))
    todo = texts.lengths > 0
    if reading.has_numbers:
        _read_numbers(texts, reading.unit or "s", read, todo)
    rows = np.flatnonzero(todo)
    for same in _of_one_length(texts, rows):
        _read_alike(texts, same, reading, read, todo)
    others = np.flatnonzero(todo)
    _put(read, others, _joined([_of_text(texts.at(row), reading) for row in others.tolist()]))
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


def _read_alike(texts: Texts, rows: npt.NDArray[np.int64], reading: Reading, read: _Read, todo: Mask) -> None:
    """Read the texts of one length that are written as the first of them is."""
    first = texts.at(int(rows[0]))
    found = _found(first, reading)
    if found is None:
        return
    letters = texts.matrix(rows, len(first))
    if _span(found, "f") != _NOWHERE:
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


def _span(found: re.Match[str], part: str) -> tuple[int, int]:
    """Return where a part of a time is; `_NOWHERE` if it has none."""
    start, end = found.span(part) if part in found.re.groupindex else _NOWHERE
    return (start, end) if start >= 0 else _NOWHERE


def _of_alike(letters: npt.NDArray[np.uint8], found: re.Match[str]) -> tuple[_Read, Mask]:
    """Return times whose parts are where those of ``found`` are, and which of them can be read like this."""
    spans = [_span(found, part) for part in "MSf"]
    minutes, seconds, fractions = (_number(letters[:, start:end]) for start, end in spans)
    alike = (minutes >= 0) & (minutes < 60) & (seconds >= 0) & (seconds <= 60) & (fractions >= 0)
    for start, end in spans:
        letters[:, start:end] = ord("0")
    base = _of_repeated(letters, found)
    micros = base.micros + (minutes * 60 + seconds) * 1_000_000
    start, end = spans[2]
    micros += (fractions * 10 ** (9 - end + start) + 500) // 1000
    return base._replace(micros=micros), alike & ~base.invalid


def _number(digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the numbers that rows of digits are, negative ones where something else is among them."""
    number = np.zeros(len(digits), np.int64)
    for column in digits.T:
        digit = column - np.uint8(ord("0"))
        number = np.where(digit > 9, -(10**9), number * 10 + digit)
    return number


def _of_repeated(letters: npt.NDArray[np.uint8], form: re.Match[str]) -> _Read:
    """Read rows of letters of which most are as the row before.

    Those are invalid whose minutes, seconds and fractions are not where those of ``form`` are.
    """
    begins, numbers = _runs(letters)
    written = [row.tobytes().decode("latin-1") for row in letters[begins]]
    known = {text: _like(form, text) for text in set(written)}
    return _joined([known[text] for text in written]).take(numbers)


def _like(form: re.Match[str], text: str) -> Parsed:
    found = form.re.fullmatch(text)
    if found is None or any(_span(found, part) != _span(form, part) for part in "MSf"):
        return NO_PARSED
    return parsed(found)


def _runs(letters: npt.NDArray[np.uint8]) -> tuple[Positions, Positions]:
    """Return at which rows of letters a run of rows that are the same begins, and each row's run."""
    words = np.zeros((len(letters), -(-letters.shape[1] // _WORD) * _WORD), np.uint8)
    words[:, : letters.shape[1]] = letters
    changes = np.ones(len(letters), bool)
    changes[1:] = False
    for column in words.view(np.uint64).T:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes), np.cumsum(changes) - 1
