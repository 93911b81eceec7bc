"""Limits as an app has them: by method and path, several of them decided together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from overlimit import _core
from overlimit._core import ManualClock
from overlimit._messages.caller import warn_caller
from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit._patterns import Pattern, as_asked, check_reached
from overlimit.errors import InvalidLimit
from overlimit.limiter import UnregisteredLimiter
from overlimit.limits import Limit
from overlimit.limits_file import FilePath, FilePolicy, LimitsFile, read_limits_file
from overlimit.route_charges import LimitsRoutes, RouteCharge, RouteStep, RouteSteps, of_policy
from overlimit.simulation.events.events import Events
from overlimit.simulation.policies import PolicyLike, limiter_of
from overlimit.simulation.tables import Answers
from overlimit.stores import MemoryStore

_BYTES_PER_KEY = 4096
_LEAST_BYTES = 1 << 28
_UNLIMITED = 2**53
"""What remains for an event that no limit holds for."""


class RouteLimits:
    """Limits by method and path, as a middleware has them, for ``replay(events, RouteLimits(...))``.

    The events need an ``endpoint``, and mostly a ``method``. Each is decided in one step, by the limits of
    the first pattern that matches it, or the default ones, together with those of the application.

    Parameters
    ----------
    routes
        Limits by pattern, such as ``{"POST /orders": "5/second", "/api/*": "100/minute"}``: what `replay`
        takes as limits, counted for each pattern.
    default
        The limits of all that no pattern matches, which count together.
    application
        Limits of all events, whatever else holds for them.
    cost
        What an event costs under the limits of routes: a number for all of them, or a dict of numbers by
        pattern. By default, and by the limits of the application in any case, what the event says.

    Raises
    ------
    InvalidLimit
        Limits are wrong, or there are none.
    ValueError, TypeError
        A pattern is wrong or never reached, or a cost is no whole number from 0.
    """

    penalty = None

    def __init__(
        self,
        routes: Mapping[str, PolicyLike] | None = None,
        *,
        default: PolicyLike | None = None,
        application: PolicyLike | None = None,
        cost: int | Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(routes, Mapping | None):
            raise TypeError(
                f"routes must be a dict from patterns to limits, as {{'/login': '5/minute'}}, not "
                f"{short_repr(routes)}"
            )
        costs = cost if isinstance(cost, Mapping) else dict.fromkeys(routes or {}, cost)
        if others := set(costs) - set(routes or {}):
            raise ValueError(f"cost: {sorted(others)[0]!r} is none of the patterns of routes")
        named = {text: _policy(each, costs.get(text)) for text, each in (routes or {}).items()}
        self._set(named, *(None if each is None else _policy(each) for each in (default, application)))

    @classmethod
    def from_file(cls, path: FilePath) -> RouteLimits:
        """Return the limits of a file such as ``limits.toml``, as apps follow it.

        Raises OSError if it cannot be read, and InvalidLimit, naming line and key, for what is wrong in it,
        and for a file that has policies only, which hold where code names them.
        """
        file = read_limits_file(path)
        made = cls._of_file(file)
        if made is None:
            raise file.wrong((), "there are no limits of requests: write routes, default or application")
        return made

    @classmethod
    def _of_file(cls, file: LimitsFile | None) -> RouteLimits | None:
        """Return the limits of a file; None if there are none for any request, or no file."""
        if file is None or not (file.routes or file.default or file.application):
            return None
        made = cls.__new__(cls)
        made._set(file.routes, file.default, file.application)
        return made

    def _set(
        self, routes: Mapping[str, FilePolicy], default: FilePolicy | None, application: FilePolicy | None
    ) -> None:
        if not (routes or default or application):
            raise InvalidLimit("there are no limits: give some by routes, default= or application=")
        self._routes = [(Pattern.read(text), of_policy(text, text, each)) for text, each in routes.items()]
        check_reached(pattern for pattern, _ in self._routes)
        self._default = [of_policy("default", "default", default)] if default else []
        self._application = [of_policy("application", "application", application)] if application else []

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request."""
        if method == "OPTIONS":
            return ()
        asked = as_asked(method.upper(), path)
        found = next((charge for pattern, charge in self._routes if pattern.matches(*asked)), None)
        own = self._default if found is None else [found] if not found.role else [found, *self._default]
        charges = (*own, *self._application)
        return (RouteStep(charges),) if charges else ()

    @property
    def limits(self) -> tuple[Limit, ...]:
        """All limits: those of routes, the default ones, and those of the application."""
        charges = [*(charge for _, charge in self._routes), *self._default, *self._application]
        return tuple(limit for charge in charges for limit in charge.limits)

    def __repr__(self) -> str:
        named = {pattern.text: list(charge.limits) for pattern, charge in self._routes}
        more = {"default": self._default, "application": self._application}
        told = [f"{name}={list(each[0].limits)}" for name, each in more.items() if each]
        return f"RouteLimits({', '.join([repr(named), *told])})"


