"""Whose code led here: what a warning and a log record should point at."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def frames_to_caller() -> int:
    """Return the ``stacklevel`` which, given by the function that asks, names the line outside this package.

    That is the call of ``RateLimit(...)`` or ``init_app``, however deep what warns is.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def warn_caller(message: str) -> None:
    """Warn, and point at the code outside this package that made the call."""
    warnings.warn(message, stacklevel=frames_to_caller())
