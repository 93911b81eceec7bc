"""Suggesting a limit: the smallest that refuses no more than is bearable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from overlimit._display.notebooks import html_table
from overlimit._messages.texts import percent, short_repr
from overlimit._options import whole_number
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.labels import Label
from overlimit.simulation.optional import required
from overlimit.simulation.progress import progress_bar
from overlimit.simulation.questions.effects import Trial
from overlimit.simulation.questions.naming import checked_names, events_of, names_text
from overlimit.simulation.replaying import PolicyLike, check_question

if TYPE_CHECKING:
    import pandas as pd

Of: TypeAlias = Literal["identifiers", "events"]


class _Tried(NamedTuple):
    refused_events: float
    refused_identifiers: float
    refused_spared: int
    """How many events were refused of which none may be."""


class Suggestion:
    """The smallest value whose policy refuses no more than was asked for; ``suggest`` makes it.

    Attributes
    ----------
    value : int or None
        The value; None if even the largest refuses more.
    share : float
        The share that its policy refuses, from 0 to 1; without a value, that of the largest.
    next_smaller : float or None
        The share that the next smaller value refuses; None if that was not to be tried.
    refuse_at_most, of : float, str
        What was asked for: the share at most, of ``"identifiers"`` or ``"events"``.
    spare : tuple of str or bytes
        Identifiers and labels of which nothing may be refused.
    between : tuple of int
        Among which values it was looked for.
    """

    def __init__(
        self,
        between: tuple[int, int],
        refuse_at_most: float,
        of: Of,
        spare: tuple[Label, ...],
        tried: dict[int, _Tried],
    ) -> None:
        self.between, self.refuse_at_most, self.of, self.spare = between, refuse_at_most, of, spare
        self._tried = dict(sorted(tried.items()))
        shares = {value: _share_of(tried, of) for value, tried in self._tried.items()}
        enough = [value for value, tried in self._tried.items() if _suffices(tried, refuse_at_most, of)]
        self.value = min(enough) if between[1] in enough else None
        self.share = shares[between[1] if self.value is None else self.value]
        self.next_smaller = None if self.value is None else shares.get(self.value - 1)

    @property
    def message(self) -> str:
        """All of this in a sentence."""
        target = f"at most {100 * self.refuse_at_most:.6g}% of the {self.of}"
        if self.spare:
            target += f", and nothing of {names_text(self.spare)}"
        low, high = self.between
        if self.value is None:
            none = f"no value from {low} to {high} refuses {target}: even {high} refuses {self._text(high)}"
            return f"{none}; {self._what_to_change()}"
        found = f"{self.value} is the smallest value that refuses {target}: {self._text(self.value)}"
        if self.next_smaller is None:
            return f"{found}; nothing below {low} was tried"
        return f"{found}; {self.value - 1} would refuse {self._text(self.value - 1)}"

    def _text(self, value: int) -> str:
        """Return what a value refuses: a share, and how many events of those who are to be spared."""
        tried = self._tried[value]
        share, spared = percent(_share_of(tried, self.of), self.refuse_at_most), tried.refused_spared
        return (
            f"{share}, and {spared:,} event{'s' * (spared != 1)} of {names_text(self.spare)}"
            if spared
            else share
        )

    def _what_to_change(self) -> str:
        low, high = (self._tried[value] for value in self.between)
        of_low = _share_of(low, self.of)
        if of_low < self.share or low.refused_spared < high.refused_spared:
            text = self._text(self.between[0])
            return f"{self.between[0]} refuses less ({text}), and larger values must be the more lenient ones"
        return f"raise between= or {'refuse_at_most=' if self.share > self.refuse_at_most else 'spare fewer'}"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per value that was tried, in their order.

        Its columns are the shares ``refused_events`` and ``refused_identifiers``, and, with ``spare``,
        ``refused_spared``: how many events were refused of those who are to be spared. Raises ImportError
        without pandas.
        """
        pandas = required("pandas", "Suggestion.to_pandas")
        index = pandas.Index(list(self._tried), name="value")
        frame: pd.DataFrame = pandas.DataFrame(list(self._tried.values()), index=index)
        return frame if self.spare else frame.drop(columns="refused_spared")

    def __repr__(self) -> str:
        return f"<Suggestion: {self.message}>"

    def _repr_html_(self) -> str:
        rows = [
            (value, *(percent(share, self.refuse_at_most) for share in shares), *[spared] * bool(self.spare))
            for value, (*shares, spared) in self._tried.items()
        ]
        head = ["value tried", "refused events", "refused identifiers"]
        head += [f"events of {names_text(self.spare)}"] if self.spare else []
        return html_table("Suggestion", self.message, head, rows)


