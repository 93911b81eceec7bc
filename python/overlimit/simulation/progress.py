"""Progress on long work: a bar where one was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from overlimit.simulation.optional import required

__all__ = ["BarMaker", "Progress", "progress_bar", "shown_by"]

BarMaker: TypeAlias = Callable[[int, str, str], AbstractContextManager[Callable[[int], object]]]
"""Makes a bar of a total, a unit and a description; the bar is called with how many more are done."""


class Progress:
    """Counts what is done; this one shows nothing."""

    def advance(self, count: int) -> None:
        """Say that so many more are done."""


class _Bar(Progress):
    def __init__(self, advance: Callable[[int], object]) -> None:
        self._advance = advance

    def advance(self, count: int) -> None:
        self._advance(count)


@contextmanager
def _bar_of_tqdm(total: int, unit: str, description: str) -> Iterator[Callable[[int], object]]:
    """Show a bar of tqdm, in notebooks as a widget."""
    tqdm = required("tqdm.auto", "progress=True").tqdm
    unit = unit if unit == "B" else f" {unit}"
    with tqdm(total=total, unit=unit, unit_scale=True, desc=description or None) as bar:
        yield bar.update


_maker: ContextVar[BarMaker] = ContextVar("overlimit_bars", default=_bar_of_tqdm)


@contextmanager
def shown_by(maker: BarMaker) -> Iterator[None]:
    """Have bars made by this function while the body runs."""
    token = _maker.set(maker)
    try:
        yield
    finally:
        _maker.reset(token)


@contextmanager
def progress_bar(
    total: int, *, shown: bool | None, unit: str = "events", description: str = ""
) -> Iterator[Progress]:
    """Show a bar while the body runs; nothing unless ``shown``."""
    if not shown:
        yield Progress()
        return
    with _maker.get()(total, unit, description) as advance:
        yield _Bar(advance)
