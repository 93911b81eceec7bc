"""Policies that are written into a file of limits, which stays as it is otherwise."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from overlimit.limits_file import parsed

_NEW = "version = 1\n"


def write_policy(path: str, name: str, limits: str, locks: tuple[float, ...]) -> None:
    """Set the limits of a policy, and its penalty if there are locks; comments, order and mode stay.

    A file that is not there begins with the version. Raises OSError if it cannot be written, InvalidLimit if
    it is wrong, before or with these limits; it is as it was then.
    """
    import tomlkit  # which few commands need

    whole = Path(path).resolve()
    before = whole.read_bytes() if whole.exists() else _NEW.encode()
    parsed(before, path)
    document: Any = tomlkit.parse(before.decode())
    policies = document.setdefault("policies", tomlkit.table(is_super_table=True))
    if isinstance(policies.get(name), str) and not locks:
        policies[name] = limits
    else:
        policies.setdefault(name, tomlkit.table())
        if isinstance(policies[name], str):
            policies[name] = tomlkit.table()
        policies[name]["limits"] = limits
    if locks:
        policies[name]["penalty"] = [int(lock) if lock.is_integer() else lock for lock in locks]
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
