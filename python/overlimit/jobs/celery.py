"""Tasks of Celery that wait for their turn in their queue."""

from __future__ import annotations

import time
from functools import partial
from inspect import getattr_static
from typing import Any, ClassVar

from overlimit._messages.optional import needed

with needed("LimitedTask needs Celery 5.4 or later: pip install 'overlimit[celery]' brings it", "celery"):
    from celery import Task
    from celery.exceptions import Ignore, Reject

from overlimit._steps import run_calls
from overlimit.jobs.turns import Job, JobLimit, Turn
from overlimit.limiter import Limiter

_HEADER = "overlimit_turn"


class LimitedTask(Task):  # type: ignore[misc]
    """A task that runs when a limiter says so, and is put back with a ``countdown`` until then.

    ``limiter`` is a Limiter whose store all workers share, ``identifiers`` is one identifier or a list of
    several, and ``cost`` what a run spends: attributes, or options of ``app.task``. Each may be a function of
    the task's arguments (in a class, a staticmethod). A task that is put back keeps its id and its number of
    retries. One that is called directly, or eagerly, is no job and runs at once. Where the task is declared,
    TypeError or ValueError says what is wrong.
    """

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    limiter: ClassVar[Any] = None
    identifiers: ClassVar[Any] = None
    cost: ClassVar[Any] = 1
    _job_limit: ClassVar[JobLimit]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        given = (getattr_static(cls, name) for name in JobLimit._fields)
        cls._job_limit = JobLimit(
            *(each.__func__ if isinstance(each, staticmethod) else each for each in given)
        )
        if not cls.__dict__.get("abstract"):
            cls._job_limit.checked()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task if it is its turn, or else put it back."""
        request = self.request
        if request.called_directly or request.is_eager:
            return super().__call__(*args, **kwargs)
        came = (request.headers or {}).get(_HEADER)
        job = Job(request.retries, lambda: came, partial(self._put_back, args, kwargs))
        run_calls(self._job_limit.asking(job, Limiter.hit, time.sleep, *args, **kwargs))
        return self.run(*args, **kwargs)

    def _put_back(self, args: Any, kwargs: Any, turn: Turn) -> None:
        given = self.request
        headers = {**(given.headers or {}), _HEADER: list(turn)}
        options = {"countdown": turn.delay, "retries": given.retries, "headers": headers}
        try:
            self.signature_from_request(given, args, kwargs, **options).apply_async()
        except Exception as error:
            raise Reject(error, requeue=True) from error
        raise Ignore
