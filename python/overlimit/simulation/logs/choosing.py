"""How each file of a log is read: as it was said, or as its name or its contents tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.saving import SavedColumns, is_parquet, saved_columns
from overlimit.simulation.logs.access_log import AccessLog
from overlimit.simulation.logs.chunks import COMPRESSIONS, beginning_of
from overlimit.simulation.logs.csv_tables import CsvTables
from overlimit.simulation.logs.formats import Format, PatternFormat
from overlimit.simulation.logs.json_lines import JsonLines
from overlimit.simulation.logs.log_formats import BY_NAME, NAMES
from overlimit.simulation.logs.parquet_tables import Parquet
from overlimit.simulation.logs.w3c_lines import W3cLines

FormatName: TypeAlias = Literal[
    "combined",
    "common",
    "vhost_combined",
    "haproxy",
    "alb",
    "nginx_error",
    "apache_error",
    "w3c",
    "json",
    "csv",
    "parquet",
]
FormatLike: TypeAlias = FormatName | re.Pattern[str]

_PREFIX = 64
_OF_W3C = tuple(map(str.encode, BY_NAME["w3c"].begins))
_BY_ENDING: dict[str, FormatLike] = {
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


def parsers_of(
    files: Sequence[Path],
    format: FormatLike | None,
    unit: str | None,
    columns: Sequence[str] | None,
    delimiter: str,
) -> list[Format]:
    """Return what reads each file; raise ValueError for a wrong format, and for options without effect."""
    forms = [_form_of(file) if format is None else format for file in files]
    for name, is_given in (("columns", columns is not None), ("delimiter", delimiter != ",")):
        if is_given and "csv" not in forms:
            raise ValueError(f"{name}= is for CSV files: leave it out for other formats")
    parsers = [_parser(form, columns, delimiter) for form in forms]
    if unit is not None and not any(parser.has_numeric_times for parser in parsers):
        raise ValueError(f"unit= is for times that are numbers: leave it out for format={forms[0]!r}")
    return parsers


def saved_columns_of(files: Sequence[Path]) -> SavedColumns | None:
    """Return the columns of files if `Events.save` wrote all of them, with the same; else None."""
    found = [saved_columns(file) for file in files]
    return found[0] if all(each == found[0] for each in found) else None


def check_saved(
    format: FormatLike | None, unit: str | None, time_format: str | None, ipv6_prefix: int
) -> None:
    """Raise ValueError for what was decided when a file was saved, and is asked for otherwise."""
    reasons = {
        "format": (format not in {None, "parquet"}, "its contents say how it is written"),
        "unit": (unit is not None, "its times are known to the microsecond"),
        "time_format": (time_format is not None, "its times are known to the microsecond"),
        "ipv6_prefix": (ipv6_prefix != _PREFIX, "its addresses are counted already"),
    }
    for option, (is_given, reason) in reasons.items():
        if is_given:
            raise ValueError(f"{option}= cannot apply to a file of Events.save, as {reason}: leave it out")


def _form_of(file: Path) -> FormatLike:
    endings = [ending.lower() for ending in file.suffixes[-2:]]
    if endings and endings[-1] in COMPRESSIONS:
        endings.pop()
    if endings and endings[-1] in _BY_ENDING:
        return _BY_ENDING[endings[-1]]
    if is_parquet(file):
        return "parquet"
    return "w3c" if beginning_of(file).startswith(_OF_W3C) else "combined"


def _parser(format: FormatLike, columns: Sequence[str] | None, delimiter: str) -> Format:
    if isinstance(format, re.Pattern):
        return PatternFormat(format)
    if not isinstance(format, str) or format not in BY_NAME:
        raise ValueError(f"format must be {NAMES} or a compiled regular expression, not {short_repr(format)}")
    makers: dict[str, Callable[[], Format]] = {
        "w3c": W3cLines,
        "json": JsonLines,
        "csv": lambda: CsvTables(columns, delimiter),
        "parquet": Parquet,
    }
    return makers[format]() if format in makers else AccessLog(BY_NAME[format])
