"""What decides the requests to one endpoint with one HTTP method, and where."""

from __future__ import annotations

from typing import NamedTuple

from overlimit.flask.batch import Batch
from overlimit.flask.marks import Mark
from overlimit.flask.routes import View

__all__ = ["NO_PLAN", "RoutePlan"]


class RoutePlan(NamedTuple):
    """The compiled limits of a route; ``view_decides``: a call of its view passes through a decorator."""

    view: View | None
    marks: frozenset[Mark]
    view_decides: bool
    batches: tuple[Batch, ...]
    in_memory: bool = False
    """Whether something of it is counted in the memory of this process."""


NO_PLAN = RoutePlan(None, frozenset(), view_decides=False, batches=())
"""Of what has no view."""
