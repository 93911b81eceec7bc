"""What a recipe's policy is called when it was given no name."""

from __future__ import annotations

import hashlib
import re

__all__ = ["default_name"]

_LONGEST = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def default_name(recipe: str, *numbers: object) -> str:
    """Return a policy name that says what the numbers are, such as ``counter.5-60``; others for others."""
    name = f"{recipe}.{_NOT_IN_A_NAME.sub('_', '-'.join(map(str, numbers)))}"
    if len(name) <= _LONGEST:
        return name
    return f"{recipe}.{hashlib.sha256(name.encode()).hexdigest()[:16]}"
