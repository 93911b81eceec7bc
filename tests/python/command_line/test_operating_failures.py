"""The commands for operators where nothing can be asked: what they say, without secrets, and how they end."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from servers.patience import PATIENCE

from .test_commands import LOG, refused, run
from .test_operating import told


@pytest.mark.parametrize("command", ["top", "locked", "bench", "doctor"])
def test_a_server_that_is_not_there_is_unreachable(command):
    done = run(command, "redis://user:secret@127.0.0.1:1/0", "--json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["status"] == ("broken" if command == "doctor" else "unreachable")
    assert answer.get("reachable", False) is False
    assert done.stderr.startswith("unreachable: ")
    assert "secret" not in done.stdout + done.stderr


def test_a_wrong_password_is_broken_and_is_not_printed(start_redis):
    server = start_redis(password="right-secret")
    url = f"unix://:wrong-secret@{server.socket_path}?timeout={PATIENCE}"
    for command in (["top"], ["show", "--policy", "p", "x"], ["doctor"], ["bench"]):
        done = run(command[0], url, *command[1:], "--json")
        assert (done.returncode, json.loads(done.stdout)["status"]) == (2, "broken")
        assert done.stderr.startswith("broken: ")
        assert "-secret" not in done.stdout + done.stderr
    assert told(0, "top", f"{server.unix_url()}&timeout={PATIENCE}")["status"] == "ok"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"])
@pytest.mark.parametrize("command", [["top"], ["doctor"], ["check", "--name", "p", "--limits", "1/s", "x"]])
def test_what_is_no_redis_is_broken(command, said):
    with foreign(said) as port:
        done = run(command[0], f"redis://:hidden@127.0.0.1:{port}/0?timeout={PATIENCE}", *command[1:])
    assert done.returncode == 2
    assert done.stderr.startswith("broken: ")
    assert "it sent something that is not a Redis reply" in done.stderr
    assert "hidden" not in done.stdout + done.stderr


@contextlib.contextmanager
def foreign(said: bytes) -> Iterator[int]:
    """Have a server tell everybody who connects the same, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening = threading.Thread(target=say, args=(listener, said))
        listening.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listening.join()


def say(listener: socket.socket, said: bytes) -> None:
    """Tell everybody who connects the same, until nobody listens any more, and hear out what they say."""
    with contextlib.suppress(OSError), ExitStack() as connections:
        while True:
            connection = connections.enter_context(listener.accept()[0])
            connection.sendall(said)


def test_a_server_that_wants_a_password_says_so(start_redis):
    server = start_redis(password="right")
    url = f"redis://127.0.0.1:{server.port}/0?timeout={PATIENCE}"
    for command in (["top"], ["doctor"], ["show", "--policy", "p", "x"]):
        done = run(command[0], url, *command[1:])
        assert done.returncode == 2
        assert done.stderr.startswith("broken: ")
        assert "NOAUTH" in done.stderr


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
OF_LOGS = {"replay": ["--limits", "1/s"], "compare": ["--policy", "a=1/s"], "read": []}


def wrong_usage():
    """Yield command lines that are wrong in one place each, and what the error names."""
    for name, rest in ABOUT.items():
        yield [name, NOBODY, *rest, "--nope"], "--nope"
        yield [name], "URL|--policy|ID"
        for url in ("", "http://x", "redis://h:-1", f"redis://{NOT_UTF_8}:0", "env:", f"shm:///{NOT_UTF_8}"):
            yield [name, url, *rest], "URL"
        for policy in ("", "a b", NOT_UTF_8) if name not in {"doctor", "bench"} else ():
            yield [name, NOBODY, *rest, "--policy", policy], "name of a policy has"
        if name != "check":  # which takes several identifiers
            yield [name, NOBODY, *rest, "extra", "extra"], "extra"
    for name, option, values in (
        *((name, "--keys", ["-1", "0", "", "x"]) for name in ("top", "locked", "watch")),
        ("top", "-n", ["-1", "", "nan"]),
        ("watch", "--every", ["-1", "", "nan", "1e9"]),
        ("watch", "--count", ["0", "-1", "1.5"]),
        ("bench", "--seconds", ["0", "-1", "inf", NOT_UTF_8]),
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
    for seconds in ("", "0", "nan", "1h", NOT_UTF_8):
        yield ["lock", NOBODY, "--policy", "p", "x", seconds], "SECONDS"
    for name in ("check", "show", "reset", "unlock"):
        yield [name, NOBODY, *ABOUT[name][:-1], ""], "must not be empty"


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
    for value in ("", "-1", "1x"):
        yield ["replay", LOG, "--limits", "1/s", "--every", value], "--every"
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
