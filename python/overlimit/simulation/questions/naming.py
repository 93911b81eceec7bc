"""What a question is about: names of identifiers and labels, events by bools, policies by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from overlimit._messages.texts import nearest, printable, short_repr
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.given import in_one_order
from overlimit.simulation.events.identifiers import Column, label_of
from overlimit.simulation.events.labels import Label
from overlimit.simulation.questions.effects import Bools

_SHOWN = 3
_COMPARED = 10_000
"""Among how many names one is looked for that is like a wrong one."""


def making(make: Any) -> Callable[..., Any]:
    """Return the function that makes a policy of values; a text has {} or their names in their places."""
    if isinstance(make, str) and "{" in make:
        return partial(_filled, make)
    if not callable(make):
        raise TypeError(
            'make must be a function such as lambda n: f"{n}/minute", or a text such as "{}/minute", '
            f"not {short_repr(make)}"
        )
    return make  # type: ignore[no-any-return]


def _filled(text: str, *values: object, **named: object) -> str:
    try:
        return text.replace("{}", "{0}").format(*values, **named)
    except (LookupError, ValueError, AttributeError):
        places = " and ".join(f"{{{name}}}" for name in named) or "{}"
        raise ValueError(f"make must have {places} where the value goes, not {short_repr(text)}") from None


def checked_names(names: object, argument: str) -> tuple[Label, ...]:
    """Return identifiers and labels, each once; raise TypeError for anything else."""
    given = [names] if isinstance(names, (str, bytes, int)) else names
    rule = f"{argument} must name identifiers or labels, such as 'office'"
    if getattr(names, "dtype", None) == np.bool_:
        raise TypeError(f"{rule}, and has bools: label these events, as events.with_labels(...) does")
    if not isinstance(given, Iterable):
        raise TypeError(f"{rule}, not {short_repr(names)}")
    return tuple(dict.fromkeys(_checked(name, rule) for name in given))


def _checked(name: object, rule: str) -> Label:
    try:
        checked = label_of(name)
    except TypeError:
        checked = None
    if checked is None:
        raise TypeError(f"{rule}, not {short_repr(name)}")
    return checked


def events_of(events: Events, names: Sequence[Label], argument: str) -> Bools:
    """Return which events have one of these identifiers or labels; raise ValueError for names of no event."""
    wanted = frozenset(names)
    columns = [*([] if events._labels is None else [events._labels]), *events._columns]
    found, missing = np.zeros(len(events), bool), dict.fromkeys(names)
    for column in columns:
        is_wanted = [name in wanted for name in column.labels.tolist()]
        chosen = np.append(np.array(is_wanted, bool), [False])  # for events without one
        found |= chosen[column.codes]
        for k in np.flatnonzero(chosen[:-1] & (column.counts() > 0)).tolist():
            missing.pop(column.labels[k], None)
    if missing:
        raise ValueError(f"{argument}: {_what_is_wrong(list(missing), columns, events._labels)}")
    return found


def mask_of(events: Events, chosen: object, argument: str) -> Bools | None:
    """Return which events an array of bools chooses, in the order of times; None for anything else."""
    given = in_one_order(chosen if hasattr(chosen, "__array__") else None, argument)
    if given.dtype != np.bool_ or given.ndim != 1:
        return None
    if len(given) != len(events):
        raise ValueError(f"{argument} has {len(given):,} rows, and there are {len(events):,} events")
    return events._in_time(given)


def _what_is_wrong(unknown: Sequence[Label], columns: Sequence[Column], labels: Column | None) -> str:
    what = "is no identifier or label" if len(unknown) == 1 else "are no identifiers or labels"
    wrong = f"{', '.join(map(short_repr, unknown))} {what} of these events"
    known = [str(name) for column in columns for name in column.labels[:_COMPARED].tolist()]
    if like := nearest(str(unknown[0]), known):
        return f"{wrong}; did you mean {like!r}?"
    has_none = ", which have no labels: events.with_labels(...) returns events that do"
    return wrong + (has_none if labels is None else "")


def names_text(names: Sequence[Label]) -> str:
    """Return names as a part of a sentence, at most three of them."""
    shown = [printable(name) for name in names[:_SHOWN]]
    if more := len(names) - len(shown):
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
