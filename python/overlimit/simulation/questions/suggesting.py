"""Suggesting a limit: the smallest that refuses no more than is bearable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.texts import percent, printable, short_repr
from overlimit._options import whole_number
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.labels import Label
from overlimit.simulation.policies import PolicyLike
from overlimit.simulation.progress import Advance, progress_bar, unseen
from overlimit.simulation.questions.effects import Bits, Bools, Effects, Shown, Trial
from overlimit.simulation.questions.naming import checked_names, events_of, making, mask_of, names_text
from overlimit.simulation.questions.plotting import plot_suggestion
from overlimit.simulation.questions.resampling import (
    Of,
    Refused,
    band,
    checked_draws,
    counted,
    draws_of,
    refused_of,
    share_in,
)
from overlimit.simulation.replaying import check_question
from overlimit.simulation.tables import Ints, labels_of_events

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_OF_ALL = " of all labels"
_OTHERS = " other than those of"


class Tried(NamedTuple):
    """What the policy of a value refuses."""

    refused_events: float
    refused_identifiers: float
    refused_spared: int
    """How many events were refused of which none may be."""
    stopped: dict[Label, float]
    """Which share of the events was refused of each of those who are to be stopped."""


class Asked(NamedTuple):
    """What a policy of a value must be like."""

    between: tuple[int, int]
    refuse_at_most: float
    of: Of
    whose: str
    """Whose share it is, as a part of a sentence."""
    spare: tuple[Label, ...]

    def share(self, tried: Tried) -> float:
        """Return the share that counts."""
        return tried.refused_events if self.of == "events" else tried.refused_identifiers

    def suffices(self, tried: Tried) -> bool:
        """Tell whether a policy refuses no more than it may."""
        return not tried.refused_spared and self.share(tried) <= self.refuse_at_most

    def answer(self, tried: Mapping[int, Tried]) -> int | None:
        """Return the smallest value that suffices; None if the largest does not."""
        enough = [value for value, each in tried.items() if self.suffices(each)]
        return min(enough) if self.between[1] in enough else None


class Groups(NamedTuple):
    """Those whose share it is (None: all), those to be spared and to be stopped, in the order of times."""

    counted: Bools | None
    to_spare: Bools
    to_stop: dict[Label, Bools]

    def part(self, which: slice) -> Groups:
        """Return the groups of some of the events, without those to be stopped, who change no answer."""
        return Groups(None if self.counted is None else self.counted[which], self.to_spare[which], {})


class Candidates:
    """Policies of values, each of which is asked once about events, when it is first looked at."""

    def __init__(self, trial: Trial, policy_of: Callable[[int], PolicyLike]) -> None:
        self.trial, self.policy_of = trial, policy_of
        self._passed: dict[int, Bits] = {}

    def allowed(self, value: int) -> Bools:
        """Return which events the policy of a value lets pass, in the order of times."""
        if value not in self._passed:
            self._passed[value] = np.packbits(self.trial.allowed(self.policy_of(value)))
        return np.unpackbits(self._passed[value], count=len(self.trial.events)).view(np.bool_)


class Suggestion(Effects):
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
    low, high : int or None
        Between which values the answer is for nine tenths of the draws of ``resample=``; None without it.
    tried : dict of int to tuple
        What each value that was tried refuses: ``refused_events``, ``refused_identifiers``,
        ``refused_spared`` and ``stopped``, as in `to_pandas`.
    """

    def __init__(
        self, events: Events, asked: Asked, tried: dict[int, Tried], ends: tuple[int, int] | None = None
    ) -> None:
        super().__init__(events, dict(sorted(tried.items())), ("value",), ())
        self._question = asked
        self.between, self.refuse_at_most, self.of, self._whose, self.spare = asked
        self.tried: dict[int, Tried] = self.effects
        self.low = None if ends is None else ends[0]
        self.high = None if ends is None else ends[1]
        self.value = asked.answer(self.tried)
        answer = self.tried[self.between[1] if self.value is None else self.value]
        self.share, self.stopped = asked.share(answer), answer.stopped
        smaller = None if self.value is None else self.tried.get(self.value - 1)
        self.next_smaller = None if smaller is None else asked.share(smaller)

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
        sure = "" if self.low is None else f" (between {self.low} and {self.high})"
        found = f"{self.value}{sure} is the smallest value that refuses {target}: {self._text(self.value)}"
        smaller = f"nothing below {low} was tried"
        if self.next_smaller is not None:
            smaller = f"{self.value - 1} would refuse {self._text(self.value - 1)}"
        return "; ".join([found, smaller, *self._stops()])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Suggestion):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((self._question, self.value))

    def _compared(self) -> tuple[object, ...]:
        return self._question, self.tried, self.low, self.high

    def _stops(self) -> list[str]:
        shares = [f"{percent(share)} of what {printable(name)} sends" for name, share in self.stopped.items()]
        return [f"{self.value} would refuse {' and '.join(shares)}"] if shares else []

    def _text(self, value: int) -> str:
        """Return what a value refuses: a share, and how many events of those who are to be spared."""
        tried = self.tried[value]
        share, spared = percent(self._question.share(tried), self.refuse_at_most), tried.refused_spared
        if not spared:
            return share
        return f"{share}, and {spared:,} event{'s' * (spared != 1)} of {names_text(self.spare)}"

    def _what_to_change(self) -> str:
        low, high = (self.tried[value] for value in self.between)
        if self._question.share(low) < self.share or low.refused_spared < high.refused_spared:
            text = self._text(self.between[0])
            return f"{self.between[0]} refuses less ({text}), and larger values must be the more lenient ones"
        return f"raise between= or {'refuse_at_most=' if self.share > self.refuse_at_most else 'spare fewer'}"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per value that was tried, in their order.

        Its columns are the shares ``refused_events`` and ``refused_identifiers`` of those whose share it is;
        with ``spare`` ``refused_spared``: how many events were refused of those who are to be spared; and
        ``refused_events[name]`` for each of those who are to be stopped. Raises ImportError without pandas.
        """
        return super().to_pandas()

    def plot(self, *, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw what each value that was tried refuses, the share that it may, and between what the answer is.

        Draws into ``ax``, or into a new figure, below a title if there is one, and returns the axes. Raises
        ImportError without matplotlib.
        """
        return plot_suggestion(self, title=title, ax=ax)

    def _columns(self) -> list[Shown]:
        part = " of others" if self._whose.startswith(_OTHERS) else self._whose.removesuffix(_OF_ALL)
        text = partial(percent, bound=self.refuse_at_most)
        columns = [
            self._column("refused_events", f"refused events{part}", text),
            self._column("refused_identifiers", f"refused identifiers{part}", text),
        ]
        if self.spare:
            whose = names_text(self.spare)
            columns.append(self._column("refused_spared", f"events of {whose}", "{:,}".format))
        for label in self.stopped:
            shares, name = [each.stopped[label] for each in self.tried.values()], printable(label)
            columns.append(Shown(f"refused_events[{name}]", f"refused: {name}", shares, text))
        return columns

    def __repr__(self) -> str:
        return f"<Suggestion: {self.message}>"

    def _repr_html_(self) -> str:
        head, rows = self._texts()
        return html_table("Suggestion", self.message, ["value tried", *head[1:]], rows)


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
    resample: int | None = None,
    seed: int = 0,
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
        The share that may be refused, from 0 to 1. A share of identifiers grows with the length of the log:
        the longer it is, the more of them have had their busiest minute in it.
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
    resample
        How often to ask the same of identifiers that are drawn from those of the events, as many as there
        are, some more than once and some not at all: ``.low`` and ``.high`` say between what the answers are
        in nine tenths of these draws, such as 200. They tell how much depends on who happens to be in the
        log, not what next month will be like: `backtest` does. A draw without an answer counts as the largest
        value. What is spared is so in every draw.
    seed
        Another number makes other draws.
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
    draws = None if resample is None else checked_draws(resample, "resample")
    asked, groups = question(events, between, refuse_at_most, of, among, stop, spare)
    rounds = 1 + (asked.between[1] - asked.between[0]).bit_length()
    with progress_bar(rounds * len(events), shown=progress) as bar:
        trial = Trial(events, bar, groups.counted)
        candidates = Candidates(trial, policy_of)
        tried = fitted(asked, trial, groups, candidates.allowed)
    if draws is None:
        return Suggestion(events, asked, tried)
    trial.advance = unseen
    with progress_bar(draws, shown=progress, unit="draws", description="resampling") as bar:
        answers = _answers(asked, trial, groups, candidates.allowed, draws_of(trial.sent, draws, seed), bar)
    low, high = band(answers).tolist()
    return Suggestion(events, asked, tried, (low, high))


