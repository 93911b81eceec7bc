"""What async clients take in the place of what others do."""

from __future__ import annotations

from typing import Any

from overlimit.aio import AsyncLimiter


def async_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as an async client takes them."""
    options = {"timeout": options.pop("turn_within", None), **options}
    if "budgets" in options:
        options["budgets"] = [(AsyncLimiter._of(limiter), *rest) for limiter, *rest in options["budgets"]]
    return options


async def as_async(parts):
    for part in parts:
        yield part
