"""What options may be: whole numbers, words for a bool, or nothing that sets them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

from overlimit._messages.texts import short_repr

if TYPE_CHECKING:
    import re

TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def is_set(value: object) -> bool:
    """Whether an option has a value other than None, an empty string and an empty collection."""
    return not (value is None or (isinstance(value, (str, list, tuple, dict)) and len(value) == 0))


def is_utf8(text: str) -> bool:
    """Whether a string can be encoded as UTF-8, which one with a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_number(value: object) -> int | None:
    """Return a whole number of any type as an int; None for a bool and for what is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def truth_of(name: str, value: Any) -> bool:
    """Return a bool, given as one or as a word such as ``"yes"``; raises ValueError naming the option."""
    truth = TRUTH.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return truth


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


def seconds_us_of(name: str, seconds: float | str, most: int) -> int:
    """Return an option of 0 to ``most`` seconds in microseconds; ValueError and TypeError name it."""
    if isinstance(seconds, bool):
        raise TypeError(f"{name} must be a number of seconds, not {seconds!r}")
    try:
        microseconds = round(float(seconds) * 1e6)
    except (OverflowError, TypeError, ValueError):
        microseconds = -1
    if microseconds == 0 and float(seconds) != 0:
        raise ValueError(f"{name} must be 0 or at least a microsecond, 1e-6, not {short_repr(seconds)}")
    if not 0 <= microseconds <= most * 1_000_000:
        raise ValueError(f"{name} must be from 0 to {most} seconds, not {short_repr(seconds)}")
    return microseconds


_SIZES = {"max_keys": "1_000_000", "max_bytes": "256 << 20 for 256 MiB", "max_connections": "10"}


def size_of(value: object, argument: str) -> int:
    """Return a whole number; which ones there are, the core knows."""
    size = whole_number(value)
    if size is None:
        raise TypeError(
            f"{argument} must be a whole number, such as {_SIZES[argument]}, not {short_repr(value)}"
        )
    return size


def text_of(name: str, value: object, pattern: re.Pattern[str], example: str, wanted: str) -> str:
    """Return an option that is text of a form; raises TypeError, or ValueError for what is not as wanted."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str such as {example}, not {short_repr(value)}")
    if pattern.fullmatch(value) is None:
        raise ValueError(f"{name} must be {wanted}, not {short_repr(value)}")
    return value
