"""Rows of text under each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line per row, each column as wide as what is longest in it; all rows have as many cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
