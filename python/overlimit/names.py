"""What may stand in a key: names of policies and limits, and prefixes."""

from __future__ import annotations

import re

__all__ = ["KEY_NAME_RULE", "is_key_name"]

KEY_NAME_RULE = "1 to 64 characters of A-Z a-z 0-9 _ . -"

_KEY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_key_name(name: str) -> bool:
    """Whether a name can be told apart within a key."""
    return _KEY_NAME.fullmatch(name) is not None
