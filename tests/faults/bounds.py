"""How exact a time can be asked for on a machine that does other things too."""

from __future__ import annotations

LATE = 0.3
"""Seconds by which a call may end after its deadline."""

RECOVERY = 3.0
"""Seconds after which a store that answers again is used again."""
