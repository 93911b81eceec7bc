"""The commands for operators where nothing can be asked: what they say, without secrets, and how they end."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from contextlib import ExitStack

import pytest

from servers.patience import PATIENCE

from .test_commands import refused, run
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
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening = threading.Thread(target=say, args=(listener, said))
        listening.start()
        try:
            port = listener.getsockname()[1]
            url = f"redis://:hidden@127.0.0.1:{port}/0?timeout={PATIENCE}"
            done = run(command[0], url, *command[1:])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listening.join()
    assert done.returncode == 2
    assert done.stderr.startswith("broken: ")
    assert "it sent something that is not a Redis reply" in done.stderr
    assert "hidden" not in done.stdout + done.stderr


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
