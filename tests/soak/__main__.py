"""``python -m soak``: see --help."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import queue
import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from servers.patience import eventually

from .targets import ProxiedServer, Target, WatchedMaster
from .verdict import RECOVERY, Resources, Verdict
from .worker import OVER, Assignment, identifier_of, work

ROUND = 3.0
"""Seconds for which one identifier is hit."""


class Soak:
    """Workers on targets, faults for each target, and the verdict."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.verdict = Verdict(arguments.limit, arguments.timeout)
        self._stack = ExitStack()
        self._context = multiprocessing.get_context("spawn")
        self._round = self._context.RawValue("q", 0)
        self._tallies: Any = self._context.Queue()
        self._targets: list[Target] = []
        self._jobs: dict[str, Assignment] = {}
        self._workers: dict[str, list[tuple[Any, Any]]] = {}
        self._resources: dict[str, Resources] = {}
        self._over = threading.Event()

    def run(self) -> bool:
        """Run for the time asked for; whether all was as promised."""
        began = time.monotonic()
        with self._stack:
            self._start()
            faults = [threading.Thread(target=self._torment, args=(target,)) for target in self._targets]
            for thread in faults:
                thread.start()
            try:
                while time.monotonic() - began < self._arguments.minutes * 60:
                    self._next_second(began)
            finally:
                # Before the servers are stopped: a fault may be about to start one again.
                self._over.set()
                for thread in faults:
                    thread.join()
            self._finish()
        return not self.verdict.complaints

    def _start(self) -> None:
        kinds = [ProxiedServer, *([WatchedMaster] if self._arguments.sentinels else [])]
        prefix = f"soak{secrets.token_hex(4)}"
        for kind in kinds:
            target = kind(self._arguments.seed)
            self._stack.callback(target.stop)
            self._targets.append(target)
            self._assign(target, prefix)
        for target in self._targets:
            self._await_answers(target, within=30.0)

    def _assign(self, target: Target, prefix: str) -> None:
        options = self._arguments
        job = Assignment(target.name, target.url, prefix, options.limit, options.timeout, options.threads)
        self._workers[target.name] = []
        for index in range(options.processes):
            answered = self._context.RawValue("q", 0)
            worker = self._context.Process(target=work, args=(job, self._round, answered, self._tallies))
            worker.start()
            self._stack.callback(worker.kill)
            self._workers[target.name].append((worker, answered))
            self._resources[f"{target.name} worker {index}"] = Resources()
        self._jobs[target.name] = job

    def _next_second(self, began: float) -> None:
        time.sleep(1.0)
        elapsed = time.monotonic() - began
        self._round.value = int(elapsed / ROUND)
        self._collect()
        workers = [worker for each in self._workers.values() for worker, _ in each]
        for worker, used in zip(workers, self._resources.values(), strict=True):
            used.sample(worker.pid)
        faults = sum(self.verdict.faults.values())
        print(
            f"\r{elapsed:6.0f} s  {faults} faults  {len(self.verdict.complaints)} wrong ",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def _torment(self, target: Target) -> None:
        chosen = random.Random(f"{self._arguments.seed} {target.name}")
        for name in _shuffled_again_and_again(list(target.faults), chosen):
            if self._over.is_set():
                return
            first = self._round.value
            target.faults[name]()
            if name in target.losing:
                self.verdict.note_loss(target.name, first, self._round.value)
            self.verdict.note_recovery(f"{target.name} {name}", self._recovery(target))
            self._over.wait(chosen.uniform(0.1, 0.8))

    def _recovery(self, target: Target) -> float | None:
        try:
            return self._await_answers(target, within=RECOVERY)
        except AssertionError:
            return None

    def _await_answers(self, target: Target, *, within: float) -> float:
        """Wait until every worker of the target has had an answer from now on."""
        known = [(answered, answered.value) for _, answered in self._workers[target.name]]

        def all_answered() -> bool:
            self._check_workers(target)
            return all(answered.value > before for answered, before in known)

        return eventually(all_answered, within=within)

    def _check_workers(self, target: Target) -> None:
        for worker, _ in self._workers[target.name]:
            if worker.exitcode is not None:
                raise RuntimeError(f"a worker for {target.name} ended with {worker.exitcode}")

    def _finish(self) -> None:
        self._round.value = OVER
        for worker, _ in (each for workers in self._workers.values() for each in workers):
            while worker.is_alive():
                self._collect()
                worker.join(0.05)
            if worker.exitcode != 0:
                self.verdict.complaints.append(f"a worker ended with {worker.exitcode}")
        self._collect()
        for target in self._targets:
            self._compare(target)
        self.verdict.close(self._resources)

    def _collect(self) -> None:
        while True:
            try:
                self.verdict.enter(self._tallies.get(timeout=0.05))
            except queue.Empty:
                return

    def _compare(self, target: Target) -> None:
        direct = dataclasses.replace(self._jobs[target.name], url=target.counting_url, timeout=10.0).limiter()
        last_loss = max((number for name, number in self.verdict.losses if name == target.name), default=-1)
        for name, number in sorted(self.verdict.tallies):
            if name == target.name and number > last_loss:
                left = direct.peek(identifier_of(number), cost=0).remaining
                self.verdict.compare(name, number, self._arguments.limit - left)


def _shuffled_again_and_again(names: list[str], chosen: random.Random) -> Iterator[str]:
    while True:
        yield from chosen.sample(names, len(names))


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="soak",
        description="Call limiters on Redis from threads and processes while Redis is killed, stopped, cut "
        "off and failed over at random. Ends with status 0 if no more was admitted than promised, every call "
        "ended in time, every store was used again within 3 s, and nothing leaked; else with 1.",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="callers per store (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=3, help="threads of each (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=300, help="admitted a round (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=0.1, help="of a call, in s (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: another each time)")
    parser.add_argument(
        "--sentinels",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also call a master that sentinels fail over (default: yes)",
    )
    chosen = parser.parse_args(arguments)
    if chosen.seed is None:
        chosen.seed = secrets.randbelow(1_000_000)
    return chosen


def main() -> int:
    arguments = parsed(sys.argv[1:])
    print(f"seed           {arguments.seed}", flush=True)
    soak = Soak(arguments)
    well = soak.run()
    print(file=sys.stderr)
    print(soak.verdict.report())
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
