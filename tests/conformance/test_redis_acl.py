"""The user that an operator is told to make can do all that a limiter does, and nothing else.

Where no scripts can be run, an error says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
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


def test_a_server_without_scripts_is_told(start_redis):
    url = start_redis(options={"rename-command": ["EVALSHA", ""]}).unix_url()
    with pytest.raises(
        StoreConfigError, match="runs no Lua scripts, which decide calls: load its module"
    ) as told:
        Limiter("2/minute", name="acl", store=RedisStore(url, timeout=5)).hit("a")
    assert not told.value.maybe_charged
    doctor = [sys.executable, "-m", "overlimit", "doctor", url]
    done = subprocess.run(doctor, capture_output=True, text=True, check=False)
    assert (done.returncode, "runs no Lua scripts" in done.stdout) == (2, True)


def test_a_user_who_may_run_no_scripts_is_told(redis_server):
    with closing(redis_server.client()) as admin:
        admin.execute_command("ACL", "SETUSER", "poor", "on", ">word", "~*", "+@all", "-evalsha")
        url = redis_server.unix_url().replace("unix://", "unix://poor:word@")
        with pytest.raises(StoreConfigError, match=r"'evalsha' command.*; grant the user of the URL"):
            Limiter("2/minute", name="acl", store=RedisStore(url, timeout=5)).hit("a")
        admin.acl_deluser("poor")
