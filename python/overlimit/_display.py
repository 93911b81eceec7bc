"""How tables look in notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from overlimit._messages.texts import printable

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
