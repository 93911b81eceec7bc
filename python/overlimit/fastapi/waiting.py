"""RateLimits that have limits but no app yet, and what tells of those that never get one."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

from fastapi import FastAPI
from starlette.types import ASGIApp

from overlimit.http.rules.app_rate_limits import RateLimitHandle

_waiting: WeakSet[RateLimitHandle] = WeakSet()


def wait_for_app(handle: RateLimitHandle) -> None:
    """Note that a RateLimit has limits, which no request would meet without an app."""
    _waiting.add(handle)


def has_an_app(handle: RateLimitHandle) -> None:
    """Note that a RateLimit has an app now."""
    _waiting.discard(handle)


def set_up_when_started(set_up: Callable[[FastAPI], object]) -> None:
    """Set up each app that starts while a RateLimit waits, since its routes may have limits of that one.

    A decorator leaves a function as it is, so an app without a RateLimit of its own would never notice one.
    """
    build = FastAPI.build_middleware_stack

    def set_up_then_build(app: FastAPI) -> ASGIApp:
        if _waiting:
            set_up(app)
        return build(app)

    FastAPI.build_middleware_stack = set_up_then_build  # type: ignore[method-assign, assignment]
