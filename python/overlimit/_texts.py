"""Texts that others chose, such as identifiers, as a terminal or a page can show them."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: object) -> str:
    """Return a text in which whatever is not printable is a backslash escape.

    So it can neither move a cursor, change colours or the direction of writing, nor fail to be UTF-8.
    """
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else str(text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else _escaped(each) for each in shown)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
