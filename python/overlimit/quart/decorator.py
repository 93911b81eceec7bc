"""What ``limiter.limit`` makes: limits on a view, a blueprint, what a request calls, or a block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from quart import Blueprint, Quart
from quart.signals import request_started, websocket_started

from overlimit.http.awaiting import AwaitingDecorator
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction
from overlimit.http.rules.unnoticed import Unnoticed
from overlimit.quart.app_state import AppState
from overlimit.quart.conversation import Conversation, limited_request, this_request

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Blueprint)


async def _set_up(app: Quart, **_: object) -> None:
    state = AppState.of(app)
    if state.has_new_views():
        unnoticed.discard(state.decorated())


unnoticed = Unnoticed(_set_up, request_started, websocket_started)


class LimitDecorator(AwaitingDecorator):
    """Limits to be put on something: as a decorator on a view, a function or a blueprint, or as a context."""

    _app, _group, _group_called, _unnoticed = Quart, Blueprint, "blueprint", unnoticed

    @overload
    def __call__(self, target: B) -> B: ...
    @overload
    def __call__(self, target: Callable[P, R]) -> Callable[P, R]: ...
    def __call__(self, target: Any) -> Any:
        """Limit a view, a function that a request calls, or all views of a blueprint."""
        return super().__call__(target)

    @staticmethod
    def _is_in_request() -> bool:
        return this_request() is not None

    async def _enforce(self, function: LimitedFunction) -> None:
        asked = limited_request()
        if asked is not None:
            unnoticed.discard(function.decorated)
            await AppState.current().enforce(function, asked)

    async def _enforce_block(self, applied: AppliedLimit) -> None:
        asked = limited_request()
        if asked is not None:
            await AppState.current().enforce_block(applied, asked)

    def _loop_of_request(self) -> asyncio.AbstractEventLoop | None:
        return None if this_request() is None else Conversation.of(AppState.current()).loop
