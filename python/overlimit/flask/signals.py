"""The signal that tells of refusals."""

from __future__ import annotations

from blinker import Namespace

__all__ = ["rate_limited"]

rate_limited = Namespace().signal("rate-limited")
"""Sent once per refusal, also of shadow limits, by the app, with ``decision=``."""
