"""What options may be: whole numbers, words for a bool, or nothing that sets them."""

from __future__ import annotations

import operator
from typing import Any

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
