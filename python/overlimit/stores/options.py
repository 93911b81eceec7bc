"""The options of stores, which are strings in a URL."""

from __future__ import annotations

from typing import Any, Literal

from overlimit._messages.texts import short_repr
from overlimit._options import TRUTH, whole_number

_HASH_TAGS: dict[Any, Literal["none", "policy", "prefix"]] = {
    False: "none",
    True: "policy",
    "policy": "policy",
    "prefix": "prefix",
}


def hash_tag_of(value: Any) -> Literal["none", "policy", "prefix"]:
    """Return the core's word for ``hash_tag``; raises ValueError."""
    given = TRUTH.get(value.lower(), value) if isinstance(value, str) else value
    if not isinstance(given, bool | str) or given not in _HASH_TAGS:
        raise ValueError(f"hash_tag must be False, 'policy' (the same as True) or 'prefix', not {value!r}")
    return _HASH_TAGS[given]


def timeout_us_of(timeout: float | str) -> int:
    """Return a timeout of seconds in microseconds; raises ValueError unless it is above 0."""
    try:
        microseconds = round(float(timeout) * 1e6)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}") from None
    if not 0 < microseconds < 1 << 49:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    return microseconds


def timeout_us_given(timeout: Any) -> int:
    """Return a timeout that is an argument in microseconds; raises TypeError for text and bools."""
    check_is_seconds(timeout)
    return timeout_us_of(timeout)


def check_is_seconds(timeout: object) -> None:
    """Raise TypeError for a timeout that is text, which only a URL has, or a bool."""
    if isinstance(timeout, bool | str):
        raise TypeError(f"timeout must be a number of seconds above 0, not {short_repr(timeout)}")


def size_of(value: object, argument: str) -> int:
    """Return a whole number; which ones there are, the core knows."""
    size = whole_number(value)
    if size is None:
        example = "1_000_000" if argument == "max_keys" else "256 << 20 for 256 MiB"
        raise TypeError(f"{argument} must be a whole number, such as {example}, not {short_repr(value)}")
    return size