def _policy(given: PolicyLike, cost: int | None = None) -> FilePolicy:
    limiter, number = limiter_of(given), whole_number(cost)
    if cost is not None and (number is None or number < 0):
        raise (TypeError if number is None else ValueError)(
            f"cost must be a whole number from 0, not {short_repr(cost)}"
        )
    return FilePolicy(limiter.limits, limiter.penalty, number)


class _Counted(NamedTuple):
    """A policy, its limiter, and the place of its first limit among all."""

    charge: RouteCharge
    limiter: UnregisteredLimiter
    place: int


class _Step(NamedTuple):
    """What the core decides together: its rules, whether any of them enforces, and the policies of them."""

    rules: tuple[tuple[Any, ...], ...]
    enforces: bool
    in_shadow: bool
    counted: tuple[_Counted, ...]


class _Kind(NamedTuple):
    """What is decided for events that are alike: by the same route, with identifiers in the same columns."""

    steps: tuple[_Step, ...]
    whose: tuple[tuple[object, tuple[int, ...]], ...]
    """Which columns each of the rules counts; none for what is no column."""

    @property
    def only(self) -> _Counted | None:
        """The policy that decides alone, and refuses; None if there are others, or it counts nobody."""
        if len(self.steps) != 1 or len(self.steps[0].counted) != 1 or self.steps[0].in_shadow:
            return None
        (counted,) = self.steps[0].counted
        return None if counted.charge.role or not self.whose[0][1] else counted


class _Alone:
    """Events that one policy decides alone, replayed by the core."""

    def __init__(
        self,
        events: Events,
        rows: npt.NDArray[np.int64],
        counted: _Counted,
        codes: Mapping[int, npt.NDArray[np.int32]],
    ) -> None:
        self._rows, self._counted = rows, counted
        self._columns, self._codes = list(codes), list(codes.values())
        labels = (events._columns[place].labels for place in codes)
        self._core = _core.Replay(counted.limiter, list(map(len, labels)))
        self._times = np.ascontiguousarray(events._times[rows])
        cost = counted.charge.cost
        self._costs = np.ascontiguousarray(events._costs[rows]) if cost is None else np.full(len(rows), cost)
        self._places = rows if events._order is None else events._order[rows]

    def run(self, answers: Mapping[str, npt.NDArray[Any]], first: int, last: int) -> None:
        """Decide those of the events from first to before last, and write the answers."""
        begin, end = np.searchsorted(self._rows, [first, last])
        own = {name: np.empty(len(self._rows), column.dtype) for name, column in answers.items()}
        self._core.run(self._times, self._codes, self._costs, None, own, begin, end)
        for name, column in own.items():
            found = column[begin:end]
            if name == "limit":
                found = found + self._counted.place
            elif name == "identifier":
                found = np.array(self._columns, np.int16)[found]
            answers[name][self._places[begin:end]] = found


