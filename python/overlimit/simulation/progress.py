"""Progress on long work: a bar where one was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from overlimit.simulation.optional import required

__all__ = ["Progress", "progress_bar"]


class Progress:
    """Counts what is done; this one shows nothing."""

    def advance(self, count: int) -> None:
        """Say that so many more are done."""


class _Bar(Progress):
    def __init__(self, bar: object) -> None:
        self._bar = bar

    def advance(self, count: int) -> None:
        self._bar.update(count)  # type: ignore[attr-defined]


@contextmanager
def progress_bar(total: int, *, shown: bool | None, unit: str = "events") -> Iterator[Progress]:
    """Show a bar of tqdm while the body runs, in notebooks as a widget; nothing unless ``shown``."""
    if not shown:
        yield Progress()
        return
    tqdm = required("tqdm.auto", "progress=True").tqdm
    with tqdm(total=total, unit=f" {unit}", unit_scale=True) as bar:
        yield _Bar(bar)
