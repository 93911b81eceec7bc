"""What may stand in a key: names of policies and limits, and prefixes."""

from __future__ import annotations

from overlimit import _core

__all__ = ["KEY_NAME_RULE", "is_key_name"]

KEY_NAME_RULE = _core.KEY_NAME_RULE


def is_key_name(name: str) -> bool:
    """Whether a name may be part of a key, without making two keys equal."""
    return name.isascii() and _core.is_key_name(name)
