"""Policies that are written into a file of limits, which stays as it is otherwise."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from overlimit.limits_file import bytes_of, parsed

_NEW = "version = 1\n"


def write_policy(path: str, name: str, limits: str, locks: tuple[float, ...]) -> None:
    """Set the limits of a policy, and its penalty if there are locks; comments, order and mode stay.

    A file that is not there begins with the version. Raises OSError if it cannot be written, InvalidLimit if
    it is wrong, before or with these limits; it is as it was then.
    """
    import tomlkit  # which few commands need

    whole = Path(path).resolve()
    before = bytes_of(whole) if whole.exists() else _NEW.encode()
    parsed(before, path)
    document: Any = tomlkit.parse(before.decode("utf-8-sig"))
    policies = document.setdefault("policies", tomlkit.table(is_super_table=True))
    own = policies.get(name)
    if own is None or (locks and not isinstance(own, dict)):
        is_inline = own is not None or isinstance(policies, tomlkit.items.InlineTable)
        policies[name] = tomlkit.inline_table() if is_inline else tomlkit.table()
        if isinstance(own, list):
            policies[name]["limits"] = own
    if isinstance(policies[name], dict):
        _put(policies[name], "limits", limits.split("; "))
    else:
        _put(policies, name, limits.split("; "))
    if locks:
        _put_locks(policies[name], [int(lock) if lock.is_integer() else lock for lock in locks])
    after = tomlkit.dumps(document).encode()
    parsed(after, path)
    partial = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(after)
        if whole.exists():
            shutil.copymode(whole, partial)
        partial.replace(whole)
    finally:
        partial.unlink(missing_ok=True)


def _put_locks(policy: Any, levels: list[float]) -> None:
    """Set a penalty of these levels and nothing else, in a table if it is one."""
    penalty = policy.get("penalty")
    if not isinstance(penalty, dict):
        _put(policy, "penalty", levels)
        return
    for other in penalty.keys() - {"levels"}:
        del penalty[other]
    _put(penalty, "levels", levels)


def _put(table: Any, key: str, values: list[Any]) -> None:
    """Set values: in an array if there is one, so that its comments stay, or else texts as one."""
    known = table.get(key)
    if not isinstance(known, list):
        table[key] = _quoted_as(known, "; ".join(values)) if isinstance(values[0], str) else values
        return
    while len(known) < len(values):  # what is before the last has no comment yet
        known.insert(len(known) - 1, values[0])
    del known[len(values) :]
    for place, value in enumerate(values):
        known[place] = _quoted_as(known[place], value)


def _quoted_as(known: Any, value: Any) -> Any:
    """Return a value: a text in single quotes if that which it replaces is."""
    import tomlkit

    if isinstance(value, str) and isinstance(known, tomlkit.items.String):
        return tomlkit.string(value, literal=known.as_string().startswith("'"))
    return value
