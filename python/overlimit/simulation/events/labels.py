"""What events are labelled, such as who sent them: a column of labels, each distinct one held once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._addresses import grouped
from overlimit._messages.caller import warn_caller
from overlimit._messages.texts import short_repr
from overlimit.simulation.events.identifiers import Codes, Column, concatenated, label_column, label_of, named

Label: TypeAlias = str | bytes

ORIGIN = r"[A-Za-z][A-Za-z0-9+.-]*://[^/? ]*"
"""What of a URL is before its path, as a regular expression."""

_WHOLE_URL = re.compile(rf"^{ORIGIN}/?")
_UNLABELLED = -1
_SHOWN = 5


def labelled(
    columns: Sequence[Column], labels: object, other: object, in_time: Callable[[Codes], Codes]
) -> Column:
    """Return the labels of events: a column of them, or those that a dict or a function has for identifiers.

    A function is asked about each distinct identifier once. An event has the label of its first column that
    has one. Those without get ``other``, and none if that is None. ``in_time`` puts a column that was given
    in the order of times. Raises TypeError for what cannot be a label, ValueError for a column of another
    length or a dict with an identifier that is held in other words.
    """
    numbers: dict[Label, int] = {}
    if isinstance(labels, Mapping):
        known = {label_of(identifier): _checked(label) for identifier, label in labels.items()}
        _check_occurs(known, columns)
        codes = _codes_by(columns, known.get, numbers)
    elif callable(labels):
        codes = _codes_by(columns, lambda identifier: _checked(labels(identifier)), numbers)
    else:
        given = label_column(labels, len(columns[0].codes))
        codes, numbers = in_time(given.codes), {label: k for k, label in enumerate(given.labels.tolist())}
    if (rest := "" if other == "" else _checked(other)) is not None:
        number = numbers.setdefault(rest, len(numbers))
        codes = np.where(codes == _UNLABELLED, np.int32(number), codes)
    return Column(None, codes, np.fromiter(numbers, object, len(numbers)))


def without_empty(labels: Column) -> Column:
    """Return labels of which the empty one is none: it tells nobody apart."""
    is_empty = np.array([not label for label in labels.labels.tolist()] + [False], bool)
    return labels._replace(codes=np.where(is_empty[labels.codes], np.int32(_UNLABELLED), labels.codes))


def concatenated_labels(labels: Sequence[Column | None], counts: Sequence[int]) -> Column:
    """Return the labels of parts of so many events as one column; a part may have none."""
    return concatenated([column or unlabelled(count) for column, count in zip(labels, counts, strict=True)])


def unlabelled(count: int) -> Column:
    """Return the labels of so many events that have none."""
    return Column(None, np.full(count, _UNLABELLED, np.int32), np.empty(0, object))


def of_paths(targets: Column) -> Column:
    """Return the paths of requests as they were written, without queries and what is before them in URLs."""
    paths = np.fromiter(map(_path_of, targets.labels), object, len(targets.labels))
    return concatenated([targets._replace(labels=paths)])


def _path_of(target: Label) -> Label:
    if isinstance(target, bytes):
        return str(_path_of(target.decode("latin-1"))).encode("latin-1")
    return _WHOLE_URL.sub("/", target).partition("?")[0]


def label_of_each(codes: Codes, identifiers: int, labels: Column) -> npt.NDArray[np.object_]:
    """Return the label that most events of each identifier have, of equally many the first; ``""`` for none.

    ``codes`` has the number of each event's identifier, or -1.
    """
    found = np.full(identifiers, "", object)
    known = np.flatnonzero((codes >= 0) & (labels.codes >= 0))
    pairs = codes[known].astype(np.int64) * len(labels.labels) + labels.codes[known]
    distinct, firsts, counts = np.unique(pairs, return_index=True, return_counts=True)
    if len(distinct):
        whose, which = np.divmod(distinct, len(labels.labels))
        order = np.lexsort((firsts, -counts, whose))
        leading = order[np.r_[True, np.diff(whose[order]) > 0]]
        found[whose[leading]] = labels.labels[which[leading]]
    return found


def _codes_by(
    columns: Sequence[Column], label_for: Callable[[Label], Label | None], numbers: dict[Label, int]
) -> Codes:
    """Return the number of each event's label, and number labels as they are found."""
    codes = np.full(len(columns[0].codes), _UNLABELLED, np.int32)
    for column in columns:
        of_identifiers = np.full(len(column.labels) + 1, _UNLABELLED, np.int32)
        for k in np.flatnonzero(column.counts()).tolist():
            if (label := label_for(column.labels[k])) is not None:
                of_identifiers[k] = numbers.setdefault(label, len(numbers))
        codes = np.where(codes == _UNLABELLED, of_identifiers[column.codes], codes)
    return codes


def _checked(label: object) -> Label | None:
    """Return a label as it is held, None if it is missing or empty."""
    try:
        return label_of(label)
    except TypeError:
        raise TypeError(
            f"a label must be a text, and a number a whole one, not {short_repr(label)}"
        ) from None


def _check_occurs(known: Mapping[Label | None, object], columns: Sequence[Column]) -> None:
    """Warn of identifiers that do not occur; raise ValueError if none does, or one is held in other words."""
    held = {label for column in columns for label in column.labels.tolist()}
    absent = [identifier for identifier in known if identifier is not None and identifier not in held]
    for identifier in absent:
        for whole in (each for column in columns for each in _written_out(identifier, column.name)):
            if whole in held:
                raise ValueError(
                    f"labels: {short_repr(identifier)} is no identifier of these events: write {whole!r}"
                )
    if not held or not absent:
        return
    named_ones = ", ".join(map(short_repr, absent[:_SHOWN])) + ", ..." * (len(absent) > _SHOWN)
    if len(absent) == len(known):
        raise ValueError(f"labels: no event has any of these identifiers: {named_ones}")
    warn_caller(f"labels: no event has {len(absent):,} of the {len(known):,} identifiers: {named_ones}")


def _written_out(identifier: Label, name: str | None) -> Iterator[Label]:
    """Yield how an identifier may be held that is written in short: a log's IPv6 address is its network."""
    whole = named(name, identifier)
    yield whole
    if isinstance(whole, str):
        yield named(name, grouped(whole if name is None else whole.removeprefix(f"{name}:")))
