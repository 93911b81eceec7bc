"""Drives the example app behind a real HTTP server and checks what it claims.

Users and addresses are limited together by ``10/second; 120/minute; 240/hour``. Prints a timeline; exits
with 0 when every claim held and with 1 when one failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

PER_SECOND, PER_MINUTE = 10, 120
READY = "serving on http://127.0.0.1:"
ROW = "{:>6}  {:<17}{:>5}  {:<18}{:>11}  {}"


class ClaimFailed(Exception):
    """The app doesn't do what this demo says it does."""


@dataclass
class Burst:
    """Requests of one user from one address, one right after the other, and what came back."""

    user: str
    address: str
    started: float
    statuses: list[int] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    refused_by: set[str] = field(default_factory=set)

    @property
    def passed(self) -> int:
        return self.statuses.count(200)

    @property
    def refused(self) -> int:
        return self.statuses.count(429)

    @property
    def tightest(self) -> str:
        """What the last answer says of the limit with least left."""
        items = self.headers["RateLimit"].split(", ")
        return min(items, key=lambda item: int(item.partition(";r=")[2].partition(";")[0]))

    @property
    def left_per_minute(self) -> int:
        """What the last answer says is left under the second of the limits, the one per minute."""
        state = self.headers["RateLimit"].split(", ")[1]
        return int(state.partition(";r=")[2].partition(";")[0])


