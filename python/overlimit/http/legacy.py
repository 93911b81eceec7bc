"""The ``X-RateLimit-*`` fields that were common before the IETF draft.

No document defines them. Here they are those of one limit, the one that binds: its quota, what is left, and
at which second of the Unix epoch that changes.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

__all__ = ["Answer", "HeaderNames", "Quota", "checked_header_name", "legacy_fields"]

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECOND_US = 1_000_000


class _Names(NamedTuple):
    limit: str = "X-RateLimit-Limit"
    remaining: str = "X-RateLimit-Remaining"
    reset: str = "X-RateLimit-Reset"
    retry_after: str = "Retry-After"


class _PointsToFields(type):
    # A type checker shall go on telling of attributes that are not there.
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> object:
            instead = f": write HeaderNames({name.lower()}=...)" if name.lower() in cls._fields else ""
            message = f"type object {cls.__name__!r} has no attribute {name!r}{instead}"
            raise AttributeError(message, name=name, obj=cls)


class HeaderNames(_Names, metaclass=_PointsToFields):
    """What the fields are called."""

    __slots__ = ()


class Quota(Protocol):
    """The one thing that is shown of a limit."""

    @property
    def quota(self) -> int:
        """What a record that was never used grants."""


class Answer(Protocol):
    """What is shown of a decision; times in seconds."""

    @property
    def allowed(self) -> bool:
        """Whether the request passed."""

    @property
    def limit(self) -> Quota | None:
        """The limit that binds; None when no store answered."""

    @property
    def remaining(self) -> int:
        """What every limit still grants."""

    @property
    def retry_after(self) -> float:
        """Until the same request can pass; infinite for never."""

    @property
    def reset_after(self) -> float:
        """Until nothing is left of what was spent of the binding limit."""

    @property
    def time(self) -> float:
        """When it was decided, since the Unix epoch."""


_USUAL_NAMES = HeaderNames()


def legacy_fields(decision: Answer, names: HeaderNames = _USUAL_NAMES) -> list[tuple[str, str]]:
    """Return the fields of the limit that binds, as (name, value); none when no store answered.

    Reset is in seconds since the Unix epoch, rounded up: after a refusal when the same request passes, else
    when the limit is as if never used. It's absent when waiting cannot help. ``Retry-After`` is not among
    them: it belongs to every refusal, whatever fields are sent.
    """
    if decision.limit is None:
        return []
    fields = [(names.limit, str(decision.limit.quota)), (names.remaining, str(decision.remaining))]
    seconds = decision.reset_after if decision.allowed else decision.retry_after
    if seconds != math.inf:
        fields.append((names.reset, str(_epoch_second(decision.time, seconds))))
    return fields


def checked_header_name(value: object) -> str:
    """Return ``value`` if it can be the name of a field (RFC 9110, section 5.6.2); else raise ValueError."""
    if not isinstance(value, str) or _TOKEN.fullmatch(value) is None:
        raise ValueError(f"the name of a header is of A-Z a-z 0-9 - _ and the like, not {value!r}")
    return value


def _epoch_second(now: float, seconds: float) -> int:
    # In whole microseconds: a float so far from zero is not exact, and rounding up would add a second.
    return -(-(round(now * _SECOND_US) + round(seconds * _SECOND_US)) // _SECOND_US)
