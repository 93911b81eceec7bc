"""What the RateLimit and the decorators of a framework on ASGI have, whose requests an event loop answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

from overlimit.http.asgi.conversations import current
from overlimit.http.callables import function_name
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.settling import check_thread
from overlimit.http.decorators import WrappingDecorator
from overlimit.http.rate_limit import A, BaseRateLimit
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction


class ConversationRateLimit(BaseRateLimit[A]):
    """Limits the requests of apps around each of which is a ``ConversationMiddleware``."""

    _for_other_apps = "; for other ASGI apps there is overlimit.asgi.RateLimitMiddleware"
    _check_thread = staticmethod(check_thread)

    def _is_in_request(self) -> bool:
        return current.get() is not None

    def _current_state(self) -> Any:
        conversation = current.get()
        return None if conversation is None else conversation.state

    def _current_ledger(self) -> RequestLedger | None:
        conversation = current.get()
        return None if conversation is None else conversation.ledger


class AwaitingDecorator(WrappingDecorator):
    """Limits to be put on something, or on an ``async with`` block.

    An adapter says how a request is decided, on the event loop: `_enforce` and `_enforce_block`.
    """

    _block = "async with"

    def _wrap(self, function: LimitedFunction) -> Callable[..., Any]:
        call = function.function

        async def limited_async(*args: Any, **kwargs: Any) -> Any:
            await self._enforce(function)
            return await call(*args, **kwargs)

        def limited(*args: Any, **kwargs: Any) -> Any:
            self._enforce_in_thread(function)
            return call(*args, **kwargs)

        return limited_async if inspect.iscoroutinefunction(call) else limited

    def _enforce_in_thread(self, function: LimitedFunction) -> None:
        """Wait for the decision in a thread, in which a framework calls plain functions."""
        loop = self._loop_of_request()
        if loop is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run_coroutine_threadsafe(self._enforce(function), loop).result()
            return
        raise RuntimeError(
            f"{function_name(function.function)} is limited, and was called where it would block the event "
            "loop: make it a coroutine function, or call it in a thread, with the context of the request"
        )

    async def __aenter__(self) -> None:
        """Limit the current request, if any; raises an exception if it is refused."""
        self._may_be_lost = False
        await self._enforce_block(AppliedLimit(self._options, self._handle))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the charge remains."""

    async def _enforce(self, function: LimitedFunction) -> None:
        """Decide the current request, if any, where this call of a decorated function decides it."""
        raise NotImplementedError

    async def _enforce_block(self, applied: AppliedLimit) -> None:
        """Decide the current request, if any, by the limits of a block."""
        raise NotImplementedError

    def _loop_of_request(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop of the current request; None: there is no request."""
        raise NotImplementedError
