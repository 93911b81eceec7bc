"""What is said where an optional package is missing that an adapter is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(told: str, *packages: str) -> Iterator[None]:
    """Say what an import needs and what brings it if one of these packages is missing.

    It is the first thing that an adapter does, so that what is missing is named before all else is imported.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise ModuleNotFoundError(told, name=error.name) from None
