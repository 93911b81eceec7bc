"""The user that an operator is told to make can do all that a limiter does, and nothing else."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from overlimit import Limiter, Penalty, RedisStore, StoreConfigError

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
LINE = re.compile(r"^ +ACL SETUSER limiter on >password (.*)$", re.MULTILINE)


@pytest.fixture
def user_url(redis_server):
    rules = LINE.search(PAGE.read_text(encoding="utf-8"))
    assert rules is not None
    with closing(redis_server.client()) as admin:
        admin.execute_command("ACL", "SETUSER", "limiter", "on", ">password", *rules[1].split())
        yield redis_server.unix_url().replace("unix://", "unix://limiter:password@")
        admin.acl_deluser("limiter")


def test_may_do_all_that_a_limiter_does(user_url):
    store = RedisStore(user_url, timeout=5)
    limiter = Limiter("2/minute", name="acl", store=store, penalty=Penalty(1))
    decision = limiter.hit("a", "b")
    assert decision.remaining == 1
    assert limiter.peek("a").remaining == 0
    limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 2
    limiter.lock("a", 5)
    assert limiter.hit("a").status == "locked"
    limiter.reset("a")
    assert limiter.hit("a")
    limiter.reset_all()
    assert limiter.peek("a", cost=0).remaining == 2


def test_may_not_touch_other_keys(user_url):
    store = RedisStore(user_url, timeout=5, prefix="other")
    with pytest.raises(StoreConfigError):
        Limiter("2/minute", name="acl", store=store).hit("a")
