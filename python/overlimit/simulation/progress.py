"""Progress on long work: a bar where one was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeAlias

from overlimit.simulation.optional import required

Advance: TypeAlias = Callable[[int], object]
"""Is called with how many more are done."""

BarMaker: TypeAlias = Callable[[int, str, str], AbstractContextManager[Advance]]
"""Makes a bar of a total, a unit and a description."""


def unseen(count: int) -> None:
    """Show nothing."""


@contextmanager
def _bar_of_tqdm(total: int, unit: str, description: str) -> Iterator[Advance]:
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


def progress_bar(
    total: int, *, shown: bool | None, unit: str = "events", description: str = ""
) -> AbstractContextManager[Advance]:
    """Show a bar while the body runs; nothing unless ``shown``."""
    return _maker.get()(total, unit, description) if shown else nullcontext(unseen)
