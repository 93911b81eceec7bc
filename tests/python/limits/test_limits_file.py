"""``limits.toml``: what is right and what is wrong in it, and a Limiter that follows it."""

from __future__ import annotations

import logging
import os
import pickle

import pytest

from overlimit import InvalidLimit, Limiter, ManualClock, Penalty, SlidingWindow, TokenBucket, limits_file
from overlimit.aio import AsyncLimiter
from overlimit.limits_file import FilePolicy, followed_files, parsed, read_limits_file
from overlimit.metrics.readers import ProcessReader
from overlimit.metrics.samples import Sampler

RIGHT = b"""# Who may do what.
version = 1
default = "100/minute"
application = {limits = ["10/second", "1000/hour"], cost = 0}

[policies.login]
limits = "5/minute; 20/hour"
penalty = [60, 300]

[policies.search]
limits = "5/second burst 20"
penalty = {levels = 60, extend = true, forget_after = 5}
cost = 3
shadow = true

[routes]
"POST /login" = {policy = "login"}
"/search/*" = {policy = "search"}
"/export" = "1/minute"
"""


def test_what_a_file_says():
    found = parsed(RIGHT, "limits.toml")
    login = FilePolicy((SlidingWindow(5, per=60), SlidingWindow(20, per=3600)), Penalty([60, 300]))
    search = FilePolicy(
        (TokenBucket(rate=5, per=1, burst=20),), Penalty(60, extend=True, forget_after=5), 3, True
    )
    assert found.policies == {"login": login, "search": search}
    assert [*found.routes.items()] == [
        ("POST /login", login),
        ("/search/*", search),
        ("/export", FilePolicy((SlidingWindow(1, per=60),))),
    ]
    assert found.default == FilePolicy((SlidingWindow(100, per=60),))
    assert found.application.cost == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: version must be 1, and it is missing: write version = 1"),
        ("\nversion = 2", "line 2: version: version must be 1, not 2: write version = 1"),
        ("version = true", "line 1: version: version must be 1, not True: write version = 1"),
        ("version = 1\ndefalt = '5/minute'", "line 2: defalt: there is no such key: did you mean default?"),
        ("version = 1\ndefault = 5", "line 2: default: must be limits in text, as "),
        ("version = 1\ndefault = '5/minut'", "line 2: default: 'minut' is not a unit: write 'minute'"),
        ("version = 1\n\n[policies.a]\n# none\n", "line 3: policies.a: has no limits: write limits = "),
        (
            "version = 1\n[policies.a]\nlimits = '1/minute'\n[policies.b]\nlimts = '1/minute'",
            "line 5: policies.b.limts: there is no such key: did you mean limits?",
        ),
        (
            "version = 1\n[policies.a]\nlimits = [\n  '1/minute',\n  '2/minut',\n]",
            "line 3: policies.a.limits: 'minut' is not a unit",
        ),
        (
            "version = 1\n[policies]\na = {limits = '1/minute', cost = -1}",
            "line 3: policies.a.cost: must be a ",
        ),
        (
            "version = 1\n[policies.a]\nlimits = '1/minute'\nshadow = 1",
            "line 4: policies.a.shadow: must be true",
        ),
        (
            "version = 1\n[policies.a]\nlimits = '1/minute'\npenalty = 'x'",
            "line 4: policies.a.penalty: levels",
        ),
        ("version = 1\npolicies = 5", "line 2: policies: must be a table, as [policies], not 5"),
        ("version = 1\n[routes]\n'/a' = {policy = 'b'}", "there is no policy 'b': write [policies.b]"),
        ("version = 1\n[routes]\nlogin = '1/minute'", "line 3: routes.login: a pattern is a path"),
        (
            "version = 1\n[routes]\n'/a*' = '1/minute'\n'/ab' = '1/minute'",
            "line 4: routes.\"/ab\": the pattern '/ab' is never reached",
        ),
        ("version = 1\ndefault = ", "is no TOML: Invalid value"),
        ("version = 1\ndefault = " + "[" * 5000, "is no TOML: maximum recursion depth"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_key(text, told):
    with pytest.raises(InvalidLimit) as raised:
        parsed(text.encode(), "limits.toml")
    assert str(raised.value).startswith("limits.toml")
    assert told in str(raised.value)


def test_bytes_that_are_no_text():
    with pytest.raises(InvalidLimit, match=r"limits\.toml is no TOML: .*utf-8"):
        parsed(b"\xff", "limits.toml")


def test_a_large_file_is_told_of_in_time():
    policies = "".join(f"[policies.p{k}]\nlimits = '1/minute'\n" for k in range(1000))
    with pytest.raises(InvalidLimit, match=r"line 2003: policies\.last\.limit: "):
        parsed(f"version = 1\n{policies}[policies.last]\nlimit = '1/minute'".encode(), "limits.toml")


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(limits_file, "_EVERY_US", 0)
    made = tmp_path / "limits.toml"
    made.write_text(limits_of("5/minute"))
    return made


def limits_of(text: str, more: str = "") -> str:
    return f'version = 1\n[policies.login]\nlimits = "{text}"\n{more}'


def test_a_limiter_follows_its_policy_and_keeps_what_was_used(path):
    limiter = Limiter.from_file(path, "login", clock=ManualClock(1000.0))
    assert [bool(limiter.hit("a")) for _ in range(6)] == [True] * 5 + [False]
    path.write_text(limits_of("7/minute"))
    assert [bool(limiter.hit("a")) for _ in range(3)] == [True, True, False]
    path.write_text(limits_of("4/minute"))
    assert limiter.limits == (SlidingWindow(4, per=60),)
    assert not limiter.hit("a")
    assert [bool(each) for each in limiter.hit_many(["b"] * 5)] == [True] * 4 + [False]
    assert limiter.name == "login"


def test_it_is_looked_at_once_a_second_at_most(path, monkeypatch):
    now = [0]
    monkeypatch.setattr(limits_file, "_EVERY_US", 1_000_000)
    monkeypatch.setattr(limits_file._core, "_steady_micros", lambda: now[0])
    limiter = Limiter.from_file(path, "login")
    path.write_text(limits_of("9/minute"))
    now[0] = 999_999
    assert limiter.limits == (SlidingWindow(5, per=60),)
    now[0] = 1_000_000
    assert limiter.limits == (SlidingWindow(9, per=60),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (limits_of("9/minute").replace("login", "logn"), "policies.login is gone"),
        (limits_of("9/minute", "penalty = 5"), "policies.login.penalty: has another penalty by now"),
        (limits_of("9/minute", "cost = 5"), "policies.login.cost: is for routes"),
        (limits_of("9/minut"), "policies.login.limits: 'minut' is not a unit"),
    ],
)
def test_a_wrong_change_is_logged_once_and_counted(path, caplog, text, told):
    limiter = Limiter.from_file(path, "login")
    path.write_text(text)
    for _ in range(3):
        assert limiter.peek("a").limit == SlidingWindow(5, per=60)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert told in record.getMessage()
    samples = Sampler(ProcessReader(), 100)()
    errors = next(each for metric, each in samples.items() if metric.name == "overlimit_limits_file_errors")
    assert errors[str(path),] == 1


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.write_bytes(b"#" * 4_000_001), "longer than 4,000,000 bytes"),
    ],
)
def test_what_has_no_end_is_not_read(path, caplog, put, told):
    limiter = Limiter.from_file(path, "login")
    path.unlink()
    put(path)
    for _ in range(3):
        assert limiter.peek("a").limit == SlidingWindow(5, per=60)
    (record,) = caplog.records
    assert told in record.getMessage()
    with pytest.raises(OSError, match=told):
        read_limits_file(path)


