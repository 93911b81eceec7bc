"""The cookies of a request, read as frameworks read them: nothing that a client sends hides the others."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\(?:([0-3][0-7][0-7])|(.))", re.DOTALL)


def cookies_in(field: str) -> dict[str, str]:
    """Return the cookies of a ``Cookie`` field by their names; of several of one name the last.

    What has no ``=`` is the value of a cookie without a name, as for browsers.
    """
    found = {}
    for part in field.split(";"):
        name, equals, value = part.partition("=")
        if not equals:
            name, value = "", name
        if name.strip() or value.strip():
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    """Return a value without the quotes around it and the backslashes that these call for."""
    if len(value) < len('""') or not (value[0] == value[-1] == '"'):
        return value
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)) if found[1] else found[2], value[1:-1])