class RouteReplay:
    """Decides events by the engine of apps in memory, each at its own time; in place of a replay of the core.

    It begins with no counts, and has those of the identifiers of all events then. What a policy decides alone
    the core replays, which is faster.
    """

    penalty = None

    def __init__(self, source: LimitsRoutes, events: Events) -> None:
        """Find out what is decided for the events; raise ValueError if they do not tell where they went."""
        if "endpoint" not in events._facts:
            raise ValueError(
                "these events do not say where they went, so no limits of routes hold for them: give them "
                "endpoint= and method=, as read_log(..., endpoint='path', method='method')"
            )
        self._events = events
        self._clock = ManualClock(0.0)
        self._store = MemoryStore(*_room_for(events))
        self._counted: dict[object, _Counted] = {}
        self._names: dict[object, str] = {}
        self._labels = [column.labels.tolist() for column in events._columns]
        asked, present, self._kind_of = _alike(events)
        steps = [source.route_charges(*each) for each in asked]
        self._kinds = [self._kind(steps[which], columns) for which, columns in present]
        self._alone = self._replayed_alone()
        _warn_of_unknown(steps, {column.name for column in events._columns})

    @property
    def limits(self) -> tuple[Limit, ...]:
        """All limits that may have been asked, those of a policy in a row."""
        return tuple(limit for each in self._counted.values() for limit in each.charge.limits)

    @property
    def titles(self) -> list[str]:
        """What each of the limits is called."""
        return [
            f"{each.charge.title}: {limit}" for each in self._counted.values() for limit in each.charge.limits
        ]

    def _kind(self, steps: RouteSteps, columns: tuple[int, ...]) -> _Kind:
        whose: dict[object, tuple[int, ...]] = {}
        made = []
        for step in steps:
            held = [
                each
                for each in step.charges
                if self._columns_of(each, columns) or each.whose == () or not each.skips_anonymous
            ]
            for charge in held:
                whose[charge.whose] = self._columns_of(charge, columns)
            counted = tuple(map(self._count, held))
            # int returns the cost of the event, which is the argument of functions.
            rules = tuple(
                (limiter, charge.whose, int if charge.cost is None else charge.cost, charge.role)
                for charge, limiter, _ in counted
            )
            if held:
                enforces = any(not charge.role for charge in held)
                made.append(_Step(rules, enforces, step.in_shadow, counted))
        return _Kind(tuple(made), tuple(whose.items()))

    def _columns_of(self, charge: RouteCharge, present: tuple[int, ...]) -> tuple[int, ...]:
        """Return the columns whose identifiers a policy counts, of those that events have."""
        if charge.whose is None:
            return present
        names = [column.name for column in self._events._columns]
        if charge.whose and names == [None]:
            return present
        there = {names[place]: place for place in present}
        first = (next((there[kind] for kind in each if kind in there), None) for each in charge.whose)
        return tuple(dict.fromkeys(place for place in first if place is not None))

    def _count(self, charge: RouteCharge) -> _Counted:
        key = charge.counted_as, charge.limits, charge.penalty
        if key not in self._counted:
            name = self._names.setdefault(charge.counted_as, str(len(self._names)))
            limiter = UnregisteredLimiter(
                list(charge.limits), name=name, store=self._store, clock=self._clock, penalty=charge.penalty
            )
            self._counted[key] = _Counted(charge, limiter, len(self.limits))
        return self._counted[key]._replace(charge=charge)

    def _replayed_alone(self) -> list[_Alone]:
        """Return what the core replays: the policies that decide alone wherever they do."""
        found: dict[object, list[int]] = {}
        ways: dict[object, set[_Counted | None]] = {}
        for number, kind in enumerate(self._kinds):
            for count in {each.charge.counted_as for step in kind.steps for each in step.counted}:
                found.setdefault(count, []).append(number)
                ways.setdefault(count, set()).add(kind.only)
        alone = []
        self._is_left = np.ones(len(self._kinds), bool)
        for count, numbers in found.items():
            only, *others = ways[count]
            if only is None or others:
                continue
            self._is_left[numbers] = False
            rows = np.flatnonzero(np.isin(self._kind_of, numbers))
            alone.append(_Alone(self._events, rows, only, self._codes_of(rows, numbers)))
        return alone

    def _codes_of(self, rows: npt.NDArray[np.int64], kinds: list[int]) -> dict[int, npt.NDArray[np.int32]]:
        """Return the codes of events by the columns that these kinds count; -1 where they leave it out."""
        counting: dict[int, list[int]] = {}
        for kind in kinds:
            for place in self._kinds[kind].whose[0][1]:
                counting.setdefault(place, []).append(kind)
        kind_of = self._kind_of[rows]
        return {
            place: np.where(np.isin(kind_of, counting[place]), self._events._columns[place].codes[rows], -1)
            for place in sorted(counting)
        }

    def run(
        self,
        times: npt.NDArray[np.int64],
        codes: list[npt.NDArray[np.int32]],
        costs: npt.NDArray[np.int64] | None,
        places: npt.NDArray[np.int64] | None,
        answers: Mapping[str, npt.NDArray[Any]],
        first: int,
        last: int,
    ) -> None:
        """Decide the events from first to before last, and write the answers."""
        for each in self._alone:
            each.run(answers, first, last)
        left = first + np.flatnonzero(self._is_left[self._kind_of[first:last]])
        rows = left if places is None else places[left]
        spent = [1] * len(left) if costs is None else costs[left].tolist()
        labels, clock = self._labels, self._clock
        columns = [column[left].tolist() for column in codes]
        numbers = self._kind_of[left].tolist()
        for k, (row, time) in enumerate(zip(rows.tolist(), times[left].tolist(), strict=True)):
            kind = self._kinds[numbers[k]]
            known: dict[object, Any] = {}
            for whose, which in kind.whose:
                nobody = ("all",) if whose == () else ("anonymous",)
                known[whose] = tuple([labels[c][columns[c][k]] for c in which]) if which else nobody
            clock.set(time / 1e6)
            _decide(kind, known, spent[k], answers, row)
        if self._store.stats()["crowded"]:
            raise MemoryError("the counts of so many identifiers need more memory: ask about fewer events")


