"""How decisions, limiters and limits look in notebooks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from overlimit._messages.texts import printable, seconds_text

if TYPE_CHECKING:
    from overlimit import Limiter
    from overlimit._core import Decision
    from overlimit.decisions import Decisions, Detail
    from overlimit.limits.limit import Value

_TABLE = "border-collapse:collapse;margin:0.3em 0;font-variant-numeric:tabular-nums"
_CELL = (
    "padding:0.2em 0.8em 0.2em 0;border:0;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 30%,transparent);"
)
_TEXT = _CELL + "text-align:left"
_NUMBER = _CELL + "text-align:right"
# A table that is too wide for its place is scrolled.
_WHOLE = "overflow-x:auto"


def html_table(
    title: str,
    text: str,
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    left: Collection[int] = (0,),
) -> str:
    """Return a title, a text beside it and a table below; columns in ``left`` are aligned as texts are."""
    beside = f": {_escaped(text)}" if text else ""
    heading = f"<thead>{_row('th', head, left)}</thead>"
    body = "".join(_row("td", row, left) for row in rows)
    table = f'<table style="{_TABLE}">{heading}<tbody>{body}</tbody></table>'
    return f'<div style="{_WHOLE}"><b>{_escaped(title)}</b>{beside}{table}</div>'


def _row(tag: str, cells: Sequence[object], left: Collection[int]) -> str:
    styles = [_TEXT if k in left else _NUMBER for k in range(len(cells))]
    shown = [
        f'<{tag} style="{style}">{_escaped(cell)}</{tag}>' for style, cell in zip(styles, cells, strict=True)
    ]
    return f"<tr>{''.join(shown)}</tr>"


def _escaped(cell: object) -> str:
    from html import escape

    return escape(printable(f"{cell:,}" if isinstance(cell, int) else cell))


_DETAIL = ("identifier", "limit", "allowed", "remaining", "retry after", "reset after")


def decision_html(decision: Decision) -> str:
    """Return a decision as an HTML table, one row per (identifier, limit)."""
    source = "" if decision.source == "store" else f" ({decision.source})"
    is_never = math.isinf(decision.retry_after)
    retry = "can never pass" if is_never else f"retry after {seconds_text(decision.retry_after)}"
    bound_by = f"{decision.limit!r} of {printable(decision.identifier)}"
    binding = f"{decision.remaining:,} remaining, {retry}, by {bound_by}"
    rows = [_cells(detail) for detail in decision.details]
    return html_table(f"Decision {decision.status}{source}", binding, _DETAIL, rows, left=(0, 1, 2))


def decisions_html(decisions: Decisions, counts: dict[str, int]) -> str:
    """Return how many decisions ended how, one row per status."""
    under = f"{len(decisions):,} under {'; '.join(map(str, decisions.limits))}"
    return html_table("Decisions", under, ("status", "decisions"), list(counts.items()))


def limiter_html(limiter: Limiter, options: dict[str, object]) -> str:
    """Return a limiter as an HTML table, one row per limit, with its options beside."""
    rows = [(limit.algorithm, limit, repr(limit)) for limit in limiter.limits]
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return html_table("Limiter", text, ("algorithm", "limit", "as a call"), rows, left=(0, 1, 2))


def value_html(value: Value) -> str:
    """Return a limit or a penalty as an HTML table, one column per argument of the call that builds it."""
    from overlimit.limits.limit import written

    positional, by_name = value._call()
    names = list(inspect.signature(type(value)).parameters)[: len(positional)]
    cells = [written(argument) for argument in (*positional, *by_name.values())]
    text = "" if str(value) == repr(value) else str(value)
    return html_table(type(value).__name__, text, (*names, *by_name), [cells])


def _cells(detail: Detail) -> tuple[object, ...]:
    return (
        detail.identifier,
        detail.limit,
        "yes" if detail.allowed else "no",
        detail.remaining,
        seconds_text(detail.retry_after),
        seconds_text(detail.reset_after),
    )
