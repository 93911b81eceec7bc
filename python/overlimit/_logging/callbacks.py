"""What a limiter's own ``on_decision`` raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit._core import Decision

_log = logging.getLogger("overlimit")


def announce(on_decision: Callable[[Decision], object], decision: Decision) -> None:
    """Call ``on_decision`` with a decision, and log what it raises; the core calls this."""
    try:
        on_decision(decision)
    except Exception:
        _log.exception("on_decision failed for %r", decision)