def _decide(kind: _Kind, known: dict[object, Any], cost: int, answers: Mapping[str, Any], row: int) -> None:
    """Decide one event, step by step as apps do, and write what was answered."""
    shown: tuple[_Step, _core.Decision] | None = None
    passed: list[tuple[_Step, _core.Decision]] = []
    allowed = True
    for step in kind.steps:
        decision = _core._decide_request(step.rules, known, tuple, (cost,))  # type: ignore[arg-type]
        if not decision and not step.in_shadow and (step.enforces or decision._refused_by_meta):
            shown, allowed = (step, decision), False
            for before, charged in passed:
                before.rules[0][0].refund(charged)
            break
        passed.append((step, decision))
        if shown is None or decision.remaining < shown[1].remaining:
            shown = step, decision
    answers["allowed"][row] = allowed
    if len(answers) > 1:
        for name, value in _values(kind, shown, allowed).items():
            if name in answers:
                answers[name][row] = value


def _values(kind: _Kind, shown: tuple[_Step, _core.Decision] | None, allowed: bool) -> dict[str, float]:
    """Return the columns of an event; without a decision nothing limits it."""
    values: dict[str, float] = {"status": 0, "remaining": _UNLIMITED, "limit": -1, "identifier": -1}
    values |= {"retry_after": 0.0, "reset_after": 0.0, "delay": 0.0}
    if shown is None:
        return values
    step, decision = shown
    place, column = _binding(kind, step, decision)
    values |= {"remaining": decision.remaining, "reset_after": decision.reset_after, "delay": decision.delay}
    values |= {"limit": place, "identifier": column}
    if not allowed:
        values |= {"status": Answers.STATUSES.index(decision.status), "retry_after": decision.retry_after}
    return values


def _binding(kind: _Kind, step: _Step, decision: _core.Decision) -> tuple[int, int]:
    """Return the place of the limit that binds, and the column of the identifier."""
    whose, row = dict(kind.whose), 0
    best, found = -1, (-1, -1)
    for each in step.counted:
        for column in whose[each.charge.whose] or (-1,):
            for number in range(len(each.charge.limits)):
                pair = decision.details[row]
                row += 1
                if (pair.limit, pair.identifier) == (decision.limit, decision.identifier):
                    alike = (pair.allowed == decision.allowed) + (pair.retry_after == decision.retry_after)
                    if alike > best:  # of equal limits of one identifier the one that says the same
                        best, found = alike, (each.place + number, column)
    return found


def _warn_of_unknown(steps: list[RouteSteps], columns: set[str | None]) -> None:
    flat = [step for each in steps for step in each]
    unknown = dict.fromkeys(told for step in flat for told in step.unknown)
    if None not in columns:
        unknown |= dict.fromkeys(told for step in flat for told in _without_columns(step, columns))
    if unknown:
        warn_caller(f"a log does not tell, and this replay leaves out: {'; '.join(unknown)}")


def _without_columns(step: RouteStep, columns: set[str | None]) -> Iterator[str]:
    """Say which policies count what the events have no column of."""
    for charge in step.charges:
        kinds = {kind for each in charge.whose or () for kind in each}
        if kinds and columns.isdisjoint(kinds):
            named = " or ".join(map(repr, sorted(kinds)))
            yield f"whom {charge.title!r} counts, as the events have no column {named}"


def _room_for(events: Events) -> tuple[int, int]:
    """Return how many keys, and how many bytes, a store needs for the counts of all identifiers."""
    keys = 1024 + 8 * sum(len(column.labels) for column in events._columns)
    return keys, max(_LEAST_BYTES, keys * _BYTES_PER_KEY)


def _alike(
    events: Events,
) -> tuple[list[tuple[str, str]], list[tuple[int, tuple[int, ...]]], npt.NDArray[np.int64]]:
    """Return the methods and paths, what there is of them by columns, and which of that each event is."""
    count, bits = len(events), len(events._columns)
    endpoint, method = events._facts["endpoint"], events._facts.get("method")
    methods = np.full(count, -1, np.int64) if method is None else method.codes.astype(np.int64)
    width = 2 + (0 if method is None else len(method.labels))
    masks = sum(
        ((column.codes >= 0).astype(np.int64) << place for place, column in enumerate(events._columns)),
        start=np.zeros(count, np.int64),
    )
    requests, which = np.unique(
        (endpoint.codes.astype(np.int64) + 1) * width + methods + 1, return_inverse=True
    )
    kinds, kind_of = np.unique(which.astype(np.int64) << bits | masks, return_inverse=True)
    asked = [
        (_text(method, number % width, "GET").upper(), unquote(_text(endpoint, number // width, "")))
        for number in requests.tolist()
    ]
    present = [
        (kind >> bits, tuple(place for place in range(bits) if kind >> place & 1)) for kind in kinds.tolist()
    ]
    return asked, present, kind_of


def _text(column: Any, number: int, missing: str) -> str:
    if column is None or not number:
        return missing
    label = column.labels[number - 1]
    return label.decode("latin-1") if isinstance(label, bytes) else str(label)
