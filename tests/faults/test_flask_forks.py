"""An app forks while its threads compile limits: the child answers requests, whatever they held."""

from __future__ import annotations

import os

import pytest

from .programs import run_program

pytestmark = [pytest.mark.longer_in_prove, pytest.mark.xdist_group("storms")]

TIMES = int(os.environ.get("PROVE", "1"))

PROGRAM = """
import logging, sys
from flask import Flask
from overlimit.flask import RateLimit

logging.getLogger("overlimit").setLevel(logging.ERROR)  # each child warns of counting on its own
sys.setswitchinterval(1e-5)
app = Flask("app")
limiter = RateLimit(app, default_limits=["1000000/day"], on_error="local")
for i in range(20):
    app.add_url_rule(f"/{i}", f"view{i}", lambda: "fine")
over = threading.Event()

def ask(i):
    assert app.test_client().get(f"/{i % 20}").status_code == 200

def request():
    i = 0
    while not over.is_set():
        ask(i := i + 1)

def switch():
    while not over.is_set():
        limiter.enabled = True

# What Werkzeug imports at its first request; a lock of Python's own is held meanwhile, in the child for ever.
ask(0)
threads = [threading.Thread(target=each) for each in (request, request, switch, switch)]
for thread in threads:
    thread.start()

def work():
    signal.alarm(10)
    for i in range(20):
        ask(i)
    limiter.enabled = True
    with limiter.disabled():
        ask(0)

for _ in range(int(sys.argv[1])):
    time.sleep(0.005)
    ended(in_child(work))
over.set()
for thread in threads:
    thread.join()
"""


def test_no_child_waits_for_who_compiled_in_its_parent(tmp_path):
    options = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
    run_program(PROGRAM, str(15 * TIMES), directory=tmp_path, options=options)
