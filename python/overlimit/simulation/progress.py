"""Long work: a bar where one was asked for, and Ctrl-C, which ends it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import ParamSpec, TypeAlias, TypeVar

from overlimit.simulation.optional import required

Advance: TypeAlias = Callable[[int], object]
"""Is called with how many more are done."""

BarMaker: TypeAlias = Callable[[int, str, str], AbstractContextManager[Advance]]
"""Makes a bar of a total, a unit and a description."""


def unseen(count: int) -> None:
    """Show nothing."""


@contextmanager
def _bar_of_tqdm(total: int, unit: str, description: str) -> Iterator[Advance]:
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


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def interruptible(
    work: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Return what a function returns, or raise what it raises; a signal ends the wait for it.

    A pass over millions of events is a single call of numpy, in which Python notices no Ctrl-C. So it runs in
    another thread, which comes to its end by itself when nobody waits for it any more.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="overlimit-simulation", daemon=True).start()
    return future.result()
