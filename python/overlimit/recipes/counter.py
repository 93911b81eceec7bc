"""A counter per window."""

from __future__ import annotations

from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit.clocks import ClockLike
from overlimit.limiter import Limiter
from overlimit.limits import FixedWindow
from overlimit.limits.quantities import Seconds
from overlimit.stores import Store


class Counter(Initialised):
    """Counts what passes in windows of ``per`` seconds, up to ``limit`` in each.

    A key's window starts with its first call that passes, and the first one after its end starts the next. So
    up to twice the limit may pass around a boundary; ``SlidingWindow`` never lets it.

    Parameters
    ----------
    limit
        The most that one window lets pass; 0 refuses everything.
    per
        The length of a window in seconds.
    store, clock, name
        As for ``Limiter``.

    Notes
    -----
    Raises InvalidLimit for wrong numbers. Thread-safe.

    Source: the counter of a 2019 article on rate limiters in Redis scripts: INCR, and EXPIRE with the first.
    """

    _set_last: ClassVar[str] = "_limiter"

    @checks_arguments()
    def __init__(
        self,
        limit: int,
        per: Seconds,
        *,
        store: str | Store = "memory://",
        clock: ClockLike | None = None,
        name: str | None = None,
    ) -> None:
        self._window = FixedWindow(limit, per)
        self._limiter = Limiter(self._window, name=name, store=store, clock=clock)

    def hit(self, key: str | bytes) -> int:
        """Return how many have passed in the key's window, this one included; -1 when it is refused.

        Raises ValueError or TypeError for a wrong key, StoreError when the store cannot answer.
        """
        decision = self._limiter.hit(key)
        return self._window.limit - decision.remaining if decision else -1

    def __repr__(self) -> str:
        return f"Counter({self._window.limit}, per={self._window.per}, name={self._limiter.name!r})"
