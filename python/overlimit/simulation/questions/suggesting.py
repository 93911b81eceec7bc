"""Suggesting a limit: the smallest that refuses no more than is bearable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.texts import percent, printable, short_repr
from overlimit._options import whole_number
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.labels import Label
from overlimit.simulation.optional import required
from overlimit.simulation.progress import progress_bar
from overlimit.simulation.questions.effects import Bools, Trial
from overlimit.simulation.questions.naming import checked_names, events_of, making, mask_of, names_text
from overlimit.simulation.replaying import PolicyLike, check_question
from overlimit.simulation.tables import labels_of_events

if TYPE_CHECKING:
    import pandas as pd

_OF_ALL = " of all labels"
_OTHERS = " other than those of"

Of: TypeAlias = Literal["identifiers", "events"]


class Tried(NamedTuple):
    """What the policy of a value refuses."""

    refused_events: float
    refused_identifiers: float
    refused_spared: int
    """How many events were refused of which none may be."""
    stopped: dict[Label, float]
    """Which share of the events was refused of each of those who are to be stopped."""


class _Asked(NamedTuple):
    between: tuple[int, int]
    refuse_at_most: float
    of: Of
    whose: str
    """Whose share it is, as a part of a sentence."""
    spare: tuple[Label, ...]


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
    stopped : dict of str or bytes to float
        Which share of the events its policy refuses of each of those to be stopped, from 0 to 1.
    between : tuple of int
        Among which values it was looked for.
    tried : dict of int to tuple
        What each value that was tried refuses: ``refused_events``, ``refused_identifiers``,
        ``refused_spared`` and ``stopped``, as in `to_pandas`.
    """

    def __init__(self, asked: _Asked, tried: dict[int, Tried]) -> None:
        self._asked = asked
        self.between, self.refuse_at_most, self.of, self._whose, self.spare = asked
        self.tried = dict(sorted(tried.items()))
        shares = {value: _share_of(tried, self.of) for value, tried in self.tried.items()}
        enough = [k for k, tried in self.tried.items() if _suffices(tried, self.refuse_at_most, self.of)]
        high = self.between[1]
        self.value = min(enough) if high in enough else None
        answer = high if self.value is None else self.value
        self.share, self.stopped = shares[answer], self.tried[answer].stopped
        self.next_smaller = None if self.value is None else shares.get(self.value - 1)

    @property
    def message(self) -> str:
        """All of this in a sentence."""
        target = f"at most {100 * self.refuse_at_most:.6g}% of the {self.of}{self._whose}"
        if self.spare:
            target += f", and nothing of {names_text(self.spare)}"
        low, high = self.between
        if self.value is None:
            none = f"no value from {low} to {high} refuses {target}: even {high} refuses {self._text(high)}"
            return f"{none}; {self._what_to_change()}"
        found = f"{self.value} is the smallest value that refuses {target}: {self._text(self.value)}"
        smaller = f"nothing below {low} was tried"
        if self.next_smaller is not None:
            smaller = f"{self.value - 1} would refuse {self._text(self.value - 1)}"
        return "; ".join([found, smaller, *self._stops()])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Suggestion):
            return NotImplemented
        return (self._asked, self.tried) == (other._asked, other.tried)

    def __hash__(self) -> int:
        return hash((self._asked, self.value))

    def _stops(self) -> list[str]:
        shares = [f"{percent(share)} of what {printable(name)} sends" for name, share in self.stopped.items()]
        return [f"{self.value} would refuse {' and '.join(shares)}"] if shares else []

    def _text(self, value: int) -> str:
        """Return what a value refuses: a share, and how many events of those who are to be spared."""
        tried = self.tried[value]
        share, spared = percent(_share_of(tried, self.of), self.refuse_at_most), tried.refused_spared
        if not spared:
            return share
        return f"{share}, and {spared:,} event{'s' * (spared != 1)} of {names_text(self.spare)}"

    def _what_to_change(self) -> str:
        low, high = (self.tried[value] for value in self.between)
        of_low = _share_of(low, self.of)
        if of_low < self.share or low.refused_spared < high.refused_spared:
            text = self._text(self.between[0])
            return f"{self.between[0]} refuses less ({text}), and larger values must be the more lenient ones"
        return f"raise between= or {'refuse_at_most=' if self.share > self.refuse_at_most else 'spare fewer'}"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per value that was tried, in their order.

        Its columns are the shares ``refused_events`` and ``refused_identifiers`` of those whose share it is;
        with ``spare`` ``refused_spared``: how many events were refused of those who are to be spared; and
        ``refused_events[name]`` for each of those who are to be stopped. Raises ImportError without pandas.
        """
        pandas = required("pandas", "Suggestion.to_pandas")
        index = pandas.Index(list(self.tried), name="value")
        columns = ["refused_events", "refused_identifiers", *["refused_spared"] * bool(self.spare)]
        columns += [f"refused_events[{printable(name)}]" for name in self.stopped]
        frame: pd.DataFrame = pandas.DataFrame(list(map(self._row, self.tried.values())), index, columns)
        return frame

    def _row(self, tried: Tried) -> list[Any]:
        spared = [tried.refused_spared] * bool(self.spare)
        return [tried.refused_events, tried.refused_identifiers, *spared, *tried.stopped.values()]

    @property
    def _of_part(self) -> str:
        """Whose shares the first two columns are, if they are not those of all."""
        if self._whose.startswith(_OTHERS):
            return " of others"
        return self._whose.removesuffix(_OF_ALL)

    def _cell(self, figure: float) -> object:
        return percent(figure, self.refuse_at_most) if isinstance(figure, float) else figure

    def __repr__(self) -> str:
        return f"<Suggestion: {self.message}>"

    def _repr_html_(self) -> str:
        rows = [[value, *map(self._cell, self._row(tried))] for value, tried in self.tried.items()]
        head = ["value tried", f"refused events{self._of_part}", f"refused identifiers{self._of_part}"]
        head += [f"events of {names_text(self.spare)}"] if self.spare else []
        head += [f"refused: {printable(name)}" for name in self.stopped]
        return html_table("Suggestion", self.message, head, rows)


def suggest(
    events: Events,
    make: str | Callable[[int], PolicyLike],
    between: tuple[int, int],
    refuse_at_most: float = 0.001,
    of: Of = "identifiers",
    *,
    among: Label | Iterable[Label] | npt.NDArray[np.bool_] = (),
    stop: Label | Iterable[Label] = (),
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
        takes them, a Limiter, or ``(limits, penalty)``. Or a text with {} for the value: ``"{}/minute"``.
    between
        The smallest and the largest value to try.
    refuse_at_most
        The share that may be refused, from 0 to 1.
    of
        Whether it is a share of ``"identifiers"`` (those of which any event is refused; an event counts for
        the first identifier that it has) or of ``"events"``.
    among
        Whose share it is: identifiers and labels, such as ``"people"``, or an array of bools that says which
        events count. By default it is the share of all but those in ``stop``.
    stop
        Identifiers and labels, such as ``"crawler"``, of which the answer says how much it refuses.
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
        There are no events, an argument is out of range, an event is too large for one call, no event has
        one of the names, ``stop`` names one whom ``among`` or ``spare`` names too, or nobody is left whose
        share it could be.
    """
    policy_of = making(make)
    low, high = _checked_between(between)
    _check_share(refuse_at_most, of)
    check_question(events)
    spared = checked_names(spare, "spare")
    to_spare = events_of(events, spared, "spare")
    to_stop = {name: events_of(events, [name], "stop") for name in checked_names(stop, "stop")}
    _check_apart(to_stop, spared, "spare")
    counted, whose = _among(events, among, to_stop)
    tried: dict[int, Tried] = {}
    rounds = 1 + (high - low).bit_length()
    with progress_bar(rounds * len(events), shown=progress) as bar:
        trial = Trial(events, bar, counted)

        def suffices(value: int) -> bool:
            refused = ~trial.allowed(policy_of(value))
            refused_spared = int(np.count_nonzero(to_spare & refused))
            stopped = {name: float(refused[which].mean()) for name, which in to_stop.items()}
            tried[value] = Tried(*trial.shares(~refused), refused_spared, stopped)
            return _suffices(tried[value], refuse_at_most, of)

        _halve(low, high, suffices)
    return Suggestion(_Asked((low, high), refuse_at_most, of, whose, spared), tried)


