"""What is logged of limiters: that limits differ under one name, and what ``on_decision`` raises."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Hashable
from itertools import product
from typing import TYPE_CHECKING

from overlimit._forks import PerProcess
from overlimit.stores.kinds import state_key

if TYPE_CHECKING:
    from overlimit._core import Decision, Limiter
    from overlimit.decisions import Decisions
    from overlimit.limits import Limit

_log = logging.getLogger("overlimit")


class Namesakes:
    """The living limiters of one name on one store, numbered in the order they were made."""

    def __init__(self) -> None:
        self.made = 0
        self.number_of: weakref.WeakKeyDictionary[Limiter, int] = weakref.WeakKeyDictionary()

    def add(self, limiter: Limiter) -> None:
        """Note that a limiter has the name; it is held weakly."""
        self.made += 1
        self.number_of[limiter] = self.made

    def before(self, limiter: Limiter) -> list[Limiter]:
        """Return those made before this one, the newest first."""
        own = self.number_of[limiter]
        earlier = [(number, other) for other, number in self.number_of.items() if number < own]
        return [other for _, other in sorted(earlier, key=lambda numbered: -numbered[0])]


_groups: weakref.WeakValueDictionary[Hashable, Namesakes] = weakref.WeakValueDictionary()
"""The limiters by store and name; guarded by the lock, which a finalizer may take again."""
_lock = PerProcess(threading.RLock)


def register(limiter: Limiter, name: str) -> Namesakes:
    """Note that a limiter has this name on its store; it belongs to the group for as long as it holds it."""
    key = (state_key(limiter.store), name)
    with _lock():
        group = _groups.setdefault(key, Namesakes())
        group.add(limiter)
    return group


def one_of_each_name(has: Callable[[Limiter], bool]) -> list[Limiter]:
    """Return, of each name on each store, one of the living limiters for which a condition holds."""
    with _lock():
        groups = [list(group.number_of) for group in list(_groups.values())]
    found = (next(filter(has, group), None) for group in groups)
    return [limiter for limiter in found if limiter is not None]


def renew(limiter: Limiter, group: Namesakes) -> None:
    """Note that a limiter has other limits, as if it had just been made."""
    with _lock():
        group.add(limiter)


def forget(limiter: Limiter) -> None:
    """Compare a limiter with others no more, as one that they have replaced."""
    group: Namesakes | None = getattr(limiter, "_namesakes", None)
    if group is not None:
        with _lock():
            group.number_of.pop(limiter, None)


def _unlike(limiter: Limiter, other: Limiter) -> tuple[Limit, Limit] | None:
    """Return limits of both that share their counts and have different numbers, if there are any."""
    pairs = product(limiter.limits, other.limits)
    return next(((a, b) for a, b in pairs if a.tag == b.tag and a._numbers != b._numbers), None)


def compare(limiter: Limiter) -> None:
    """Warn if a limiter made earlier shares counts with this one under other numbers; the core calls this.

    It does so at the limiter's first call, and at the first after an update: a program that replaces a
    limiter, as a notebook's cell does when it runs again, has dropped the earlier one by then, and one that
    updates several has updated all.
    """
    group: Namesakes | None = getattr(limiter, "_namesakes", None)
    if group is None:
        return
    with _lock():
        earlier = group.before(limiter) if limiter in group.number_of else []
    for other in earlier:
        if pair := _unlike(limiter, other):
            mine, theirs = pair
            _log.warning(
                "two limiters named %r on %r share the counts of a limit but give it different numbers, %r "
                "and %r: each decides by its own; give both the same limit, or one of them another name=",
                limiter.name,
                limiter.store,
                theirs,
                mine,
            )
            return


def announce(on_decision: Callable[[Decision], object], decision: Decision) -> None:
    """Call ``on_decision`` with a decision, and log what it raises; the core calls this."""
    try:
        on_decision(decision)
    except Exception:
        _log.exception("on_decision failed for %r", decision)


def announced(limiter: Limiter, decisions: Decisions) -> Decisions:
    """Return decisions of which the limiter's ``on_decision`` has been told, if there is one."""
    if limiter.on_decision is not None:
        for decision in decisions:
            if decision is not None:
                announce(limiter.on_decision, decision)
    return decisions
