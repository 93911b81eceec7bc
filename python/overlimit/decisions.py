"""Many decisions at once, in columns, and what one says about each of its pairs."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, SupportsIndex

from overlimit import _core
from overlimit._display import html_table
from overlimit._messages.texts import printable, seconds_text, short_repr

if TYPE_CHECKING:
    import numpy.typing as npt

    from overlimit._core import Decision, Details, ManyDecisions
    from overlimit.limits import Limit


class Detail(NamedTuple):
    """One (identifier, limit) pair of a decision; times are in seconds."""

    identifier: str | bytes
    limit: Limit
    policy: str | None
    allowed: bool
    remaining: int
    retry_after: float
    reset_after: float


def _rows_of(details: object) -> tuple[Detail, ...]:
    if type(details) is not _core.Details:
        raise TypeError(f"expected the details of a Decision, not {short_repr(details)}")
    return tuple(details)


def _done_by_tuple(name: str) -> Callable[..., Any]:
    """Return a method of Details that a tuple of the rows does, and for which other Details are one, too."""
    of_tuple = getattr(tuple, name)

    @wraps(of_tuple)
    def method(self: Details, *arguments: object) -> Any:
        others = [tuple(each) if isinstance(each, _core.Details) else each for each in arguments]
        return of_tuple(_rows_of(self), *others)

    method.__qualname__ = f"Details.{name}"
    return method


def _added(first: Any, second: Any) -> Any:
    """Join Details with a tuple or others; nothing else goes with them."""
    if not all(isinstance(each, tuple | _core.Details) for each in (first, second)):
        return NotImplemented
    return (*first, *second)


def _complete_details() -> None:
    """Give Details what a tuple of the rows does, beyond what the core has of them for speed."""
    details: Any = _core.Details
    of_tuple = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__repr__")
    for name in (*of_tuple, "__mul__", "__rmul__", "index", "count"):
        setattr(details, name, _done_by_tuple(name))
    details.__add__ = lambda self, other, /: _added(self, other)
    details.__radd__ = lambda self, other, /: _added(other, self)
    details.__contains__ = lambda self, value, /: any(each is value or each == value for each in self)
    details.__reduce__ = lambda self: (tuple, (_rows_of(self),))
    Sequence.register(details)


_complete_details()


_DETAIL = ("identifier", "limit", "allowed", "remaining", "retry after", "reset after")


def decision_html(decision: Decision) -> str:
    """Return a decision as an HTML table, one row per (identifier, limit); the core calls this."""
    source = "" if decision.source == "store" else f" ({decision.source})"
    is_never = math.isinf(decision.retry_after)
    retry = "can never pass" if is_never else f"retry after {seconds_text(decision.retry_after)}"
    bound_by = f"{decision.limit!r} of {printable(decision.identifier)}"
    binding = f"{decision.remaining:,} remaining, {retry}, by {bound_by}"
    rows = [_cells(detail) for detail in decision.details]
    return html_table(f"Decision {decision.status}{source}", binding, _DETAIL, rows, left=(0, 1, 2))


def _cells(detail: Detail) -> tuple[object, ...]:
    return (
        detail.identifier,
        detail.limit,
        "yes" if detail.allowed else "no",
        detail.remaining,
        seconds_text(detail.retry_after),
        seconds_text(detail.reset_after),
    )


class Decisions:
    """What a limiter decided of many calls, each by itself: columns of one row per call, in the order given.

    ``decisions[i]`` is the Decision of a call, as ``hit`` returns it: the same object each time, which can be
    refunded. The columns are arrays and need numpy; ``decisions[i]`` does not.

    Attributes
    ----------
    limits : tuple of Limit
        The limits that decided, in the order given.
    """

    STATUSES: ClassVar[tuple[str, ...]] = ("ok", "over", "locked", "never", "unknown")
    """What the codes of ``status`` stand for. ``"unknown"``: the store gave no answer in time."""

    def __init__(self, limits: tuple[Limit, ...], core: ManyDecisions | _Unpickled) -> None:
        self.limits = limits
        self._core = core
        self._made: dict[int, Decision | None] = {}

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, which: SupportsIndex) -> Decision | Any:
        """Return the Decision of a call by its number; None when the store gave no answer.

        Raises IndexError beyond the last, TypeError for what is no number.
        """
        if isinstance(which, bool) or not hasattr(which, "__index__"):
            raise TypeError(f"decisions are chosen by a number such as 0, not {short_repr(which)}")
        row = operator.index(which)
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {len(self)} decisions, so there is none of the number {row}")
        row %= len(self)
        if row not in self._made:
            self._made.setdefault(row, self._core.decision(row))
        return self._made[row]

    def __iter__(self) -> Iterator[Decision | None]:
        return (self[row] for row in range(len(self)))

    @cached_property
    def allowed(self) -> npt.NDArray[Any]:
        """Whether each call may pass: bools."""
        return self._column("allowed").view("bool")

    @cached_property
    def status(self) -> npt.NDArray[Any]:
        """Why, as a place in ``Decisions.STATUSES``: uint8."""
        return self._column("status")

    @cached_property
    def remaining(self) -> npt.NDArray[Any]:
        """Cost units that the binding limit still grants after the call: int64."""
        return self._column("remaining")

    @cached_property
    def retry_after(self) -> npt.NDArray[Any]:
        """Seconds until the call could succeed; infinity for never: float64."""
        return self._column("retry_after")

    @cached_property
    def reset_after(self) -> npt.NDArray[Any]:
        """Seconds until the binding record is as if it had never been used: float64."""
        return self._column("reset_after")

    @cached_property
    def delay(self) -> npt.NDArray[Any]:
        """Seconds that the caller must wait before it proceeds: float64."""
        return self._column("delay")

    @cached_property
    def limit(self) -> npt.NDArray[Any]:
        """Which of ``limits`` binds: int16, -1 where the store gave no answer."""
        return self._column("limit")

    @cached_property
    def identifier(self) -> npt.NDArray[Any]:
        """Which of the call's identifiers binds: int16, -1 where the store gave no answer."""
        return self._column("identifier")

    @property
    def refused(self) -> int:
        """How many calls were refused."""
        return len(self) - int(self.allowed.sum())

    def _column(self, name: str) -> npt.NDArray[Any]:
        try:
            import numpy as np
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise ModuleNotFoundError(
                f"Decisions.{name} needs numpy: pip install 'overlimit[notebook]' brings it; "
                "decisions[i] does without",
                name="numpy",
            ) from error
        column = np.empty(len(self), _TYPECODES[name])
        self._core.fill(name, column)
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns and each Decision, which then has nothing to give back any more."""
        columns = {name: array(code, [0]) * len(self) for name, code in _TYPECODES.items()}
        for name, column in columns.items():
            self._core.fill(name, column)
        return type(self), (self.limits, _Unpickled(list(self), columns, self._core.counts()))

    def __repr__(self) -> str:
        shares = ", ".join(f"{count:,} {status}" for status, count in self._counts().items())
        return f"<{len(self):,} Decisions under {'; '.join(map(str, self.limits))}: {shares or 'none'}>"

    def _repr_html_(self) -> str:
        under = f"{len(self):,} under {'; '.join(map(str, self.limits))}"
        return html_table("Decisions", under, ("status", "decisions"), list(self._counts().items()))

    def _counts(self) -> dict[str, int]:
        """Return how many calls ended with each status that occurs."""
        counts = zip(self.STATUSES, self._core.counts(), strict=True)
        return {status: count for status, count in counts if count}


_TYPECODES = {
    **dict.fromkeys(("allowed", "status"), "B"),
    **dict.fromkeys(("retry_after", "reset_after", "delay"), "d"),
    **dict.fromkeys(("limit", "identifier"), "h"),
    "remaining": "q",
}
"""Of each column the type of its numbers, as the standard library's arrays and numpy call it."""


class _Unpickled:
    """What Decisions ask of the core, once there are only values."""

    def __init__(
        self, made: list[Decision | None], columns: dict[str, array[Any]], counts: list[int]
    ) -> None:
        self._made, self._columns, self._counts = made, columns, counts

    def __len__(self) -> int:
        return len(self._made)

    def counts(self) -> list[int]:
        return self._counts

    def decision(self, row: int) -> Decision | None:
        return self._made[row]

    def fill(self, name: str, column: Any) -> None:
        column[:] = self._columns[name]


def as_column(given: object, what: str) -> list[Any] | tuple[Any, ...]:
    """Return a column as a list: a list, an array of numpy, pandas or pyarrow, or anything to iterate over.

    Raises TypeError for a single text and for what has no order.
    """
    if isinstance(given, (list, tuple)):
        return given
    for method in ("tolist", "to_pylist", "to_list"):
        if hasattr(given, method):
            column = getattr(given, method)()
            if isinstance(column, list):
                return column
    if isinstance(given, (str, bytes, bytearray, dict, set, frozenset)) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"{what} must be a list or an array with one for each call, such as ['user:42', 'user:43'], "
            f"not {short_repr(given)}"
        )
    return list(given)
