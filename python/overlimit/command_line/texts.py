"""Figures as people read them."""

from __future__ import annotations

import math

from overlimit._messages.texts import percent

__all__ = ["duration", "share"]


def duration(seconds: float) -> str:
    """Return seconds as a text; infinity is ``never``, and what there is none of a dash."""
    if math.isnan(seconds):
        return "-"
    return "never" if math.isinf(seconds) else f"{seconds:,.6g} s"


def share(part: float) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "-" if math.isnan(part) else percent(part)
