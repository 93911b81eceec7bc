"""``python -m soak``: see --help."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import queue
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import redis

from servers.patience import eventually

from .targets import ProxiedServer, Target, WatchedMaster
from .verdict import RECOVERY, Resources, Verdict
from .worker import OVER, Assignment, identifier_of, work

ROUND = 3.0
"""Seconds for which one identifier is hit."""


class Soak:
    """Workers on targets, faults for each target, and the verdict."""

    def __init__(self, arguments: argparse.Namespace, kinds: Sequence[Callable[[int], Target]]) -> None:
        self._arguments = arguments
        self._kinds = kinds
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
            self._plan_faults()
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
        prefix = f"soak{secrets.token_hex(4)}"
        for kind in self._kinds:
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

    def _plan_faults(self) -> None:
        """Note the faults that there must be time for; more follow as long as the run lasts."""
        for target in self._targets:
            least = int(self._arguments.minutes * 60 / target.seconds_per_fault)
            for name in itertools.islice(self._faults_of(target), least):
                self.verdict.plan(f"{target.name} {name}")

    def _faults_of(self, target: Target) -> Iterator[str]:
        """Name its faults in the order of this run: again and again all of them, shuffled."""
        chosen = random.Random(f"{self._arguments.seed} {target.name}")
        while True:
            yield from chosen.sample(list(target.faults), len(target.faults))

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
        pauses = random.Random(self._arguments.seed)
        try:
            for name in self._faults_of(target):
                if self._over.is_set():
                    return
                self._inject(target, name)
                self._over.wait(pauses.uniform(0.1, 0.8))
        except Exception as error:  # nobody looks at what a thread raises
            self.verdict.complain(f"there were no more faults for {target.name}: {error!r}")

    def _inject(self, target: Target, name: str) -> None:
        first = self._round.value
        fault = f"{target.name} {name}"
        try:
            target.faults[name]()
            self.verdict.note_fault(fault)
        except (AssertionError, OSError, RuntimeError, redis.RedisError) as error:
            self.verdict.note_failed_fault(fault, error)
            target.mend()
        if name in target.losing:
            self.verdict.note_loss(target.name, first, self._round.value)
        self.verdict.note_recovery(fault, self._recovery(target))

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
                self.verdict.complain(f"a worker ended with {worker.exitcode}")
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


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="soak",
        description="Call limiters on Redis from threads and processes while Redis is killed, stopped, cut "
        "off and failed over at random. Ends with status 0 if no more was admitted than promised, every call "
        "ended in time, every store was used again within 3 s, nothing leaked, and the planned faults took "
        "place; else with 1.",
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
    soak = Soak(arguments, [ProxiedServer, *([WatchedMaster] if arguments.sentinels else [])])
    well = soak.run()
    print(file=sys.stderr)
    print(soak.verdict.report())
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
