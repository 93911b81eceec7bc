"""Jobs of Celery, RQ, arq and Dramatiq that wait for their turn in their queue instead of in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlimit.jobs.functions import limited as limited

__all__ = ["LimitedTask", "limited"]

if TYPE_CHECKING:
    from overlimit.jobs.celery import LimitedTask as LimitedTask
else:

    def __getattr__(name: str) -> object:
        """Return `LimitedTask`, for which Celery is imported."""
        if name != "LimitedTask":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from overlimit.jobs.celery import LimitedTask

        return LimitedTask