def suggest(
    events: Events,
    make: Callable[[int], PolicyLike],
    between: tuple[int, int],
    refuse_at_most: float = 0.001,
    of: Of = "identifiers",
    *,
    spare: Label | Iterable[Label] = (),
    progress: bool | None = None,
) -> Suggestion:
    """Return the smallest whole value whose policy would have refused no more than a share.

    It is found by halving: policies of larger values must refuse no more than those of smaller ones.

    Parameters
    ----------
    events
        What happened.
    make
        Returns the policy of a value, such as ``lambda limit: f"{limit}/minute"``: limits as ``Limiter``
        takes them, a Limiter, or ``(limits, penalty)``.
    between
        The smallest and the largest value to try.
    refuse_at_most
        The share that may be refused, from 0 to 1.
    of
        Whether it is a share of ``"identifiers"`` (those of which any event is refused; an event counts for
        the first identifier that it has) or of ``"events"``.
    spare
        Identifiers and labels, such as ``"office"``, of which nothing may be refused, whatever
        ``refuse_at_most`` allows.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        There are no events, an argument is out of range, an event is too large for one call, or no event has
        one of the names to be spared.
    """
    if not callable(make):
        raise TypeError(f'make must be a function such as lambda n: f"{{n}}/minute", not {short_repr(make)}')
    low, high = _checked_between(between)
    _check_share(refuse_at_most, of)
    check_question(events)
    spared = checked_names(spare, "spare")
    to_spare = events_of(events, spared, "spare")
    tried: dict[int, _Tried] = {}
    rounds = 1 + (high - low).bit_length()
    with progress_bar(rounds * len(events), shown=progress) as bar:
        trial = Trial(events, bar)

        def suffices(value: int) -> bool:
            allowed = trial.allowed(make(value))
            refused_spared = int(np.count_nonzero(to_spare & ~allowed))
            tried[value] = _Tried(*trial.shares(allowed), refused_spared)
            return _suffices(tried[value], refuse_at_most, of)

        _halve(low, high, suffices)
    return Suggestion((low, high), refuse_at_most, of, spared, tried)


def _halve(low: int, high: int, suffices: Callable[[int], bool]) -> None:
    """Ask about values until the smallest that suffices and the next smaller one were asked about.

    If the largest does not, the smallest is asked too: perhaps larger ones refuse more.
    """
    if not suffices(high):
        if low < high:
            suffices(low)
        return
    below = low - 1
    while high - below > 1:
        middle = (below + high) // 2
        if suffices(middle):
            high = middle
        else:
            below = middle


def _share_of(tried: _Tried, of: Of) -> float:
    return tried.refused_events if of == "events" else tried.refused_identifiers


def _suffices(tried: _Tried, refuse_at_most: float, of: Of) -> bool:
    return not tried.refused_spared and _share_of(tried, of) <= refuse_at_most


def _checked_between(between: object) -> tuple[int, int]:
    rule = "between must be the smallest and the largest whole number to try, such as (1, 1000)"
    wrong = f"{rule}, not {short_repr(between)}"
    if not isinstance(between, (tuple, list)) or len(between) != 2:
        raise TypeError(wrong)
    low, high = map(whole_number, between)
    if low is None or high is None:
        raise TypeError(wrong)
    if low > high:
        raise ValueError(wrong)
    return low, high


def _check_share(refuse_at_most: object, of: object) -> None:
    if isinstance(refuse_at_most, bool) or not isinstance(refuse_at_most, (int, float)):
        raise TypeError(f"refuse_at_most must be a number from 0 to 1, not {short_repr(refuse_at_most)}")
    if math.isnan(refuse_at_most) or not 0 <= refuse_at_most <= 1:
        raise ValueError(f"refuse_at_most must be a share from 0 to 1, not {short_repr(refuse_at_most)}")
    if of not in get_args(Of):
        raise ValueError(f'of must be "identifiers" or "events", not {short_repr(of)}')
