"""When it is a job's turn, and what is said of a job that can have none."""

from __future__ import annotations

import time
from itertools import pairwise

import dramatiq
import pytest
from celery import Celery
from dramatiq.brokers.stub import StubBroker

from overlimit import LeakyBucket, Limiter, RateLimitExceeded
from overlimit._steps import run_calls
from overlimit.aio import AsyncLimiter
from overlimit.jobs import LimitedTask, limited
from overlimit.jobs.turns import Job, JobLimit


def work():
    return "done"


def asked(limiter, *, cost=1, came=None, attempt=0):
    """Return how a job is put back; None: it runs."""
    job = Job(attempt, lambda: came, lambda turn: turn)
    return run_calls(JobLimit(limiter, "api", cost).asking(job, Limiter.hit, time.sleep))


def test_refused_jobs_come_back_one_after_the_other_at_the_pace_of_the_limit():
    limiter = Limiter("10/second", algorithm="fixed_window")
    began = time.time()
    turns = [asked(limiter) for _ in range(60)]
    assert [turn is None for turn in turns] == [True] * 10 + [False] * 50
    waits = sorted(turn.at - began for turn in turns[10:])
    assert not any(turn.is_granted for turn in turns[10:])
    assert waits[-1] > 4.9
    # At most so many come in any second, and none before it could be admitted.
    assert max(sum(start <= wait < start + 1 for wait in waits) for start in waits) <= 12
    assert waits[0] > 0.5


def test_a_queue_gives_each_job_its_turn_once_and_a_retry_another():
    limiter = Limiter(LeakyBucket(1, per=1, capacity=10))
    assert asked(limiter) is None
    turn = asked(limiter)
    assert turn.is_granted
    assert 0.5 < turn.delay <= 1
    assert asked(limiter, came=list(turn)) == turn  # it came too early, and keeps its turn
    due = [time.time() - 0.5, 0, True]
    assert asked(limiter, came=due) is None
    assert asked(limiter, came=due, attempt=1).at > turn.at


@pytest.mark.parametrize(("per", "late"), [(0.125, 1), (2, 2)], ids=["a second", "one turn"])
def test_the_jobs_of_a_worker_that_died_begin_a_second_of_them_at_once_and_ask_for_other_turns(per, late):
    limiter = Limiter(LeakyBucket(1, per=per, capacity=100))
    now = time.time()
    dues = [now - number * per for number in range(40)]
    turns = [asked(limiter, came=[due, 0, True]) for due in dues]
    begun = sum(turn is None for turn in turns)
    assert late / per <= begun <= late / per + 2  # one of them by the first of the new turns
    others = sorted(turn.at for turn in turns if turn)
    assert min(later - earlier for earlier, later in pairwise(others)) > 0.9 * per
    assert others[-1] < time.time() + 40 * per  # each of them is charged once


def test_arguments_of_a_job_may_have_any_names():
    job = Job(0, lambda: None, lambda turn: turn)
    job_limit = JobLimit(
        Limiter("1/minute"), [lambda **named: f"of {named['job']}", "all"], lambda **named: named["cost"]
    )
    named = {"job": 7, "sleep": 1, "hit": 2, "self": 3, "cost": 1}
    assert run_calls(job_limit.asking(job, Limiter.hit, time.sleep, **named)) is None
    assert run_calls(job_limit.asking(job, Limiter.hit, time.sleep, **named)).delay > 50


def test_a_job_that_can_never_pass_fails():
    with pytest.raises(RateLimitExceeded):
        asked(Limiter("10/second"), cost=11)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("10/second", "api"), "limiter must be a Limiter"),
        ((Limiter("1/minute"), ""), "an identifier must not be empty"),
        ((Limiter("1/minute"), []), "an identifier must not be empty"),
        ((Limiter("1/minute"), "api", "2"), "cost must be a whole number"),
    ],
)
def test_what_is_wrong_is_said_where_a_job_is_declared(wrong, message):
    limiter, identifiers, cost = (*wrong, 1)[:3]
    with pytest.raises((TypeError, ValueError), match=message):
        limited(limiter, identifiers, cost=cost)
    options = {"limiter": limiter, "identifiers": identifiers, "cost": cost}
    with pytest.raises((TypeError, ValueError), match=message):
        type("Wrong", (LimitedTask,), options)


def test_a_task_of_celery_without_a_limiter_is_an_error():
    app = Celery(set_as_current=False)
    with pytest.raises(TypeError, match="limiter must be a Limiter"):
        app.task(base=LimitedTask)(work).delay()


def test_a_direct_call_is_no_job():
    limiter = Limiter("1/minute")
    app = Celery(set_as_current=False)
    task = app.task(base=LimitedTask, limiter=limiter, identifiers="api")(work)
    function = limited(AsyncLimiter("1/minute"), "api")(work)
    assert {task(), function(), task.apply().get(), task()} == {"done"}
    assert limiter.hit("api")


def test_a_worker_of_dramatiq_without_the_current_message_is_an_error():
    broker = StubBroker()
    actor = dramatiq.actor(broker=broker, max_retries=0)(limited(Limiter("1/minute"), "api")(lambda: None))
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    actor.send()
    worker.start()
    try:
        with pytest.raises(RuntimeError, match="CurrentMessage"):
            broker.join(actor.queue_name, fail_fast=True)
    finally:
        worker.stop()
