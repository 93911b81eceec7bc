"""How exact a time can be asked for on a machine that does other things too."""

from __future__ import annotations

LATE = 0.3
"""Seconds by which half of the calls may at most end after their deadline."""

LATEST = 3.0
"""Seconds by which one may, and which one at once may take, when it got no turn on a crowded processor."""

RECOVERY = 10.0
"""Seconds after which a store that answers again is used again: 3 are promised."""