class Visitors:
    """Send requests to the app over sockets, from any address of the loopback network."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._start = time.monotonic()
        self.statuses: list[int] = []
        """Of all answers."""

    def now(self) -> float:
        """Return the seconds since the demo started."""
        return time.monotonic() - self._start

    def send(self, user: str, address: str, times: int) -> Burst:
        burst = Burst(user, address, self.now())
        for _ in range(times):
            self._request(burst)
        return burst

    def send_until_refused(self, user: str, address: str, times: int) -> Burst:
        burst = Burst(user, address, self.now())
        while not burst.refused and len(burst.statuses) < times:
            self._request(burst)
        return burst

    def _request(self, burst: Burst) -> None:
        with closing(self._connect(burst.address)) as connection:
            connection.request("GET", "/hello", headers={"X-User": burst.user})
            answer = connection.getresponse()
            if answer.status not in (200, 429):
                raise ClaimFailed(f"the app answers with 200 or 429; seen: {answer.status} {answer.reason}")
            body = json.load(answer)
        burst.statuses.append(answer.status)
        self.statuses.append(answer.status)
        burst.headers = dict(answer.getheaders())
        if answer.status == 429:
            burst.refused_by.add(body["identifier"])

    def _connect(self, address: str) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=5, source_address=(address, 0))


def claim(text: str, holds: bool, seen: object) -> None:
    if not holds:
        raise ClaimFailed(f"{text}; seen: {seen}")
    print(f"        ok: {text}")


def title(text: str) -> None:
    print(f"\n{text}")
    print(ROW.format("time", "who", "sent", "status", "Retry-After", "RateLimit says last"))


def show(burst: Burst) -> Burst:
    who = f"{burst.user} {burst.address}"
    retry = burst.headers.get("Retry-After", "-")
    sent = len(burst.statuses)
    print(ROW.format(f"{burst.started:.2f}s", who, sent, counted(burst.statuses), retry, burst.tightest))
    return burst


def counted(statuses: list[int]) -> str:
    """Return how often each status was seen: ``8 x 200, 2 x 429``."""
    return ", ".join(f"{times} x {status}" for status, times in sorted(Counter(statuses).items()))


def most(seconds: float) -> int:
    """Return how many ``10/second`` may admit in this time: a burst takes longer on a slow machine."""
    return PER_SECOND * (1 + int(seconds))


def one_address_binds_both_users(visitors: Visitors) -> None:
    title("1. alice and bob come from one address: its 10/second binds both")
    started = visitors.now()
    alice = show(visitors.send("alice", "127.0.0.1", 8))
    bob = show(visitors.send("bob", "127.0.0.1", 8))
    passed, bound = alice.passed + bob.passed, most(visitors.now() - started)
    claim(f"at least {PER_SECOND} pass, and at most {bound}", PER_SECOND <= passed <= bound, passed)
    claim("alice, who came first, is never refused", alice.passed == 8, alice.statuses)
    claim("what refuses bob is the address", bob.refused_by <= {"ip:127.0.0.1"}, bob.refused_by)
    left = PER_MINUTE - passed
    claim(f"refused requests cost nothing: {left} left per minute", bob.left_per_minute == left, bob.headers)
    wait(bob)
    again = show(visitors.send("bob", "127.0.0.1", 1))
    claim("after Retry-After bob's next request passes", again.passed == 1, again.statuses)


def refused_user_costs_others_nothing(visitors: Visitors) -> None:
    title("2. frank has spent his second elsewhere: his requests cost carol's address nothing")
    started = visitors.now()
    show(visitors.send("frank", "127.0.0.2", 10))
    refused = show(visitors.send("frank", "127.0.0.3", 5))
    carol = show(visitors.send("carol", "127.0.0.3", 10))
    if visitors.now() - started < 1:
        claim("frank is refused at the second address too", refused.refused == 5, refused.statuses)
        claim("what refuses him is himself", refused.refused_by == {"user:frank"}, refused.refused_by)
        claim("carol has the address to herself: 10 of 10 pass", carol.passed == 10, carol.statuses)
    else:
        print("        (too slow to tell: this took more than the second that is limited)")
    left = PER_MINUTE - refused.passed - carol.passed
    claim(f"her address has {left} left per minute", carol.left_per_minute == left, carol.headers)


def storm_admits_no_more(visitors: Visitors) -> None:
    title("3. dave sends 40 requests over four connections at once")
    started = visitors.now()
    with ThreadPoolExecutor(4) as pool:
        bursts = list(pool.map(lambda _: visitors.send("dave", "127.0.0.4", 10), range(4)))
    passed, bound = sum(show(burst).passed for burst in bursts), most(visitors.now() - started)
    claim(f"at least {PER_SECOND} pass, and at most {bound}", PER_SECOND <= passed <= bound, passed)


def retry_after_is_right_each_time(visitors: Visitors) -> None:
    title("4. erin sends until she is refused, waits for Retry-After, and goes on")
    for round_ in range(3):
        started = visitors.now()
        erin = show(visitors.send_until_refused("erin", "127.0.0.5", 50))
        least, bound = 1 if round_ else PER_SECOND, most(visitors.now() - started)
        claim(f"at least {least} pass, and at most {bound}", least <= erin.passed <= bound, erin.statuses)
        claim("she is told to wait 1 or 2 seconds", erin.headers["Retry-After"] in ("1", "2"), erin.headers)
        wait(erin)
    again = show(visitors.send("erin", "127.0.0.5", 1))
    claim("after waiting her next request passes", again.passed == 1, again.statuses)


def wait(burst: Burst) -> None:
    time.sleep(int(burst.headers.get("Retry-After", 0)))


def run_demo(store: str) -> None:
    with example_server(store) as port:
        visitors = Visitors(port)
        print(f"the example app serves http://127.0.0.1:{port}/hello under 10/second; 120/minute; 240/hour")
        one_address_binds_both_users(visitors)
        refused_user_costs_others_nothing(visitors)
        storm_admits_no_more(visitors)
        retry_after_is_right_each_time(visitors)
        print(f"\nevery claim held, in {visitors.now():.1f} s; seen: {counted(visitors.statuses)}")
        print("200: the request passed. 429 Too Many Requests: refused, and Retry-After said when to return.")


@contextmanager
def example_server(store: str) -> Iterator[int]:
    """Serve the example app in a process of its own and yield the port."""
    # A prefix for each run: in Redis the counts of the one before are still there.
    own = {"OVERLIMIT_STORE": store, "FLASK_RATELIMIT_KEY_PREFIX": f"demo-{secrets.token_hex(4)}"}
    command = [sys.executable, __file__, "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **own}) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise ClaimFailed("the example app starts and says where; its own words are above")
            yield int(line.removeprefix(READY).partition("/")[0])
        finally:
            process.terminate()


def serve(port: int) -> None:
    """Serve the example app and its page until interrupted."""
    from werkzeug.serving import make_server

    sys.path.insert(0, str(Path(__file__).parent))
    from flask_app import app

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", port, app, threaded=True)
    url = f"{READY}{server.server_port}/".removeprefix("serving on ")
    print(f"serving on {url}", flush=True)
    print(f"open it in a browser, or try: curl -i -H 'X-User: alice' {url}hello   (Ctrl-C stops)", flush=True)
    server.serve_forever()  # returns at Ctrl-C


def serve_by_workers(port: int, workers: int) -> None:
    """Serve the example app by gunicorn, whose workers share their counts in memory, until interrupted."""
    from overlimit import SharedMemoryStore

    here = str(Path(__file__).parent)
    if "OVERLIMIT_STORE" not in os.environ:
        name = f"overlimit-example-{port}"
        SharedMemoryStore(name).unlink()  # what an earlier run has counted
        os.environ["OVERLIMIT_STORE"] = f"shm://{name}?max_keys=10000&max_bytes=4194304"
    url = f"http://127.0.0.1:{port}/"
    print(f"{workers} workers share {os.environ['OVERLIMIT_STORE']}: open {url}   (Ctrl-C stops)", flush=True)
    options = f"--workers {workers} --threads 4 --keep-alive 30 --bind 127.0.0.1:{port}"
    os.execv(
        sys.executable, [sys.executable, "-m", "gunicorn", "--chdir", here, *options.split(), "flask_app:app"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--store", default="memory://", help="where the counts live, e.g. redis://localhost:6379/0"
    )
    parser.add_argument("--serve", action="store_true", help="only serve the example app, until Ctrl-C")
    parser.add_argument("--port", type=int, default=8000, help="the port of --serve; 0 takes a free one")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes of --serve, which share their counts"
    )
    options = parser.parse_args()
    if options.workers < 1:
        parser.error("--workers must be 1 or more")
    if not 0 <= options.port < 65536:
        parser.error("--port must be from 0 to 65535")
    try:
        if options.serve and options.workers > 1:
            serve_by_workers(options.port, options.workers)
        elif options.serve:
            serve(options.port)
        else:
            run_demo(options.store)
    except ClaimFailed as failure:
        print(f"\nclaim failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
