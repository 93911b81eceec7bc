"""A process ends in peace while daemon threads still use limiters."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import pytest

from overlimit.recipes import Concurrency
from programs import output_of

PROGRAM = """
    import sys, threading, time
    import overlimit
    from overlimit import Limiter, MemoryStore

    how, url = sys.argv[1:]
    clock = (lambda: 5.0) if how == "callable" else None
    store = MemoryStore() if how in ("details", "callable") else url
    limiter = Limiter("5/second", name="default", store=store, clock=clock)

    def use():
        while True:
            decision = limiter.hit("a")
            if how != "hit":
                decision.details

    for _ in range(4):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(0.2)
"""


@pytest.mark.check
@pytest.mark.parametrize("how", ["hit", "details", "callable", "redis details"])
def test_daemon_threads_in_a_call_do_not_abort_the_process(redis_server, how):
    for _ in range(3):
        assert output_of(PROGRAM, how, redis_server.unix_url() + "&timeout=10") == ""


HELD_AT_EXIT = """
    import asyncio, logging, sys
    from overlimit.aio import AsyncConcurrency
    from overlimit.recipes import Concurrency

    kind, url = sys.argv[1:]

    async def enter():
        return await AsyncConcurrency(1, longest=3600, name="slots", store=url).enter("user:42")

    # What a module refers to is let go of before the interpreter ends, but not this.
    if kind == "AsyncSlot":
        logging.held = asyncio.run(enter())
    else:
        logging.held = Concurrency(1, longest=3600, name="slots", store=url).enter("user:42")
    assert logging.held
"""


@pytest.mark.parametrize("kind", ["Slot", "AsyncSlot"])
def test_slots_that_are_held_at_exit_are_left_without_a_word(redis_server, kind):
    url = redis_server.unix_url()
    assert output_of(HELD_AT_EXIT, kind, "memory://") == ""
    assert [output_of(HELD_AT_EXIT, kind, url) for _ in range(2)] == ["", ""]
    slots = Concurrency(1, longest=3600, name="slots", store=url)
    assert slots.in_use("user:42") == 0
    assert slots.enter("user:42")


ENDED_DURING_A_WAIT = """
    import ctypes, signal, sys, threading, time
    from overlimit import Limiter

    def call_number(thread):
        with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
            return file.read().split()[0]

    def wait_for(*call_numbers):
        while call_number(waiter) not in call_numbers:
            time.sleep(0.001)

    # The process says when its interpreter has ended, and lasts a second longer.
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    pointer = lambda function: ctypes.cast(function, ctypes.c_void_p)
    libc.__cxa_atexit(pointer(libc.sleep), 1, None)
    libc.__cxa_atexit(pointer(libc.perror), ctypes.c_void_p(libc.strdup(b"ended")), None)
    # The thread that waits for a reply is held up by a signal's handler, until there is input.
    libc.signal(signal.SIGUSR1, pointer(libc.getchar))

    limiter = Limiter("5/second", name="default", store=sys.argv[1])
    waiter = threading.Thread(target=limiter.hit, args=["a"], daemon=True)
    waiter.start()
    wait_for("7", "45", "271")  # poll, recvfrom or ppoll
    signal.pthread_kill(waiter.ident, signal.SIGUSR1)
    wait_for("0")  # read
"""


def test_a_signal_to_a_waiting_thread_does_not_abort_a_process_whose_interpreter_has_ended():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}?timeout=10"
        program = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(ENDED_DURING_A_WAIT), url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with program:
            assert program.stderr.readline().startswith("ended")
            program.stdin.write("\n")
            program.stdin.close()
    assert program.returncode == 0
