"""What a store of one's own promises the engine, tried on it."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from typing import Any, TypeAlias

from overlimit.stores.values import ValueStore, Write

Values: TypeAlias = Sequence[bytes | None]
Writes: TypeAlias = "list[Write | None] | None"

_LONG = 1000.0
_HELD = 0.3
"""For how many seconds values are held while others want them."""
_BEYOND = 1.0
"""How many seconds a store may take beyond what a call had left, on a busy machine."""
_TASKS = 4
_ROUNDS = 8


def check_store(make: Callable[[], ValueStore]) -> None:
    """Try a store of one's own; raise AssertionError with a sentence for each promise that it breaks.

    It writes under some keys with random names, which it leaves there to expire, and takes a few seconds.
    Some promises are kept by luck now and then, so a store is not proven right: run it several times.

    Parameters
    ----------
    make
        Opens the same place anew at each call, as another process would: a store whose values others see has
        to show each what the others have written.

    Raises
    ------
    AssertionError
        The promises that are broken, a sentence for each. What the store raised is in them.
    """
    broken = [each for promise in _PROMISES for each in _broken(promise, _Tried(make))]
    assert not broken, "\n".join(broken)


class _Step:
    """What a store is given to call: it counts what it is told, and answers as a promise needs."""

    def __init__(
        self, decide: Callable[[Values], Writes], seconds: float = 5.0, reads_only: bool = False
    ) -> None:
        self._decide = decide
        self._ends_at = time.monotonic() + seconds
        self.reads_only = reads_only
        self.values: Values | None = None
        self.now: Any = None

    def __call__(self, values: Values, now: Any = None) -> Writes:
        self.values, self.now = list(values), now
        return self._decide(values)

    def time_left(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())


class _Tried:
    """A store under trial, with keys that are its own."""

    def __init__(self, make: Callable[[], ValueStore]) -> None:
        self.make = make
        self.store = make()
        self._name = secrets.token_hex(8)

    def keys(self, count: int, name: str = "k") -> list[str]:
        return [f"check:{self._name}:{name}{number:03}" for number in range(count)]

    def run(self, keys: Sequence[str], decide: Callable[[Values], Writes], **how: Any) -> _Step:
        store: ValueStore = how.pop("store", self.store)
        step: Any = _Step(decide, **how)
        store.transact(keys, step)
        assert step.values is not None, "transact returned without having called step"
        return step  # type: ignore[no-any-return]

    def read(self, keys: Sequence[str]) -> list[bytes | None]:
        values = self.run(keys, lambda values: None, reads_only=True).values
        return list(values or ())

    def write(self, keys: Sequence[str], values: Values, expires_in: float = _LONG) -> None:
        self.run(keys, lambda _: [None if value is None else Write(value, expires_in) for value in values])

    def add(self, keys: Sequence[str], **how: Any) -> _Step:
        """Add one to the number under each key."""
        return self.run(keys, _one_more, **how)


def _one_more(values: Values) -> Writes:
    return [Write(b"%d" % (int(value or b"0") + 1), _LONG) for value in values]


def _broken(promise: Callable[[_Tried], Iterator[str]], tried: _Tried) -> Iterator[str]:
    try:
        yield from promise(tried)
    except Exception as error:
        said = str(error).partition("\n")[0]
        yield f"{promise.__doc__} This raised {type(error).__name__}: {said}"


def _keeps_values(tried: _Tried) -> Iterator[str]:
    """Read what is written, whoever has opened the same place."""
    keys = sorted(key + "~" * (250 - len(key)) for key in (*tried.keys(2), *tried.keys(2, "_%*?[\\'\"")))
    values = [bytes(range(256)), b"\0", b"\xff" * 5000, b"'; --"]
    if tried.read(keys) != [None] * 4:
        yield "A key that nobody has written has the value None."
    tried.write(keys, values)
    if tried.read(keys) != values:
        yield "What is written is read, byte for byte, whatever printable characters are in the key."
    tried.store = tried.make()
    if tried.read(keys) != values:
        yield "What one object has written, another sees that was opened on the same place."


def _keeps_order(tried: _Tried) -> Iterator[str]:
    """Give values in the order of the keys, and as many."""
    keys = tried.keys(tried.store.max_keys)
    tried.write(keys, [None if number % 3 else b"%d" % number for number in range(len(keys))])
    if tried.read(keys) != [None if number % 3 else b"%d" % number for number in range(len(keys))]:
        yield f"Values are given in the order of the keys, for all {len(keys)} of max_keys."
    tried.run(keys[:1], lambda _: [None])
    if tried.read(keys[:1]) != [b"0"]:
        yield "A key for which step returns None stays as it is."
    tried.run(keys[:1], lambda _: None)
    if tried.read(keys[:1]) != [b"0"]:
        yield "If step returns None, nothing is written."


def _keeps_what_is_fresh(tried: _Tried) -> Iterator[str]:
    """Keep a value as long as it was last given."""
    (longer, *more) = keys = tried.keys(min(40, tried.store.max_keys))
    tried.write(keys, [b"short"] * len(keys), 0.05)
    tried.write([longer], [b"long"])
    time.sleep(0.2)
    for key in keys:
        tried.write([key + "-new"], [b"new"])
    if tried.read([longer]) != [b"long"]:
        yield "A value that is written again lives as long as the new one is given, not as the old one was."
    if any(tried.read([key]) not in ([None], [b"short"]) for key in more):
        yield "A value that has expired is read as it was, or as None."


def _writes_all_or_nothing(tried: _Tried) -> Iterator[str]:
    """End the call if step raises, and then write nothing."""
    keys = tried.keys(min(2, tried.store.max_keys))
    tried.write(keys, [b"1"] * len(keys))
    for error in (ValueError("raised by step"), KeyboardInterrupt("raised by step")):
        _raise_in_step(tried, keys, error)
        if tried.read(keys) != [b"1"] * len(keys):
            yield f"Nothing is written if step raises, such as a {type(error).__name__}."
        tried.add(keys)
        tried.write(keys, [b"1"] * len(keys))


def _raise_in_step(tried: _Tried, keys: Sequence[str], error: BaseException) -> None:
    def fail(_: Values) -> Writes:
        raise error

    try:
        tried.run(keys, fail)
    except BaseException as raised:
        if not isinstance(raised, type(error)) and not isinstance(raised, Exception):
            raise


def _lets_nobody_between(tried: _Tried) -> Iterator[str]:
    """Let nobody else write these keys between what step is given and what is written."""
    keys = tried.keys(min(3, tried.store.max_keys))
    before = time.monotonic()
    first, second = _meet(tried, keys)
    if isinstance(second, BaseException) or isinstance(first, BaseException):
        failed = first if isinstance(first, BaseException) else second
        yield f"Who meets another at a key gets its turn within the time that is left, and not a {failed!r}."
        return
    if time.monotonic() - before > 5.0 + _BEYOND:
        yield "Who meets another at a key is through within the time that is left."
    if tried.read(keys) != [b"2"] * len(keys):
        yield "Between what step is given and what is written, nobody else writes these keys."
    yield from _misdated(first, second)
    yield from _lost_by_many(tried)


def _meet(tried: _Tried, keys: Sequence[str]) -> list[Any]:
    """Have two write the same keys, of whom the first takes its time; return their last steps, or errors."""
    is_held = threading.Event()

    def take_time(values: Values) -> Writes:
        if not is_held.is_set():
            is_held.set()
            time.sleep(_HELD)
        return _one_more(values)

    def second() -> _Step:
        is_held.wait(5.0)
        time.sleep(_HELD / 3)
        return tried.add(keys, store=tried.make())

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(tried.run, keys, take_time), threads.submit(second)]
        return [each.exception() or each.result() for each in both]


def _misdated(first: _Step, second: _Step) -> Iterator[str]:
    """Yield what is wrong with the times that a store gave to two, one of whom saw what the other wrote."""
    times = [_number(step.now) for step in (first, second) if step.now is not None]
    if None in times:
        yield "now is a number of seconds since the Unix epoch."
    elif len(times) == 1:
        yield "A store gives the time each time or never."
    elif times and first.values is not None and second.values is not None:
        (earlier, later) = times if (first.values[0] or b"0") < (second.values[0] or b"0") else times[::-1]
        waited = _HELD / 2 if earlier == times[0] else 0.0
        if later - earlier < waited:
            yield "now is the time at which the values are held, after any waiting for others."


def _number(now: Any) -> Any:
    try:
        return Fraction(now)
    except (TypeError, ValueError):
        return None


def _lost_by_many(tried: _Tried) -> Iterator[str]:
    keys = tried.keys(3, "many")
    done: list[int] = []

    def work(number: int) -> None:
        store = tried.make()
        for turn in range(_ROUNDS):
            mine = keys[: 1 + (number + turn) % min(3, store.max_keys)]
            tried.add(mine, store=store)
            done.append(len(mine))

    with ThreadPoolExecutor(_TASKS) as threads:
        for each in [threads.submit(work, number) for number in range(_TASKS)]:
            each.result()
    counts = [sum(int(value or b"0") for value in tried.read([key])) for key in keys]
    if counts != [sum(size > place for size in done) for place in range(3)]:
        yield "Of what threads write under the same keys at once, nothing is lost and nothing is twice."


def _ends_in_time(tried: _Tried) -> Iterator[str]:
    """End a call when its time is over."""
    (key,) = tried.keys(1)
    is_held = threading.Event()

    def hold(values: Values) -> Writes:
        if not is_held.is_set():
            is_held.set()
            time.sleep(2 * _HELD + _BEYOND)
        return _one_more(values)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(tried.run, [key], hold)
        is_held.wait(5.0)
        began = time.monotonic()
        with suppress(Exception):  # its time is over
            tried.add([key], store=tried.make(), seconds=_HELD / 3)
        if time.monotonic() - began > _HELD + _BEYOND:
            yield "A call that waits for others ends when step.time_left() is 0."
        holding.exception()


def _works_in_children(tried: _Tried) -> Iterator[str]:
    """Go on in a forked child and in its parent, each with connections of its own."""
    if not hasattr(os, "fork"):
        return
    (key,) = tried.keys(1)
    tried.add([key])
    children = [_child(tried, key) for _ in range(2)]
    for _ in range(_ROUNDS):
        tried.add([key])
    if any(_status(child) != 0 for child in children):
        yield "A forked child can use the store that its parent has used."
    elif tried.store.is_shared and tried.read([key]) != [b"%d" % (1 + 3 * _ROUNDS)]:
        yield "Of what forked children write, nothing is lost."


def _child(tried: _Tried, key: str) -> int:
    child = os.fork()
    if child != 0:
        return child
    status = 1
    try:
        for _ in range(_ROUNDS):
            tried.add([key])
        status = 0
    finally:
        os._exit(status)


def _status(child: int) -> int:
    """Return the exit code of a child, which is ended if it hangs."""
    deadline = time.monotonic() + 5.0 * _ROUNDS
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            deadline += 5.0
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


def _lists_keys(tried: _Tried) -> Iterator[str]:
    """Return from scan() the keys that begin with a prefix, and their values."""
    if type(tried.store).scan is ValueStore.scan:
        return
    wanted = tried.keys(min(5, tried.store.max_keys), "a_b")
    others = [*tried.keys(1, "axb"), *tried.keys(1, "A_B"), *tried.keys(1, "a_")]
    for key in (*wanted, *others):
        tried.write([key], [key.encode()])
    prefix = wanted[0][:-3]
    found = list(tried.store.scan(prefix))
    if not {(key, key.encode()) for key in wanted} <= {(key, bytes(value)) for key, value in found}:
        yield "scan(prefix) returns each key that begins with the prefix, and its value."
    if any(key in others for key, _ in found):
        yield "scan(prefix) takes the prefix literally, so that _ and small letters mean themselves."


_PROMISES = (
    _keeps_values,
    _keeps_order,
    _keeps_what_is_fresh,
    _writes_all_or_nothing,
    _lets_nobody_between,
    _ends_in_time,
    _works_in_children,
    _lists_keys,
)
