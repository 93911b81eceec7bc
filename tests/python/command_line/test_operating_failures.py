"""The commands for operators where nothing can be asked: what they say, without secrets, and how they end."""

from __future__ import annotations

import re

import pytest

from .test_commands import LOG, refused, run


@pytest.mark.parametrize(
    "arguments",
    [
        ["redis://:hidden@localhost"],
        ["top", "redis://:hidden@localhost", "redis://:hidden@localhost"],
        ["top", "redis://:hidden@localhost/x"],
        ["top", "redis://:hidden@localhost:0"],
        ["top", "rediss://localhost?ssl_password=hidden&ssl_keyfile=hidden"],
        ["top", "redis://localhost?ssl_password=hidden"],
        ["top", "redis://localhost?password=hidden"],
        ["check", "redis://:hidden@localhost", "--name", "a b", "--limits", "1/second", "x"],
        ["check", "redis://:hidden@localhost", "--name", "a", "--limits", "1/second"],
        ["lock", "redis://:hidden@localhost", "--policy", "a", "x", "-5"],
        ["top", "shm://u:hidden@x"],
        ["top", "shm://u:hid%64en%40hidden"],
        ["top", "shm://u:hidden@x/y?mode=600"],
        ["replay", "https://u:hidden@x/access.log", "--limits", "1/s"],
        ["top", "memory://"],
        ["top", "env:NO_SUCH_VARIABLE"],
        ["shm", "show", "redis://:hidden@localhost"],
    ],
)
def test_wrong_usage_is_told_without_secrets(arguments):
    message = refused(2, *arguments)
    assert "Error: " in message
    assert "hidden" not in message


ABOUT = {
    "check": ["--policy", "p", "--limits", "1/s", "x"],
    "doctor": [],
    "top": [],
    "show": ["--policy", "p", "x"],
    "reset": ["--policy", "p", "x"],
    "lock": ["--policy", "p", "x", "5"],
    "unlock": ["--policy", "p", "x"],
    "locked": [],
    "watch": ["--count", "1"],
    "bench": [],
}
NOBODY = "redis://127.0.0.1:1/0"
NOT_UTF_8 = "\udcff"
NO_POLICIES = ("", "a b", "lo[g]in", "*", "logi?", "x" * 65, NOT_UTF_8)
OF_LOGS = {"replay": ["--limits", "1/s"], "compare": ["--policy", "a=1/s"], "read": []}


def wrong_usage():
    """Yield command lines that are wrong in one place each, and what the error names."""
    for name, rest in ABOUT.items():
        yield [name, NOBODY, *rest, "--nope"], "--nope"
        yield [name], "URL|--policy|ID"
        for url in ("", "http://x", "redis://h:-1", f"redis://{NOT_UTF_8}:0", "env:", f"shm:///{NOT_UTF_8}"):
            yield [name, url, *rest], "URL"
        for policy in (
            ("", "a b", "lo[g]in", "*", "logi?", "x" * 65, NOT_UTF_8)
            if name not in {"doctor", "bench"}
            else ()
        ):
            yield [name, NOBODY, *rest, "--policy", policy], "name of a policy has"
        if name != "check":  # which takes several identifiers
            yield [name, NOBODY, *rest, "extra", "extra"], "extra"
    for name, option, values in (
        *((name, "--keys", ["-1", "0", "", "x"]) for name in ("top", "locked", "watch")),
        ("top", "-n", ["-1", "", "nan"]),
        ("watch", "--every", ["0", "-1", "", "nan", "-inf", "1e9"]),
        ("watch", "--count", ["0", "-1", "1.5"]),
        ("bench", "--seconds", ["0", "-1", "inf", "nan", NOT_UTF_8]),
        ("bench", "--threads", ["0", "65"]),
        ("bench", "--identifiers", ["0", "-1"]),
        ("check", "--cost", ["-1", "1.5", ""]),
        *(
            (name, "--limits", ["", "-1/s", "1/fortnight", f"{NOT_UTF_8}/s"])
            for name in ("check", "top", "bench")
        ),
    ):
        for value in values:
            yield [name, NOBODY, *ABOUT[name], option, value], r"\^" if "/" in value else option.strip("-")
        yield [name, NOBODY, *ABOUT[name], option], option
    for seconds in ("", "0", "-1", "inf", "nan", "1h", NOT_UTF_8):
        yield ["lock", NOBODY, "--policy", "p", "x", "--", seconds], "SECONDS"
    for name in ("check", "show", "reset", "unlock"):
        yield [name, NOBODY, *ABOUT[name][:-1], ""], "must not be empty"
    yield ["lock", NOBODY, "--policy", "p", "", "9"], "must not be empty"


def wrong_usage_besides():
    """Yield those of the commands that ask no server."""
    for name, rest in OF_LOGS.items():
        yield [name, LOG, *rest, "--nope"], "--nope"
        yield [name, *rest], "LOG"
        for option, value in (
            *(("--where", ""), ("--where", NOT_UTF_8), ("--columns", ""), ("--cost", "-1")),
            *(("--ipv6-prefix", "-1"), ("--timezone", ""), ("--trusted-proxies", "x"), ("--since", "")),
        ):
            yield [name, LOG, *rest, option, value], option
        yield [name, "", *rest], "must not be empty"
        yield [name, f"/{NOT_UTF_8}", *rest], "No such file"
    for value in ("", "-1", "0", "nan", "inf", "1x"):
        yield ["replay", LOG, "--limits", "1/s", "--every", value], "--every"
    for value in ("-1", "0", "nan", "inf"):
        yield ["replay", LOG, "--limits", "1/s", "--lock", value], "--lock"
    for value in ("-1", "2", "nan", "inf"):
        suggest = ["suggest", LOG, "--limits", "{}/s", "--between", "1", "2"]
        yield [*suggest, "--refuse-at-most", value], "--refuse-at-most"
    yield ["replay", LOG, "--limits", "1/s", "--png", ""], "''"
    for app in ("", "nofile", "json:nope", f"{NOT_UTF_8}:app"):
        yield ["routes", app], "module"
    yield ["routes", "main:app", "--app-dir", "/nowhere"], "--app-dir"
    for rest in (["list", "a", "b"], ["show"], ["show", NOBODY], ["remove", "shm://x", "--json"], ["nope"]):
        yield ["shm", *rest], "unexpected|URL|shared memory|--yes|nope"


def test_wrong_arguments_are_told_in_a_sentence():
    for arguments, named in (*wrong_usage(), *wrong_usage_besides()):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), (arguments, done)
        assert "Traceback" not in done.stderr, arguments
        told = done.stderr[done.stderr.index("Error: ") :]
        assert re.search(named, told), (arguments, told)
        assert told.count("\n") <= 4, (arguments, told)  # a limit is shown with a mark below what is wrong