def _among(events: Events, among: object, to_stop: Mapping[Label, Bools]) -> tuple[Bools | None, str]:
    """Return of which events a share is (None: of all), and whose it is as a part of a sentence."""
    if (mask := mask_of(events, among, "among")) is not None:
        counted, whose = mask, " chosen by among="
    elif names := checked_names(among, "among"):
        _check_apart(to_stop, names, "among")
        counted, whose = events_of(events, names, "among"), f" of {names_text(names)}"
    elif to_stop:
        counted = ~np.any(list(to_stop.values()), axis=0)
        whose = f"{_OTHERS} {names_text(list(to_stop))}"
        if not counted.any():
            raise ValueError(
                "stop names everybody, so nobody is left whose share may be refused: name fewer, or say in "
                "among whose share it is"
            )
    else:
        return None, "" if labels_of_events(events) is None else _OF_ALL
    if not counted.any():
        raise ValueError("among must choose an event at least: its share is the one that may be refused")
    return counted, whose


def _check_apart(stop: Iterable[Label], names: Iterable[Label], argument: str) -> None:
    """Raise ValueError if one is to be stopped and named as one who is not."""
    if both := [*filter(set(names).__contains__, stop)]:
        raise ValueError(f"stop and {argument} both name {names_text(both)}: leave it out of one of them")


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


def _share_of(tried: Tried, of: Of) -> float:
    return tried.refused_events if of == "events" else tried.refused_identifiers


def _suffices(tried: Tried, refuse_at_most: float, of: Of) -> bool:
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
