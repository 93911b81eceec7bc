"""Events in a file of Parquet, which other programs read too: a table as `Events.to_pandas` returns.

What a table does not say is in the metadata of the file, under the key ``overlimit``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from overlimit.simulation.events.bad_lines import BadLine, BadLines
from overlimit.simulation.events.identifiers import Column, encoded, identifier_columns, label_column
from overlimit.simulation.optional import required

_KEY = b"overlimit"
_VERSION = 1
_MAGIC = b"PAR1"
_ROWS = 1 << 20
FACTS = ("label", "endpoint", "method")
"""What else may be known of events, by the names of its columns."""
_PURPOSE = "a file of events"
_OTHER_FORMATS = frozenset({".csv", ".json", ".jsonl", ".log", ".ndjson", ".tsv", ".txt"})


T = TypeVar("T")


class _Events(Protocol):
    """Events, as far as they are saved."""

    _times: npt.NDArray[np.int64]
    _costs: npt.NDArray[np.int64]
    _facts: Mapping[str, Column]
    _columns: tuple[Column, ...]

    @property
    def skipped(self) -> int: ...
    @property
    def bad_lines(self) -> BadLines: ...
    def __len__(self) -> int: ...


class SavedColumns(NamedTuple):
    """The columns of a file that was saved: of identifiers by their names, and of facts by theirs."""

    identifiers: dict[str | None, str]
    facts: dict[str, str]


def save(events: _Events, path: str | os.PathLike[str]) -> None:
    """Write events to a file, which is there once it is whole."""
    parquet = required("pyarrow.parquet", _PURPOSE)
    schema, batches = _schema_and_batches(events, _PURPOSE)
    whole = Path(path).resolve()
    if whole.suffix.lower() in _OTHER_FORMATS:
        raise ValueError(
            f"events are saved as Parquet, so a name that ends in {whole.suffix} would mislead: write "
            f"{os.fspath(Path(path).with_suffix('.parquet'))!r}"
        )
    if not whole.parent.is_dir():
        raise FileNotFoundError(f"the folder {os.fspath(whole.parent)!r} does not exist")
    if whole.exists() and not whole.is_file():
        raise ValueError(f"{os.fspath(path)!r} is no file, so events cannot be saved there")
    partial = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    schema = schema.with_metadata({_KEY: _told(events)})
    try:
        with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        if whole.exists():
            shutil.copymode(whole, partial)
        partial.replace(whole)
    finally:
        partial.unlink(missing_ok=True)


def table_of(events: _Events) -> Any:
    """Return events as a table of Arrow, in the order of times."""
    schema, batches = _schema_and_batches(events, "a table of Arrow")
    return required("pyarrow", "a table of Arrow").Table.from_batches(batches, schema)


def _schema_and_batches(events: _Events, purpose: str) -> tuple[Any, Iterator[Any]]:
    arrow = required("pyarrow", purpose)
    columns = {column.title: column.compact() for column in events._columns}
    labels = {name: column.compact() for name, column in events._facts.items()}
    fields = {"time": arrow.timestamp("us", "UTC")} | _fields(arrow, columns)
    fields |= {"cost": arrow.int64()} | _fields(arrow, labels)
    schema = arrow.schema(fields)
    return schema, _batches(arrow, events, columns | labels, schema)


def load(path: str | os.PathLike[str], make: Callable[..., T]) -> T:
    """Return the events that `save` wrote, made of columns by ``make``; raise ValueError for other files."""
    Path(path).stat()  # raises what there is to say of a file that is not there
    told = _told_by(Path(path))
    if told is None:
        raise ValueError(f"{os.fspath(path)!r} is no whole file of Events.save: read_log reads other files")
    parquet = required("pyarrow.parquet", _PURPOSE)
    with parquet.ParquetFile(path) as file:
        table = file.read(use_threads=False)
    count = len(table)
    names = _columns(told)
    identifiers: Any = {name: table[each] for name, each in names.identifiers.items()}
    columns = identifier_columns(identifiers.get(None, identifiers), count)
    costs = table["cost"].to_numpy()
    if count and (costs == costs[0]).all():
        costs = np.broadcast_to(costs[0], count)
    facts = {name: label_column(table[each], count) for name, each in names.facts.items()}
    lines = [BadLine(*each) for each in told["bad_lines"]]
    counts = told.get("bad_line_counts") or [["", *each] for each in told["bad_line_reasons"].items()]
    bad_lines = BadLines(lines, {(log, reason): number for log, reason, number in counts})
    times = table["time"].cast("int64").to_numpy()
    return make(times, columns, costs, facts, skipped=told["skipped"], bad_lines=bad_lines)


def saved_columns(path: Path) -> SavedColumns | None:
    """Return the columns of a file that `save` wrote; None of any other."""
    told = _told_by(path)
    return None if told is None else _columns(told)


def is_parquet(path: Path) -> bool:
    """Tell whether a file begins as one of Parquet does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _columns(told: dict[str, Any]) -> SavedColumns:
    identifiers = {name: name or "identifier" for name in told["identifiers"]}
    return SavedColumns(identifiers, {name: told[name] for name in FACTS if told.get(name) is not None})


def _told(events: _Events) -> bytes:
    return json.dumps(
        {
            "version": _VERSION,
            "identifiers": [column.name for column in events._columns],
            **dict.fromkeys(FACTS),
            **{name: name for name in events._facts},
            "skipped": events.skipped,
            "bad_lines": list(events.bad_lines),
            "bad_line_reasons": dict(events.bad_lines.reasons),
            "bad_line_counts": [[*each, number] for each, number in events.bad_lines.counts.items()],
        }
    ).encode()


def _told_by(path: Path) -> dict[str, Any] | None:
    if not is_parquet(path):
        return None
    parquet = required("pyarrow.parquet", _PURPOSE)
    try:
        metadata = parquet.read_schema(path).metadata or {}
    except required("pyarrow", _PURPOSE).ArrowInvalid:
        return None
    told: dict[str, Any] | None = json.loads(metadata[_KEY]) if _KEY in metadata else None
    if told is not None and told["version"] != _VERSION:
        raise ValueError(f"{path} was saved by another version of overlimit: read its log again")
    return told


def _fields(arrow: Any, columns: dict[str, Column]) -> dict[str, Any]:
    return {name: arrow.dictionary(arrow.int32(), _type(arrow, each)) for name, each in columns.items()}


def _type(arrow: Any, column: Column) -> Any:
    """Return how labels are written: as texts, or as bytes where these are no UTF-8."""
    return arrow.string() if all(map(_is_text, column.labels.tolist())) else arrow.binary()


def _is_text(label: str | bytes) -> bool:
    try:
        return isinstance(label, str) and label.encode() is not None
    except UnicodeEncodeError:
        return False


def _batches(arrow: Any, events: _Events, columns: dict[str, Column], schema: Any) -> Iterator[Any]:
    dictionaries = {}
    for name, column in columns.items():
        labels = arrow.array(map(encoded, column.labels.tolist()), arrow.binary())
        dictionaries[name] = labels.cast(schema.field(name).type.value_type)
    for start in range(0, len(events), _ROWS):
        part = slice(start, start + _ROWS)
        arrays = {"time": arrow.array(events._times[part]).cast(schema.field("time").type)}
        arrays["cost"] = arrow.array(np.ascontiguousarray(events._costs[part]))
        for name, column in columns.items():
            codes = column.codes[part]
            indices = arrow.array(codes, mask=codes < 0)
            arrays[name] = arrow.DictionaryArray.from_arrays(indices, dictionaries[name])
        yield arrow.record_batch([arrays[name] for name in schema.names], schema=schema)
