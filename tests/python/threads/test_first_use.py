"""What is made at its first use is made once, however many threads come first: each time in a new process."""

from __future__ import annotations

import os
import sys
import sysconfig

import pytest

from programs import output_of

IN_THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor

start = threading.Barrier(4)
sys.setswitchinterval(1e-5)

def at_once(work):
    def run(_):
        start.wait(60)
        return work()
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(run, range(4)))
"""

FIRST_IMPORT = """
def hit():
    from overlimit import Limiter
    limiter = Limiter("7/day", name="first")
    return sum(bool(limiter.hit("a")) for _ in range(5))

print(sum(at_once(hit)))
"""

FIRST_CALL = """
from overlimit import Limiter, ManualClock
clock = ManualClock()
limiter = Limiter("7/day", clock=clock)

def hit():
    try:
        limiter.hit("a").no_such_attribute
    except AttributeError:
        pass
    return sum(bool(limiter.hit("a")) for _ in range(4))

at_once(hit)
print(7 - limiter.peek("a", cost=0).remaining)
"""

FIRST_STORE_OF_A_CLOCK = """
from overlimit import Limiter, ManualClock
clock = ManualClock()
print(sum(at_once(lambda: sum(bool(Limiter("7/day", name="a", clock=clock).hit("a")) for _ in range(5)))))
"""

FIRST_OVER_LIMIT = """
from overlimit import over_limit
print(sum(at_once(lambda: sum(not over_limit("memory://", 86_400, 7, identifiers="a") for _ in range(5)))))
"""

FIRST_CALENDAR = """
from overlimit import FixedWindow, Limiter
limiter = Limiter(FixedWindow(7, "month", start="calendar", timezone="Europe/Berlin"))
print(sum(at_once(lambda: sum(bool(limiter.hit("a")) for _ in range(5)))))
"""

FIRST_REQUEST = """
def make():
    from flask import Flask
    from overlimit.flask import rate_limit
    app = Flask("app")
    app.get("/")(rate_limit("7/day")(lambda: "ok"))
    return app

apps = at_once(make)
import logging
logging.disable()

def passed(app):
    return sum(at_once(lambda: sum(app.test_client().get("/").status_code == 200 for _ in range(4))))

assert {passed(app) for app in apps} == {7}
print(7)
"""


@pytest.mark.parametrize(
    "program",
    [FIRST_IMPORT, FIRST_CALL, FIRST_STORE_OF_A_CLOCK, FIRST_OVER_LIMIT, FIRST_CALENDAR, FIRST_REQUEST],
    ids=["import", "call", "clock", "over_limit", "calendar", "request"],
)
def test_a_limit_holds_from_the_first_call_on(program):
    assert output_of(IN_THREADS + program) == "7\n"


HAS_GIL = "import sys; has_gil = getattr(sys, '_is_gil_enabled', lambda: True);"


def test_the_gil_stays_off_where_it_is_off():
    """As of Python 3.14; before it the package asks for it, which warns."""
    needs_it = sys.version_info < (3, 14) or not sysconfig.get_config_var("Py_GIL_DISABLED")
    usual = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    program = f"{HAS_GIL} import overlimit, overlimit.flask; print(has_gil())"
    if needs_it:
        program = f"import warnings; warnings.simplefilter('ignore'); {program}"
    assert output_of(program, env=usual) == f"{needs_it}\n"
    # Nor has anything that these tests import turned it on.
    assert getattr(sys, "_is_gil_enabled", lambda: True)() is needs_it
