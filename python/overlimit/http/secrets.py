"""What errors may show of a configuration: no password of a URL, wherever the URL was put."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["hides_passwords", "without_passwords"]

P = ParamSpec("P")
R = TypeVar("R")

_HIDDEN = "***"
# Up to the last "@", since a password that is not percent-encoded may hold anything.
_USER_OF_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://).*@", re.DOTALL)
_USER_OF_ADDRESS = re.compile(r"[^\s'\"/]*:[^\s'\"/]*@")
_IN_QUERY = re.compile(r"((?:password|username)=)[^&\s'\"]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return the text with ``***`` in the place of what URLs in it say before their ``@``."""
    text = _USER_OF_URL.sub(rf"\1{_HIDDEN}@", text)
    return _IN_QUERY.sub(rf"\1{_HIDDEN}", _USER_OF_ADDRESS.sub(f"{_HIDDEN}@", text))


def hides_passwords(function: Callable[P, R]) -> Callable[P, R]:
    """Make errors about what the function was given show no password."""

    @wraps(function)
    def hiding(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            error.args = tuple(without_passwords(arg) if isinstance(arg, str) else arg for arg in error.args)
            raise

    return hiding
