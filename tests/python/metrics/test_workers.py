"""One sum of all worker processes, whatever becomes of them, as each of them exposes it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection

import pytest

import programs
from scraping import samples_in
from servers.gunicorn import Gunicorn
from servers.patience import PATIENCE, eventually

APP = """
import os
from flask import Flask
from prometheus_client import CollectorRegistry, make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
import overlimit.metrics
from overlimit import Limiter

registry = CollectorRegistry()
overlimit.metrics.prometheus(registry)
limiter = Limiter("100000/day", name="shop")
shop = Flask("shop")
shop.get("/health")(lambda: "ok")

@shop.get("/")
def page():
    limiter.hit("everybody")
    return str(os.getpid())

app = DispatcherMiddleware(shop, {"/metrics": make_wsgi_app(registry)})
"""
ALLOWED = ("overlimit_decisions_total", ("limit", "100000-per-86400s"), ("outcome", "allowed"),
           ("policy", "shop"), ("source", "store"))  # fmt: skip


def ask(server, path):
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()


def allowed(server):
    return samples_in(ask(server, "/metrics"))[ALLOWED]


def requested(server, count):
    return Counter(int(ask(server, "/")) for _ in range(count))


@pytest.mark.check
@pytest.mark.parametrize("more", ["", "--preload"])
def test_all_workers_show_one_sum_also_of_one_that_was_killed(tmp_path, request, more):
    (tmp_path / "shop.py").write_text(APP)
    counters = tmp_path / "counters"
    server = Gunicorn(
        "shop:app",
        tmp_path,
        health="/health",
        log=tmp_path / "log",
        environment={"PROMETHEUS_MULTIPROC_DIR": str(counters)},
        more=more,
    )
    request.addfinalizer(server.stop)
    workers = Counter()
    eventually(lambda: workers.update(requested(server, 20)) or len(workers) == 2)
    assert {allowed(server) for _ in range(8)} == {workers.total()}
    killed = next(iter(workers))
    os.kill(killed, signal.SIGKILL)
    after = Counter()
    eventually(lambda: after.update(requested(server, 10)) or after.keys() - workers.keys())
    assert killed not in after
    assert {allowed(server) for _ in range(8)} == {workers.total() + after.total()}
    assert not list(counters.glob(f"*-{killed}-*.counters"))
    assert len(list(counters.glob("*.counters"))) == (3 if more else 2)


SHARED = """
import os, sys
from prometheus_client import CollectorRegistry, generate_latest
import overlimit.metrics
from overlimit import Limiter

registry = CollectorRegistry()
overlimit.metrics.prometheus(registry, directory=sys.argv[1], max_policies=int(sys.argv[2]))
limiter = Limiter("9/minute", name=sys.argv[3])
limiter.hit("a")
"""
SHOW = "print(generate_latest(registry).decode())"


def shown(directory, policy, program=SHARED + SHOW, max_policies=9):
    return samples_in(programs.output_of(program, directory, max_policies, policy))


LEASES = """
import sys
from prometheus_client import CollectorRegistry, generate_latest
import overlimit.metrics
from overlimit import Limiter

registry = CollectorRegistry()
overlimit.metrics.prometheus(registry, directory=sys.argv[1])
limiter = Limiter("100000/hour", name=sys.argv[3], store=sys.argv[4])
while limiter.stats()["held"] == 0:
    limiter.hit("a")
held = limiter.stats()["held"]
limiter.store.close()
print("#", held)
print(generate_latest(registry).decode())
"""


def test_units_of_leases_are_those_of_all_processes(tmp_path, redis_server, prefix):
    url = f"{redis_server.unix_url()}&prefix={prefix}&timeout={PATIENCE}&lease=10"
    held, restored = 0, ("overlimit_restored_keys_total", ("store", url.partition("&")[0]))
    for _ in range(2):
        said = programs.output_of(LEASES, tmp_path, 9, "p", url)
        held += int(said.split()[1])
    samples = samples_in(said)
    named = {name: samples[f"overlimit_{name}_units_total", ("policy", "p")] for name in UNITS}
    assert named == {"granted": pytest.approx(held, abs=20), "returned": held, "lapsed": 0}
    assert named["granted"] >= held
    assert samples[restored] == 0
    assert not any(name == "overlimit_leased_units" for name, *_ in samples)


def test_what_a_process_held_that_was_killed_has_lapsed(tmp_path, redis_server, prefix):
    url = f"{redis_server.unix_url()}&prefix={prefix}&timeout={PATIENCE}&lease=10"
    before = LEASES.partition("limiter.store.close()")[0]
    dies = before + 'print("#", held, flush=True)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n'
    killed = programs.run(dies, tmp_path, 9, "p", url)
    held = int(killed.stdout.split()[1])
    assert (killed.returncode, held > 0) == (-signal.SIGKILL, True)
    said = programs.output_of(LEASES, tmp_path, 9, "p", url)
    for _ in range(2):
        samples = samples_in(said)
        named = {name: samples[f"overlimit_{name}_units_total", ("policy", "p")] for name in UNITS}
        assert held <= named["lapsed"] <= held + 20
        assert named["granted"] >= named["lapsed"] + named["returned"]
        said = programs.output_of(LEASES, tmp_path, 9, "p", url)


UNITS = ("granted", "returned", "lapsed")


def counted(samples):
    return {dict(key[1:])["policy"]: value for key, value in samples.items() if "allowed" in str(key)}


def test_what_dead_processes_counted_is_added_once_even_if_the_one_that_adds_it_dies(tmp_path):
    shown(tmp_path, "p")
    dies = "os.unlink = lambda path: os._exit(3)\nimport pathlib\npathlib.Path.unlink = os.unlink\n" + SHOW
    assert programs.run(SHARED + dies, tmp_path, 9, "p").returncode == 3
    assert counted(shown(tmp_path, "p")) == {"p": 3}
    assert counted(shown(tmp_path, "p")) == {"p": 4}
    assert len(list(tmp_path.glob("*.counters"))) == 1


def test_all_processes_give_the_same_policies_series_of_their_own(tmp_path):
    for policy in ("z", "a"):
        shown(tmp_path, policy, max_policies=1)
    assert counted(shown(tmp_path, "b", max_policies=1)) == {"z": 1, "(other)": 2}


def test_a_child_that_forks_has_a_file_of_its_own(tmp_path):
    forks = (
        """
for _ in range(2):
    if os.fork() == 0:
        limiter.hit("a")
        Limiter("9/minute", name="child").hit("a")
        os._exit(0)
    os.wait()
"""
        + SHOW
    )
    said = programs.run(SHARED + forks, tmp_path, 9, "p").stdout
    assert counted(samples_in(said)) == {"p": 3, "child": 2}


def test_a_process_has_one_directory(tmp_path):
    other = (
        """
overlimit.metrics.prometheus(CollectorRegistry(), directory=sys.argv[1])
try:
    overlimit.metrics.prometheus(CollectorRegistry(), directory=sys.argv[1] + "/other")
except ValueError as error:
    print("#", error)
"""
        + SHOW
    )
    said = programs.output_of(SHARED + other, tmp_path, 9, "p")
    assert "directory must be that of before" in said
    assert counted(samples_in(said)) == {"p": 1}
