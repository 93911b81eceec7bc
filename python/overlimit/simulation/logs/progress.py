"""How far reading has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from overlimit.simulation.optional import required

__all__ = ["progress_of"]


def progress_of(files: Sequence[Path], shown: bool, stack: ExitStack) -> Callable[[int], object]:
    """Return a function that is told how many bytes were read; it moves a bar if one is to be shown."""
    if not shown:
        return lambda count: None
    tqdm = required("tqdm.auto", "progress=True")
    total = sum(file.stat().st_size for file in files)
    bar = stack.enter_context(tqdm.tqdm(total=total, unit="B", unit_scale=True, desc="reading"))
    advance: Callable[[int], object] = bar.update
    return advance