def question(
    events: Events,
    between: object,
    refuse_at_most: float,
    of: Of,
    among: object,
    stop: object,
    spare: object,
) -> tuple[Asked, Groups]:
    """Return what is asked of policies, and of whom; raise TypeError or ValueError for wrong arguments."""
    ends = _checked_between(between)
    _check_share(refuse_at_most, of)
    check_question(events)
    spared = checked_names(spare, "spare")
    to_spare = events_of(events, spared, "spare")
    to_stop = {name: events_of(events, [name], "stop") for name in checked_names(stop, "stop")}
    _check_apart(to_stop, spared, "spare")
    counted, whose = _among(events, among, to_stop)
    return Asked(ends, refuse_at_most, of, whose, spared), Groups(counted, to_spare, to_stop)


def fitted(asked: Asked, trial: Trial, groups: Groups, allowed: Callable[[int], Bools]) -> dict[int, Tried]:
    """Return what each value that must be tried refuses of the events of a trial."""
    tried: dict[int, Tried] = {}

    def suffices(value: int) -> bool:
        passed = allowed(value)
        refused_spared = int(np.count_nonzero(groups.to_spare & ~passed))
        stopped = {name: float((~passed[which]).mean()) for name, which in groups.to_stop.items()}
        tried[value] = Tried(*trial.shares(passed), refused_spared, stopped)
        return asked.suffices(tried[value])

    smallest(*asked.between, suffices)
    return tried


