"""How far a command has come, in a bar on the standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def bars() -> Iterator[bool]:
    """Have simulations show their progress in bars of rich; yield whether there is a terminal to show it."""
    from overlimit.simulation.progress import shown_by

    with shown_by(_bar):
        yield sys.stderr.isatty()


@contextmanager
def _bar(total: int, unit: str, description: str) -> Iterator[Callable[[int], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description or unit, total=total)
        yield lambda count: shown.advance(task, count)
