"""How many examples the parsers are given: ``make prove`` gives them many more, and others each time."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("PROVE") or 1) * (5 if "PROVE" in os.environ else 1)
MANY = settings(max_examples=150 * FACTOR)
