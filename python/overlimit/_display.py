"""How decisions look in notebooks."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit._core import Decision

_COLUMNS = ("identifier", "limit", "allowed", "remaining", "retry after", "reset after")


def decision_html(decision: Decision) -> str:
    """Return a decision as an HTML table, one row per (identifier, limit)."""
    rows = "".join(
        _row(
            detail.identifier,
            detail.limit,
            "yes" if detail.allowed else "no",
            detail.remaining,
            _seconds(detail.retry_after),
            _seconds(detail.reset_after),
        )
        for detail in decision.details
    )
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    source = "" if decision.source == "store" else f" ({decision.source})"
    return f"<b>{decision.status}</b>{source}<table><tr>{head}</tr>{rows}</table>"


def _row(*cells: object) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(_printable(cell))}</td>" for cell in cells) + "</tr>"


def _printable(cell: object) -> str:
    return str(cell).encode("utf-8", "backslashreplace").decode()


def _seconds(duration: float) -> str:
    return "never" if math.isinf(duration) else f"{duration:g} s"
