"""A store of one's own under trial: what it is given to call, and who calls it."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from overlimit.errors import StoreTimeout
from overlimit.stores.values import ValueStore, Write

T = TypeVar("T")
Values: TypeAlias = Sequence[bytes | None]
Writes: TypeAlias = "list[Write | None] | None"

LONG = 1000.0
HELD = 0.25
"""For how many seconds values are held while others want them."""
BEYOND = 1.0
"""How many seconds a store may take beyond what a call had left, on a busy machine."""
ONE_AT_A_TIME = "step is called by one thread at a time."
WHILE_IT_LASTS = "step is called before transact returns, and not afterwards."


class Broken(Exception):
    """A promise is broken, as the message says, and there is no use in going on."""


class Late(SystemExit):
    """Step was called long after its time: it ends the thread, by whatever is caught in it."""


class Seen(NamedTuple):
    """What step was given, and between which instants of time.monotonic."""

    values: list[bytes | None]
    now: Any
    after: float
    before: float


class TriedStep:
    """What a store is given to call: it notes what it is told, and answers as a promise needs."""

    def __init__(
        self, size: int, decide: Callable[[Values], Writes], seconds: float = 5.0, reads_only: bool = False
    ) -> None:
        self._size = size
        self._decide = decide
        self._begun_at = time.monotonic()
        self._ends_at = self._begun_at + seconds
        self.reads_only = reads_only
        self.seen: list[Seen] = []
        self.misuses: list[str] = []
        self._turn = threading.Lock()
        self._is_over = self._has_returned = False

    def __call__(self, values: Values, now: Any = None) -> Writes:
        if not self._turn.acquire(blocking=False):
            self.misuses.append(ONE_AT_A_TIME)
            raise RuntimeError(ONE_AT_A_TIME)
        try:
            if self._is_over:
                self.misuses += [WHILE_IT_LASTS] * self._has_returned
                raise RuntimeError(WHILE_IT_LASTS)
            return self._answer(values, now)
        finally:
            self._turn.release()

    def end(self, has_returned: bool) -> None:
        """Say that transact is over: one that has raised may leave a thread behind, whose call is refused."""
        self._is_over, self._has_returned = True, has_returned

    def _answer(self, values: Values, now: Any) -> Writes:
        given = [
            None if value is None else bytes(memoryview(value)) for value in islice(values, self._size + 1)
        ]
        if len(given) != self._size:
            count = "more" if len(given) > self._size else len(given)
            raise ValueError(f"values must be as many as the keys: {self._size}, not {count}")
        self.seen.append(Seen(given, now, self._begun_at, time.monotonic()))
        if self.seen[-1].before > self._ends_at + 2 * BEYOND:
            raise Late("A call ends when its time is over, and does not call step seconds after that.")
        if self.time_left() == 0:
            raise StoreTimeout("the store did not hold the values in time")
        return self._decide(given)

    def time_left(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())


class Tried:
    """A store under trial, with keys that are its own."""

    def __init__(self, make: Callable[[], ValueStore], misuses: list[str] | None = None) -> None:
        self.make = make
        self.misuses = [] if misuses is None else misuses
        self.store = make()
        self.most = min(self.store.max_keys, 256)
        self.seen: list[Seen] = []
        self._name = secrets.token_hex(8)

    def beside(self) -> Tried:
        """Return the same place as another has opened it."""
        return Tried(self.make, self.misuses)

    def keys(self, count: int, name: str = "k") -> list[str]:
        return [f"check:{self._name}:{name}{number:04}" for number in range(count)]

    def run(self, keys: Sequence[str], decide: Callable[[Values], Writes], **how: Any) -> TriedStep:
        step = TriedStep(len(keys), decide, **how)
        step.misuses = self.misuses
        has_returned = False
        try:
            self.transact(keys, step)
            has_returned = True
        finally:
            step.end(has_returned)
        if not step.seen:
            raise Broken("transact calls step, or raises what kept it from that: it returned without either.")
        self.seen.append(step.seen[-1])
        return step

    def transact(self, keys: Sequence[str], step: Any) -> None:
        self.store.transact(keys, step)

    def read(self, keys: Sequence[str]) -> list[bytes | None]:
        parts = [keys[first : first + self.most] for first in range(0, len(keys), self.most)]
        steps = [self.run(part, lambda _: None, reads_only=True) for part in parts]
        return [value for step in steps for value in step.seen[-1].values]

    def write(self, keys: Sequence[str], values: Values, expires_in: float = LONG) -> None:
        if len(keys) > self.most:
            self.write(keys[self.most :], values[self.most :], expires_in)
        writes = [None if value is None else Write(value, expires_in) for value in values[: self.most]]
        self.run(keys[: self.most], lambda _: writes)

    def add(self, keys: Sequence[str], **how: Any) -> TriedStep:
        """Add one to the number under each key."""
        return self.run(keys, one_more, **how)

    def count(self, keys: Sequence[str]) -> list[int]:
        return numbers(self.read(keys))


class AwaitedTried(Tried):
    """The same by ``transact_async``, on an event loop in another thread."""

    def __init__(self, make: Callable[[], ValueStore], misuses: list[str]) -> None:
        super().__init__(make, misuses)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def transact(self, keys: Sequence[str], step: Any) -> None:
        store: Any = self.store
        asyncio.run_coroutine_threadsafe(store.transact_async(keys, step), self.loop).result()

    def turn(self) -> None:
        """Wait until another task has had its turn on the loop."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result()


def numbers(values: Values) -> list[int]:
    return [int(value or b"0") for value in values]


def one_more(values: Values) -> Writes:
    return [Write(b"%d" % (number + 1), LONG) for number in numbers(values)]


def aside(work: Callable[[], T]) -> Future[T]:
    """Do it in another thread, for which the process does not wait at its end."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def is_done(work: Future[Any], seconds: float) -> bool:
    """Whether it is done once so many seconds have passed."""
    return work in wait([work], seconds).done
