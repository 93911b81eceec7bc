"""Functions of RQ, arq and Dramatiq that wait for their turn in their queue."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from overlimit._steps import run_async, run_calls
from overlimit.aio import AsyncLimiter
from overlimit.jobs.turns import Job, JobLimit, Turn
from overlimit.limiter import Limiter

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "overlimit_turn"


def limited(limiter: Any, identifiers: Any, *, cost: Any = 1) -> Callable[[F], F]:
    """Have a function that RQ, arq or Dramatiq runs as a job begin when it is its turn.

    Until then the job is put back, for as long as the store says; it keeps its id and its number of retries.
    It decorates the function itself, below ``@dramatiq.actor``. A direct call is no job, and runs at once.

    Parameters
    ----------
    limiter
        A Limiter or AsyncLimiter whose store all workers share.
    identifiers
        One identifier, or a list of several.
    cost
        What a run spends. Each may be a function of the job's arguments, without the ``ctx`` of arq.

    Raises
    ------
    TypeError, ValueError
        One of them is wrong. In a worker of Dramatiq without ``CurrentMessage``, jobs raise RuntimeError.
    """
    job_limit = JobLimit(limiter, identifiers, cost).checked()

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            job = _rq_job() or _dramatiq_job()
            ended = job and run_calls(job_limit.asking(job, Limiter.hit, time.sleep, *args, **kwargs))
            return function(*args, **kwargs) if ended is None else ended

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            of_arq = _arq_job(*args)
            given, job = args[of_arq is not None :], of_arq or _rq_job() or _dramatiq_job()
            ended = job and await run_async(
                job_limit.asking(job, _hit, asyncio.sleep, *given, **kwargs), _done
            )
            return await function(*args, **kwargs) if ended is None else ended

        return awaited if inspect.iscoroutinefunction(function) else run  # type: ignore[return-value]

    return decorate


def _hit(limiter: Limiter, *identifiers: str | bytes, cost: int) -> Any:
    return AsyncLimiter._of(limiter).hit(*identifiers, cost=cost)


async def _done(step: Callable[[], Any]) -> Any:
    answer = step()
    return await answer if inspect.isawaitable(answer) else answer


def _rq_job() -> Job | None:
    job = "rq" in sys.modules and sys.modules["rq"].get_current_job()
    if not job:
        return None

    def put_back(turn: Turn) -> Any:
        job.meta[_KEY] = list(turn)
        job.save_meta()
        job.number_of_retries = (job.number_of_retries or 0) - 1  # to which RQ adds one
        now = time.time()  # and of the instant that it computes, RQ keeps the whole seconds
        return sys.modules["rq"].Retry(sys.maxsize, math.ceil(now + turn.delay) - math.floor(now))

    attempt = [job.retries_left, job.number_of_retries or 0]
    return Job(attempt, lambda: job.meta.get(_KEY), put_back, late=3.0)  # for it knows whole seconds


def _dramatiq_job() -> Job | None:
    if "dramatiq" not in sys.modules:
        return None
    from dramatiq import get_broker
    from dramatiq.middleware import CurrentMessage, SkipMessage

    message: Any = CurrentMessage.get_current_message()
    if message is None and type(threading.current_thread()).__module__ == "dramatiq.worker":
        raise RuntimeError("limited() needs broker.add_middleware(dramatiq.middleware.CurrentMessage())")

    def put_back(turn: Turn) -> None:
        again = message.copy(options={_KEY: list(turn)})
        broker = getattr(threading.current_thread(), "broker", None) or get_broker()
        broker.enqueue(again, delay=math.ceil(turn.delay * 1000))
        message.options["store_results"] = False
        raise SkipMessage

    came = message and message.options.get
    return came and Job(came("retries", 0), lambda: came(_KEY), put_back)


def _arq_job(ctx: Any = None, *_: Any) -> Job | None:
    if not (isinstance(ctx, dict) and {"redis", "job_id", "job_try"} <= ctx.keys()):
        return None
    redis, key = ctx["redis"], f"{_KEY}:{ctx['job_id']}"

    async def came() -> Any:
        found = await redis.get(key)
        return found and json.loads(found)

    async def put_back(turn: Turn) -> None:
        from arq.constants import retry_key_prefix
        from arq.worker import Retry

        async with redis.pipeline() as pipe:
            pipe.set(key, json.dumps(turn), ex=86_400)
            pipe.decr(f"{retry_key_prefix}{ctx['job_id']}")
            await pipe.execute()
        raise Retry(defer=turn.delay)

    return Job(ctx["job_try"], came, put_back)
