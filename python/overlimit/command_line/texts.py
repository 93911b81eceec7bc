"""Texts from logs on a terminal, and figures as people read them."""

from __future__ import annotations

import math

__all__ = ["duration", "printable", "share"]


def printable(text: object) -> str:
    """Return a text without what would move the cursor of a terminal or change its colours."""
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else str(text)
    return "".join(each if each.isprintable() else _escaped(each) for each in shown)


def duration(seconds: float) -> str:
    """Return seconds as a text; infinity is ``never``, and what there is none of a dash."""
    if math.isnan(seconds):
        return "-"
    return "never" if math.isinf(seconds) else f"{seconds:,.6g} s"


def share(part: float) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "-" if math.isnan(part) else f"{part:.2%}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
