"""Where the Pythons of this machine are, for the scripts that build and try packages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path


def programs() -> Iterator[Path]:
    """Yield all that may be a Python 3, by whatever name: on PATH, then of pyenv.

    A program may not run, as a shim of pyenv whose version is not active, and two may be the same.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(sys.base_prefix, "bin"), *map(Path, os.environ["PATH"].split(":"))]
    for folder in [*folders, *sorted(pyenv.glob("versions/*/bin"))]:
        yield from (each for each in sorted(folder.glob("python3*")) if is_name(each.name))


def is_name(name: str) -> bool:
    """Whether a program with this name is a Python, such as python3.14t, and not one of its tools."""
    return re.fullmatch(r"python3(\.\d+t?)?", name) is not None
