"""The base classes of limits: immutable values, with a name, whole numbers and an object of the core."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self, TypeVar

from overlimit._core import KEY_NAME_RULE, is_key_name
from overlimit._core import Limit as CoreLimit
from overlimit._display import html_table
from overlimit._messages.initialised import check_initialised
from overlimit._messages.migration_hints import OF_LIMIT, missing
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.quantities import Seconds, duration_label, duration_words, portion, seconds

if TYPE_CHECKING:
    from overlimit._core import Calendar as CoreCalendar


class Value(ABC):
    """A value that compares, hashes, pickles and copies; its ``repr`` is the call that builds an equal one.

    A subclass sets its attributes once, at the end of its constructor, with ``object.__setattr__``.
    """

    __slots__ = ()

    @abstractmethod
    def _identity(self) -> tuple[object, ...]:
        """Return what two equal values have in common, and no others."""

    @abstractmethod
    def _call(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        """Return the constructor's positional and named arguments that build an equal value."""

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: cannot delete {attribute!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        positional, by_name = self._call()
        parts = [*map(written, positional), *(f"{key}={written(value)}" for key, value in by_name.items())]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        positional, by_name = self._call()
        names = list(inspect.signature(type(self)).parameters)[: len(positional)]
        cells = [written(argument) for argument in (*positional, *by_name.values())]
        text = "" if str(self) == repr(self) else str(self)
        return html_table(type(self).__name__, text, (*names, *by_name), [cells])

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        positional, by_name = self._call()
        return partial(type(self), *positional, **by_name), ()


def set_arguments(value: object, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments, which are attributes too, that are not as they are by default."""
    return {name: getattr(value, name) for name in defaults if getattr(value, name) != defaults[name]}


def written(argument: object) -> str:
    """Return an argument as Python reads it."""
    return "float('inf')" if argument == math.inf else repr(argument)


_IN_PHRASE = frozenset({"per", "burst", "capacity"})


@dataclass(frozen=True)
class Terms:
    """What a string or a tuple says about one limit, before an algorithm reads it; None: nothing."""

    limit: int
    per: Seconds
    precision: Seconds | None = None
    burst: int | None = None
    queue: int | None = None


class Limit(Value):
    """One rule: an algorithm with its numbers. An immutable value, validated when built.

    Two limits are equal when algorithm, numbers and name are: ``FixedWindow(5, 60)`` equals
    ``FixedWindow(5, timedelta(minutes=1))``. Limits hash, pickle and copy; ``repr`` is valid Python,
    and ``str`` is for people.
    """

    __slots__ = ("_core_limit", "_count", "_name", "_numbers")

    algorithm: ClassVar[str]
    """The algorithm's name, as in ``Limiter(algorithm=...)``."""

    optional_terms: ClassVar[frozenset[str]] = frozenset()
    """The optional fields of ``Terms`` that this algorithm understands."""

    _refills: ClassVar[bool] = False
    """Whether what is used up comes back little by little, as into a bucket."""
    _are_slots: ClassVar[bool] = False
    """Whether what it grants is held and given back, so that it is no rate."""

    _core_limit: CoreLimit
    _count: str | None
    _name: str | None
    _numbers: tuple[int, ...]

    # A type checker shall go on telling of attributes that are not there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            check_initialised(self, "_core_limit", name)
            raise missing(self, name, OF_LIMIT)

    @classmethod
    @abstractmethod
    def from_terms(cls, terms: Terms) -> Limit:
        """Build the limit that a string or a tuple describes."""

    @property
    def _kept_as(self) -> str:
        """The algorithm of the core, which tells states apart."""
        return self.algorithm

    @property
    def per(self) -> float:
        """The length of the period in seconds."""
        return seconds(self._period_us)

    @property
    def _period_us(self) -> int:
        return self._numbers[1]

    @property
    @abstractmethod
    def quota(self) -> int:
        """What a record that was never used grants: the limit, or what a bucket holds."""

    @property
    @abstractmethod
    def window(self) -> float:
        """Seconds after which a record whose quota was spent at one instant is as if never used."""

    def scaled(self, share: Fraction) -> Limit:
        """Return this limit for a share of the traffic, above 0 and up to 1: smaller numbers, same periods.

        Whole numbers are rounded down, but stay at least 1 if they were. Raises InvalidLimit where the result
        is too small to be kept exactly.
        """
        _, by_name = self._call()
        return type(self)(**{**by_name, **self._scaled_arguments(share)})._counted_as(self._count)

    def counted_by_numbers(self) -> Limit:
        """Return an equal limit whose state belongs to limits of these very numbers only."""
        import hashlib  # which loads OpenSSL

        identity = ascii((self._numbers, self._name))
        return self._counted_as(hashlib.sha256(identity.encode()).hexdigest()[:32])

    @property
    def name(self) -> str | None:
        """The name given, which is part of what identifies the limit's state; None without one."""
        return self._name

    @property
    def tag(self) -> int:
        """What tells its state from that of other limits of a policy; its numbers are no part of it."""
        return self._core_limit.tag

    @property
    def label(self) -> str:
        """The name, or without one a readable description such as ``120-per-60s``."""
        return self._name or self._description()

    def __str__(self) -> str:
        """Return the limit for people, such as ``10 per 1 minute burst 20``.

        In the grammar of limits, so that with the limit's algorithm it reads back as an equal limit; what the
        grammar cannot say follows in parentheses, which it refuses.
        """
        _, by_name = self._call()
        rest = [f"{key}={written(value)}" for key, value in by_name.items() if key not in _IN_PHRASE]
        return f"{self._phrase()} ({', '.join(rest)})" if rest else self._phrase()

    @abstractmethod
    def _phrase(self) -> str:
        """Return the rate and the period, and the burst or the capacity if there is one, for people."""

    @abstractmethod
    def _description(self) -> str:
        """Return the label of a limit without a name."""

    @abstractmethod
    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        """Return the constructor's arguments that are quantities, the positional ones among them, scaled."""

    @abstractmethod
    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        """Return the constructor's arguments, without the name, that build an equal limit."""

    def _seal(self, numbers: tuple[int, ...], name: str | None, calendar: CoreCalendar | None = None) -> None:
        """Set the value, once, at the end of a constructor."""
        if name is not None and not (isinstance(name, str) and is_key_name(name)):
            raise InvalidLimit(f"name must be {KEY_NAME_RULE}, not {short_repr(name)}")
        object.__setattr__(self, "_numbers", numbers)
        object.__setattr__(self, "_core_limit", CoreLimit(self._kept_as, numbers, name, calendar))
        object.__setattr__(self, "_count", None)
        object.__setattr__(self, "_name", name)

    def _counted_as(self, count: str | None) -> Limit:
        """Return an equal limit whose state is found by ``count`` instead of the name; None: as it is."""
        if count is None:
            return self
        positional, by_name = self._call()
        twin = type(self)(*positional, **{**by_name, "name": count})
        object.__setattr__(twin, "_count", count)
        object.__setattr__(twin, "_name", self._name)
        return twin

    def _identity(self) -> tuple[object, ...]:
        return self.algorithm, self._numbers, self._name

    def _call(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        positional, by_name = self._arguments()
        return positional, by_name if self._name is None else {**by_name, "name": self._name}


_PerPeriod = TypeVar("_PerPeriod", bound="LimitPerPeriod")


class LimitPerPeriod(Limit):
    """At most, or about, ``limit`` per ``per`` seconds; what that means is the algorithm's."""

    __slots__ = ()

    @abstractmethod
    def __init__(self, limit: int, per: Seconds) -> None:
        """Build the limit from its numbers."""

    @classmethod
    def from_terms(cls: type[_PerPeriod], terms: Terms) -> _PerPeriod:
        """Build the limit that a string or a tuple describes."""
        return cls(terms.limit, terms.per)

    @property
    def limit(self) -> int:
        """The most that is admitted per period, as the class says, in cost units."""
        return self._numbers[0]

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    def _description(self) -> str:
        return f"{self.limit}-per-{duration_label(self._period_us)}"

    def _phrase(self) -> str:
        return f"{self.limit} per {duration_words(self._period_us)}"

    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        return {"limit": portion(self.limit, share)}

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        return (self.limit,), {"per": self.per}