def test_a_byte_order_mark_is_no_part_of_a_file(path, caplog):
    caplog.set_level(logging.WARNING, "overlimit")
    path.write_text(limits_of("5/minute"), "utf-8-sig")
    limiters = [Limiter.from_file(path, "login") for _ in range(2)]
    path.write_text(limits_of("7/minute"), "utf-8-sig")
    assert {limiter.limits for limiter in limiters * 2} == {(SlidingWindow(7, per=60),)}
    assert len(caplog.records) == 1


def test_wrong_at_the_start(path):
    with pytest.raises(InvalidLimit, match=r'line 2: policies: there is no policy .*did you mean "login"'):
        Limiter.from_file(path, "logni")
    with pytest.raises(TypeError, match=r"takes no limits=: the file says it, as policies\.login"):
        Limiter.from_file(path, "login", limits="5/minute")
    with pytest.raises(FileNotFoundError):
        Limiter.from_file(path.with_name("other.toml"), "login")
    path.write_text(limits_of("5/minute", "shadow = true"))
    with pytest.raises(InvalidLimit, match=r"line 4: policies\.login\.shadow: is for routes"):
        Limiter.from_file(path, "login")
    with pytest.raises(TypeError, match="must be a path"):
        Limiter.from_file(5, "login")


def test_a_pickled_limiter_follows_the_file_again(path):
    again = pickle.loads(pickle.dumps(Limiter.from_file(path, "login", on_error="deny")))
    path.write_text(limits_of("8/minute"))
    assert again.limits == (SlidingWindow(8, per=60),)
    assert again.on_error == "deny"


async def follows(path):
    limiter = AsyncLimiter.from_file(path, "login")
    path.write_text(limits_of("1/minute"))
    return [bool(await limiter.hit("once")) for _ in range(2)]


def test_an_async_limiter_follows_it_too(path):
    import asyncio

    assert asyncio.run(follows(path)) == [True, False]


def test_followers_share_one_file_and_end_with_it(path):
    first, second = Limiter.from_file(path, "login"), Limiter.from_file(path, "login")
    assert first._file is second._file
    assert read_limits_file(path) == first._file.current
    del first, second
    assert str(path) not in [each.path for each in followed_files()]