def _answers(
    asked: Asked,
    trial: Trial,
    groups: Groups,
    allowed: Callable[[int], Bools],
    draws: Iterable[Ints],
    advance: Advance,
) -> list[int]:
    """Return the answer for each draw of identifiers; what a value refuses is counted once for all draws."""

    @cache
    def refused(value: int) -> Refused | None:
        passed = allowed(value)
        spares = not np.any(groups.to_spare & ~passed)
        return refused_of(trial.refused(passed), asked.of) if spares else None

    answers, sent = [], counted(trial.sent, asked.of)
    for weights in draws:
        whole = int(weights @ sent)

        def suffices(value: int, weights: Ints = weights, whole: int = whole) -> bool:
            found = refused(value)
            return found is not None and share_in(weights, found, whole) <= asked.refuse_at_most

        found = smallest(*asked.between, suffices)
        answers.append(asked.between[1] if found is None else found)
        advance(1)
    return answers


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


def smallest(low: int, high: int, suffices: Callable[[int], bool]) -> int | None:
    """Return the smallest value that suffices, once the next smaller one was asked about too.

    If the largest does not, the smallest is asked too: perhaps larger ones refuse more.
    """
    if not suffices(high):
        if low < high:
            suffices(low)
        return None
    below = low - 1
    while high - below > 1:
        middle = (below + high) // 2
        if suffices(middle):
            high = middle
        else:
            below = middle
    return high


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
