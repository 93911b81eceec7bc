"""Long work that Ctrl-C ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

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
