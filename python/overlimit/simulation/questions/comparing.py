"""Comparing policies: whom each would have refused, and what would have got through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from overlimit._display import html_table
from overlimit._messages.texts import short_repr
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required
from overlimit.simulation.policies import PolicyLike, policy_of
from overlimit.simulation.progress import interruptible
from overlimit.simulation.questions.effects import Bits, Effects, asked
from overlimit.simulation.questions.plotting import plot_comparison

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


_FEW = 3
"""Of how many policies each pair is shown, too."""


class _Agreement(NamedTuple):
    a: str
    b: str
    both: int
    only_a: int
    only_b: int


class Comparison(Effects):
    """What each of several policies would have done to the same events; ``compare`` makes it.

    Attributes
    ----------
    events : Events
        What they were asked about.
    effects : dict of str to Effect
        What each policy did, by its name, in the order given.
    """

    _nouns = ("policy", "policies")

    @cached_property
    def _agreement(self) -> list[_Agreement]:
        pairs = combinations(zip(self.effects, self._passed, strict=True), 2)
        return [interruptible(_agreement, len(self.events), *a, *b) for a, b in pairs]

    @property
    def agreement(self) -> pd.DataFrame:
        """For each two policies how many events ``both`` refuse, ``only_a``, and ``only_b``.

        A table with a row for each pair, whose names are in the columns ``a`` and ``b``. Raises ImportError
        without pandas.
        """
        pandas = required("pandas", "Comparison.agreement")
        frame: pd.DataFrame = pandas.DataFrame(self._agreement, columns=list(_Agreement._fields))
        return frame

    def plot(self, *, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the shares of events, identifiers and labels that each policy refuses, as bars.

        Draws into ``ax``, or into a new figure, below a title if there is one, and returns the axes. Of more
        than six labels the legend says how many are not shown. Raises ImportError without matplotlib.
        """
        return plot_comparison(self, title=title, ax=ax)

    @property
    def _are_few(self) -> bool:
        return len(self.effects) <= _FEW

    def __repr__(self) -> str:
        agreements = [
            f"  {each.a} and {each.b}: both refuse {each.both:,}, only {each.a} {each.only_a:,}, "
            f"only {each.b} {each.only_b:,}"
            for each in self._agreement
        ]
        pairs = agreements if self._are_few else [f"  {len(agreements)} pairs of policies: see .agreement"]
        return "\n".join([super().__repr__(), *pairs])

    def _repr_html_(self) -> str:
        page = super()._repr_html_()
        if not self._agreement or not self._are_few:
            return page
        head = ("a", "b", "both refuse", "only a", "only b")
        return page + html_table("Agreement", "", head, self._agreement, left=(0, 1))


def compare(events: Events, policies: Mapping[str, object], *, progress: bool | None = None) -> Comparison:
    """Return what each of several policies would have done to the same events.

    Parameters
    ----------
    events
        What happened.
    policies
        Policies by names of your own, such as ``{"today": "100/minute", "new": "20/second; 600/hour"}``:
        limits as ``Limiter`` takes them, a Limiter, or ``(limits, penalty)``.
    progress
        Whether to show a bar (tqdm).

    Raises
    ------
    InvalidLimit, TypeError
        As ``Limiter`` does, for wrong limits.
    ValueError
        There are no policies or no events, or an event is too large for one call.
    """
    if not isinstance(policies, Mapping):
        raise TypeError(
            f'policies must be a dict such as {{"today": "100/minute"}}, not {short_repr(policies)}'
        )
    if not policies:
        raise ValueError('policies must not be empty: name one at least, as in {"today": "100/minute"}')
    # Policies of several kinds are a dict of objects to type checkers; what is wrong, limiter_of says.
    limiters = {str(name): policy_of(cast("PolicyLike", each)) for name, each in policies.items()}
    effects, passed = asked(events, limiters, progress)
    return Comparison(events, effects, ("policy",), passed)


def _agreement(count: int, a: str, passed_a: Bits, b: str, passed_b: Bits) -> _Agreement:
    pass_both, pass_a, pass_b = (_count(bits) for bits in (passed_a & passed_b, passed_a, passed_b))
    return _Agreement(a, b, count - (pass_a + pass_b - pass_both), pass_b - pass_both, pass_a - pass_both)


def _count(bits: Bits) -> int:
    return int(np.count_nonzero(np.unpackbits(bits)))
