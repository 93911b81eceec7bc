"""How exact a time can be asked for on a machine that does other things too."""

from __future__ import annotations

LATE = 0.3
"""Seconds by which nine of ten calls may at most end after their deadline."""

LATEST = 1.5
"""Seconds by which one may, when it got no turn on a crowded processor."""

RECOVERY = 3.0
"""Seconds after which a store that answers again is used again."""
