"""Several budgets in a row: the first that admits a call is charged, and no other.

A refusal charges nothing, so entries are asked one after the other, whatever stores they are on. Nobody is
told of what an entry refuses while another may still admit the call, and who is refused so has gone over no
limit: the call is one decision, that of the entry which admits it, or the refusal that ends first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from overlimit import _core, _steps
from overlimit._messages.texts import short_repr
from overlimit.clocks import END_US
from overlimit.waiting.acquiring import (
    Caller,
    Charge,
    Charges,
    Subject,
    acquiring_first,
    takes_one_list,
    thread_wait,
    urgency_of,
)
from overlimit.waiting.queues import QueuedLimiter

if TYPE_CHECKING:
    from overlimit._core import Decision

Entry: TypeAlias = "Charge | list[Charge]"
"""What `hit_first` takes: a charge as `hit_all` takes it, or a list of those that must admit together."""

MOST_ENTRIES = 16
WAITS = END_US / 1e6
"""The patience of one that may still pass, so that no penalty locks it: no delay is longer."""


def hit_first(entries: Iterable[Entry], /) -> Decision:
    """Charge the first of several entries that admits the call, and no other.

    Each entry is asked after the one before it has refused, on whatever store and clock it is. What all
    entries refuse charges nothing. ``on_error`` of an entry's limiters answers for it where its store fails.

    Parameters
    ----------
    entries
        In order, 1 to 16: tuples (limiter, identifier[, cost]), as for `hit_all`, or lists of tuples that
        must admit together: ``hit_first([(plan, "user:42"), (credits, "user:42", 3)])``.

    Returns
    -------
    Decision
        That of the entry that admitted, whose place ``choice`` says; any of its limiters refunds it. Or the
        refusal with the earliest ``retry_after``. Only that one is counted for metrics and told to
        ``on_decision``. A penalty locks nobody unless it is the last entry that refuses.

    Raises
    ------
    ValueError, TypeError
        A wrong entry, before any is asked.
    StoreError
        The store of an entry fails and its ``on_error`` is ``"raise"``: no entry has been charged, unless
        ``maybe_charged`` says so of this one.
    """
    return _steps.run_calls(choosing(entries_in(entries, "hit_first"), _core._try_all))


@takes_one_list("entries")
def acquire_first(
    entries: Iterable[Entry],
    timeout: float | None = 5.0,
    *,
    priority: int = 0,
    patience: float | None = None,
) -> Decision:
    """Wait until the first of several entries admits the call, and charge it and no other.

    It is to `hit_first` what ``Limiter.acquire`` is to ``hit``. The caller waits in the queues of all entries
    at once; where several would admit it at the same time, it is charged to the first of them. An entry that
    admits with a delay does so when the delay is over: it is charged if no other is known to come sooner.

    Parameters
    ----------
    entries
        As for `hit_first`, of limiters on one clock.
    timeout
        The longest wait in seconds, by the limiters' clock, delay included. None: as long as it takes.
    priority, patience
        As for ``Limiter.acquire``.

    Returns
    -------
    Decision
        As `hit_first`, with its delay over; or, once the timeout is known to be too short, the refusal.

    Raises
    ------
    ValueError, TypeError, StoreError
        As `hit_first`, each of whose attempts follows ``on_error``; also for a timeout that is no number or
        negative.
    """
    waits = [_wait(place, charges) for place, charges in enumerate(entries_on_one_clock(entries))]
    return _steps.run_calls(acquiring_first(waits, timeout, urgency_of(priority, patience)))


def _wait(place: int, charges: Charges) -> tuple[list[Subject], Caller]:
    note = partial(note_refusal, charges)
    return thread_wait(charges, lambda patience: _core._try_all(charges, patience, place), note)


def choosing(
    entries: Sequence[Charges], ask: Callable[[Charges, float | None, int], Any]
) -> _steps.Steps[Callable[[], Any], Decision]:
    """Ask one entry after the other until one admits the call, or return the refusal that ends first."""
    refusals: list[Decision] = []
    for place, charges in enumerate(entries):
        patience = None if place == len(entries) - 1 else WAITS
        decision: Decision = yield partial(ask, charges, patience, place)
        if decision:
            return decision
        refusals.append(decision)
    place = min(range(len(refusals)), key=lambda each: refusals[each].retry_after)
    note_refusal(entries[place], refusals[place])
    return refusals[place]


def note_refusal(charges: Charges, refusal: Decision) -> None:
    """Count a refusal of one entry with which a call ends, and tell its limiters."""
    _core._note_refusal(tuple(limiter for limiter, *_ in charges), refusal)


def entries_in(entries: Iterable[Any], function: str) -> list[Charges]:
    """Return the charges of all entries; raise what `hit_all` raises for the first that is wrong."""
    if isinstance(entries, str | bytes) or not hasattr(entries, "__iter__"):
        raise TypeError(
            f"entries must be a list, as in {function}([(limiter, 'user:42'), (other, 'user:42', 3)]), not "
            f"{short_repr(entries)}"
        )
    given = list(islice(entries, MOST_ENTRIES + 1))
    if not 1 <= len(given) <= MOST_ENTRIES:
        raise ValueError(f"entries must be 1 to {MOST_ENTRIES}, not {len(given) or 'none'}")
    return [_core._checked_charges([each] if isinstance(each, tuple) else each, function) for each in given]


def entries_on_one_clock(entries: Iterable[Any]) -> list[Charges]:
    """Return the charges of all entries; raise ValueError also for those that do not go by one clock."""
    checked = entries_in(entries, "acquire_first")
    clocks = [charges[0][0].clock for charges in checked]
    if any(clock != clocks[0] for clock in clocks):
        raise ValueError(
            "acquire_first waits by one clock, and these limiters have different ones: give them the same "
            "clock="
        )
    return checked


class FirstOf:
    """Budgets of which the first that admits a request is charged, for the ``limits=`` of web apps."""

    __slots__ = ("budgets",)

    def __init__(self, budgets: tuple[Any, ...]) -> None:
        self.budgets = budgets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FirstOf) and self.budgets == other.budgets

    def __hash__(self) -> int:
        return hash(self.budgets)

    def __repr__(self) -> str:
        return f"first_of({', '.join(map(repr, self.budgets))})"


def first_of(*budgets: Any) -> FirstOf:
    """Return limits for a web app of which the first budget that admits a request is charged, and no other.

    ``limits=first_of("100/minute", credits)``. The ``RateLimit`` fields show the budget that decided, and a
    refusal says when the first of them admits the request again.

    Parameters
    ----------
    budgets
        In order, 2 to 16: limits, such as a string, a limit or a list of limits that must admit together, or
        a function that returns them during a request; or a `Limiter` with a name, which other code may use
        as well, on the store and the clock of the RateLimit.

    Raises
    ------
    ValueError, TypeError
        Another number of budgets, or one that is none.
    """
    if not 2 <= len(budgets) <= MOST_ENTRIES:
        raise ValueError(f"first_of takes 2 to {MOST_ENTRIES} budgets, not {len(budgets)}")
    for budget in budgets:
        _check_budget(budget)
    return FirstOf(tuple(tuple(each) if isinstance(each, list) else each for each in budgets))


def _check_budget(budget: object) -> None:
    def refuse(instead: str) -> NoReturn:
        raise TypeError(f"a budget of first_of must be limits or a Limiter with a name, not {instead}")

    if isinstance(budget, FirstOf):
        refuse("another first_of: write all budgets in one")
    if isinstance(budget, QueuedLimiter) and budget.name is None:
        refuse("one without: write Limiter(..., name='credits')")
    if not isinstance(budget, QueuedLimiter | str | list | tuple) and not callable(budget):
        from overlimit.limits import Limit

        if not isinstance(budget, Limit):
            refuse(short_repr(budget))
