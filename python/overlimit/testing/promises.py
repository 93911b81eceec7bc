"""What a store of one's own promises the engine, tried on it."""

from __future__ import annotations

import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from overlimit.stores.values import ValueStore, Write
from overlimit.testing._store_times import times_before_waits, wrong_times
from overlimit.testing._trials import (
    BEYOND,
    HELD,
    LONG,
    AwaitedTried,
    Broken,
    Late,
    Tried,
    TriedStep,
    Values,
    Writes,
    aside,
    is_done,
    one_more,
)

_LONGEST = 400 * 86400.0
_LONGEST_KEY = 250
_SHORT = 1.0
"""The engine has no value expire sooner."""
_NEVER = 60.0
"""What takes longer does not end."""
_PATIENT = 10.0
"""What takes longer waits for somebody who waits for it."""
_TASKS = 4
_ROUNDS = 8
_LARGE = bytes(range(250)) * 4000
"""The engine has larger ones only of several logs of thousands of entries each."""
_PAGES = 1200
"""As many keys as no database lists in one page."""


def check_store(make: Callable[[], ValueStore]) -> None:
    """Try a store of one's own; raise AssertionError with a sentence for each promise that it breaks.

    It writes under some thousand keys with random names, which it leaves there to expire, and takes a few
    seconds.
    Some promises are kept by luck now and then, so a store is not proven right: run it several times.

    Parameters
    ----------
    make
        Opens the same place anew at each call, as another process would: a store whose values others see has
        to show each what the others have written. What it has returned is closed at the end.

    Raises
    ------
    AssertionError
        The promises that are broken, a sentence for each. What the store raised is in them.
    """
    made: list[ValueStore] = []

    def opened() -> ValueStore:
        made.append(make())
        return made[-1]

    broken = [each for promise in _PROMISES for each in _broken(promise, opened)]
    for store in made:
        try:
            store.close()
        except Exception as error:
            broken.append(f"close() raises nothing, whatever is open. This raised {_told(error)}")
    if broken:
        raise AssertionError(
            "\n".join(dict.fromkeys(broken))
        )  # not by an assert, to which pytest would add its own lines


def _broken(promise: Callable[[Tried], Iterator[str]], make: Callable[[], ValueStore]) -> list[str]:
    """Return what is to be said of one promise."""
    said: list[str] = []
    misuses: list[str] = []
    trying = aside(lambda: said.extend(promise(Tried(make, misuses))))
    if not is_done(trying, _NEVER):
        return [*said, *misuses, f"{promise.__doc__} This has not ended within {_NEVER:g} seconds."]
    error = trying.exception()
    if isinstance(error, (Broken, Late)):
        said.append(str(error))
    elif error is not None:
        said.append(f"{promise.__doc__} This raised {_told(error)}")
    return [*said, *misuses]


def _told(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}"


def _keeps_values(tried: Tried) -> Iterator[str]:
    """Read what is written, whoever has opened the same place."""
    start = tried.keys(1, "")[0]
    ends = ["", *map(chr, range(ord("!"), ord("~") + 1)), "\\\\", "''", "%41", "%42"]
    keys = sorted(start.ljust(_LONGEST_KEY - 3, "~") + end for end in ends)
    values = [bytes((*range(number, 256), *range(number))) for number in range(len(keys))]
    values[-2:] = [b"5", b"\xff" * 5000]
    if tried.read(keys) != [None] * len(keys):
        yield "A key that nobody has written has the value None."
    tried.write(keys, values)
    if tried.read(keys) != values:
        yield (
            "What is written is read, byte for byte, whatever printable characters are in the key: all of "
            f"its {_LONGEST_KEY} count, none stands for another, and small letters are no capitals."
        )
    elif tried.beside().read(keys) != values:
        yield (
            "What one object has written, another sees that was opened on the same place: this is what "
            "make() returns."
        )
    tried.write(keys[:1], [b"long"], _LONGEST)
    if tried.read(keys[:1]) != [b"long"]:
        yield "A value is kept for expires_in seconds from now, also if these are more than a year."
    tried.write(keys[:1], [b"not so long"])
    yield from _keeps_or_refuses(tried, keys[0])


def _keeps_or_refuses(tried: Tried, key: str) -> Iterator[str]:
    try:
        tried.write([key], [_LARGE])
    except Broken:
        raise
    except Exception:
        return
    if tried.read([key]) != [_LARGE]:
        yield (
            f"What is written is read, byte for byte, also a value of {len(_LARGE):,} bytes: a store with "
            "less room raises, and cuts nothing off."
        )


def _keeps_order(tried: Tried) -> Iterator[str]:
    """Give values in the order of the keys, and as many."""
    keys = tried.keys(tried.most)
    values = [None if number % 3 else b"%d" % number for number in range(len(keys))]
    tried.write(keys, values)
    if tried.read(keys) != values:
        yield f"Values are given in the order of the keys, for all {len(keys)} of max_keys."
    tried.run(keys[:1], lambda _: [None])
    if tried.read(keys[:1]) != [b"0"]:
        yield "A key for which step returns None stays as it is."
    tried.run(keys[:1], lambda _: None)
    if tried.read(keys[:1]) != [b"0"]:
        yield "If step returns None, nothing is written."
    calls = itertools.count(1)
    step = tried.run(keys[:1], lambda _: [Write(b"%d" % next(calls), LONG)])
    if tried.read(keys[:1]) != [b"%d" % len(step.seen)]:
        yield "If step is called several times, what it returned last is written."


def _goes_by_time(tried: Tried) -> Iterator[str]:
    """Keep a value as long as it was last given, and tell the time."""
    fresh, longer, *more = tried.keys(2 + min(40, tried.most))
    written_at = time.monotonic()
    tried.write([fresh], [b"fresh"], 1.9 * _SHORT)
    tried.write([longer, *more], [b"short"] * (1 + len(more)), _SHORT)
    tried.write([longer], [b"long"])
    expired_at = time.monotonic() + 1.2 * _SHORT
    while time.monotonic() < expired_at:
        is_fresh = tried.read([fresh]) == [b"fresh"] or time.monotonic() > written_at + 1.9 * _SHORT
        if not is_fresh:
            yield (
                "A value is kept for expires_in seconds from when it is written, not for less: they are no "
                "milliseconds, and whole seconds are rounded up."
            )
            break
        time.sleep(_SHORT / 20)
    for key in more:
        tried.write([key + "-new"], [b"new"])
    if tried.read([longer]) != [b"long"]:
        yield "A value that is written again lives as long as the new one is given, not as the old one was."
    if any(value not in (None, b"short") for value in tried.read(more)):
        yield "A value that has expired is read as it was, or as None."
    yield from wrong_times(tried.seen)


def _writes_all_or_nothing(tried: Tried) -> Iterator[str]:
    """End the call if step raises, and then write nothing."""
    keys = tried.keys(min(2, tried.most))
    tried.write(keys, [b"1"] * len(keys))
    errors = [ValueError("raised by step"), KeyboardInterrupt("raised by step")]
    for error in errors[: 1 if isinstance(tried, AwaitedTried) else 2]:  # an event loop ends by the second
        _raise_in_step(tried, keys, error)
        if tried.read(keys) != [b"1"] * len(keys):
            yield f"Nothing is written if step raises, such as a {type(error).__name__}."
        tried.add(keys)
        tried.write(keys, [b"1"] * len(keys))


def _raise_in_step(tried: Tried, keys: Sequence[str], error: BaseException) -> None:
    def fail(_: Values) -> Writes:
        raise error

    try:
        tried.run(keys, fail)
    except BaseException as raised:
        if not isinstance(raised, type(error)) and not isinstance(raised, Exception):
            raise


def _lets_nobody_between(tried: Tried) -> Iterator[str]:
    """Let nobody else write these keys between what step is given and what is written."""
    one, some, more = (tried.keys(min(count, tried.most), f"of{count}-") for count in (1, 2, 3))
    yield from _meet(
        tried,
        *(one, one, one, one),
        "Between what step is given and what is written, nobody else writes these keys: lock them, or write "
        "only if nothing has changed since they were read, and else call step again.",
    )
    if tried.most == 1:
        return
    yield from _meet(
        tried,
        *(some, some[1:], some, some[:1]),
        "Nobody else writes a key either that step leaves as it is: lock or compare all keys that were read.",
    )
    yield from _meet(
        tried,
        *(more, more, more, more[-1:]),
        "All that step returned last is written, or nothing: a conflict at one key leaves no other changed.",
    )
    first, shared, last = tried.keys(3, "shared")
    yield from _meet(
        tried,
        *([first, shared], [first, shared], [shared, last], [shared, last]),
        "Who shares one key with others waits for them, or begins again: lock or compare all keys, and not "
        "the first or the last alone.",
    )


def _meet(
    tried: Tried,
    keys: Sequence[str],
    mine: Sequence[str],
    other_keys: Sequence[str],
    theirs: Sequence[str],
    sentence: str,
) -> Iterator[str]:
    """Have two who read the same keys, or one that is the same, write some of them each."""
    beside = tried.beside()
    first, others, is_overtaken = _between(
        tried, keys, mine, lambda: beside.run(other_keys, _adding(other_keys, theirs))
    )
    written = {key: (key in mine) + (key in theirs) for key in (*keys, *other_keys)}
    if is_overtaken or [tried.count([key]) for key in written] != [[count] for count in written.values()]:
        yield sentence
        return
    for second in others:
        yield from times_before_waits(first.seen[-1], second.seen[-1])


def _adding(keys: Sequence[str], written: Collection[str]) -> Callable[[Values], Writes]:
    """Return what adds one to some of the keys, and leaves the others as they are."""

    def decide(values: Values) -> Writes:
        more = one_more(values) or []
        return [write if key in written else None for key, write in zip(keys, more, strict=True)]

    return decide


def _between(
    tried: Tried, keys: Sequence[str], written: Collection[str], *others: Callable[[], Any]
) -> tuple[TriedStep, list[Any], bool]:
    """Add to some keys, and have others do all this meanwhile, one after the other, if the store lets them.

    Return the step, what the others have returned, and whether step was not called again after all of them.
    """
    begun: list[Future[Any]] = []
    is_overtaken = False

    def ends(other: Callable[[], Any]) -> bool:
        begun.append(aside(other))
        return is_done(begun[-1], HELD if len(begun) == 1 else _NEVER)

    def decide(values: Values) -> Writes:
        nonlocal is_overtaken
        is_overtaken = not begun and all(ends(other) for other in others)
        return _adding(keys, written)(values)

    step = tried.run(keys, decide)
    return step, [each.result(_NEVER) for each in begun], is_overtaken


def _loses_nothing(tried: Tried) -> Iterator[str]:
    """Lose nothing of what many write under the same keys at once, and lock these in their order."""
    keys = tried.keys(3, "many")
    done: list[int] = []

    def slowly(values: Values) -> Writes:
        time.sleep(0.001)
        return one_more(values)

    def work(number: int) -> None:
        beside = tried if isinstance(tried, AwaitedTried) else tried.beside()
        for turn in range(_ROUNDS):
            mine = keys[: 1 + (number + turn) % min(3, tried.most)]
            beside.run(mine, slowly, seconds=_PATIENT)
            done.append(len(mine))
            beside.run(mine, lambda _: None, reads_only=True, seconds=_PATIENT)

    for each in [aside(partial(work, number)) for number in range(_TASKS)]:
        each.result()
    if tried.count(keys) != [sum(size > place for size in done) for place in range(3)]:
        yield (
            "Of what many write under the same keys at once, nothing is lost and nothing is twice: what "
            "could not be written is raised."
        )


def _notices_removals(tried: Tried) -> Iterator[str]:
    """Take the removal of a key for a write, after which whoever has read it before begins again."""
    key, *others = tried.keys(4)
    others += [key + "-", key.swapcase()]
    beside = tried.beside()
    can_delete = type(beside.store).delete is not ValueStore.delete
    if can_delete:
        for each in (key, *others):
            tried.write([each], [b"0"])
        *_, is_overtaken = _between(tried, [key], [key], lambda: beside.store.delete([key]))
        if is_overtaken:
            yield (
                "delete(keys) is a write of these keys: it waits for who holds them, or whoever has read "
                "them begins again."
            )
        beside.store.delete([key])
        beside.store.delete(others[:2])
        if [tried.read([each])[0] for each in (key, *others)] != [None] * 3 + [b"0"] * 3:
            yield "delete(keys) removes these keys and no others, at once."

    def remove_and_write() -> None:
        time.sleep(1.1 * _SHORT)
        if can_delete:
            beside.store.delete([key])
        beside.add([key])

    tried.write([key], [b"0"])
    *_, is_overtaken = _between(
        tried, [key], [key], lambda: beside.write([key], [b"0"], _SHORT), remove_and_write
    )
    if is_overtaken:
        yield (
            "A removal is a write that others notice, also if the key is then written anew: no version ever "
            "comes again, as it does if they are counted. Take a random one for each write."
        )


def _ends_in_time(tried: Tried) -> Iterator[str]:
    """End a call when its time is over."""
    if tried.store.waits:
        yield from _waits_in_time(tried)
    (key,) = tried.keys(1, "again")
    beside = tried.beside()
    others: list[Future[Any]] = []

    def meet(values: Values) -> Writes:
        others.append(aside(lambda: beside.add([key])))
        is_done(others[-1], HELD)
        return one_more(values)

    mine = aside(lambda: tried.run([key], meet, seconds=4 * HELD))
    if not is_done(mine, 4 * HELD + BEYOND):
        yield (
            "A call that meets others again and again ends when step.time_left() is 0: what step raises then "
            "is raised."
        )
        return
    written = sum(each.exception() is None for each in (mine, *others))
    if not written <= tried.count([key])[0] <= len(others) + 1:
        yield "What step returned last is written when transact returns: if it could not be, that is raised."


def _waits_in_time(tried: Tried) -> Iterator[str]:
    (key,) = tried.keys(1)
    beside = tried.beside()
    is_held, is_enough = threading.Event(), threading.Event()

    def hold(values: Values) -> Writes:
        is_held.set()
        is_enough.wait(HELD + BEYOND)
        return one_more(values)

    holding = aside(lambda: beside.run([key], hold))
    is_held.wait(5.0)
    waiting = aside(lambda: tried.add([key], seconds=HELD / 3))
    if not is_done(waiting, HELD / 3 + BEYOND):
        yield (
            "A call that waits for others ends when step.time_left() is 0: give that to what waits, such as "
            "acquire(timeout=step.time_left()). A store whose calls wait for nobody says waits = False."
        )
    is_enough.set()
    for each in (holding, waiting):
        if isinstance(error := each.exception(), Broken):
            raise error


def _works_in_children(tried: Tried) -> Iterator[str]:
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
    elif tried.store.is_shared and tried.count([key]) != [1 + 3 * _ROUNDS]:
        yield (
            "Of what forked children write, nothing is lost: a store whose values other processes do not see "
            "says is_shared = False."
        )
    elif not tried.store.is_shared and tried.count([key]) != [1 + _ROUNDS]:
        yield "What forked children write is theirs alone, or the store says is_shared = True."


def _child(tried: Tried, key: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are other threads
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


def _lists_keys(tried: Tried) -> Iterator[str]:
    """Return from scan() the keys that begin with a prefix, and their values."""
    if type(tried.store).scan is ValueStore.scan:
        return
    wanted = tried.keys(min(_PAGES, 40 * tried.most), "page")
    tried.write(wanted, [key.encode() for key in wanted])
    prefix = wanted[0][:-4]
    tried.run([prefix + "-only-read"], lambda _: None)
    if tried.most > 1:
        also = [prefix + "-also-only-read", wanted[0]]
        tried.run(also, lambda _: [None, Write(wanted[0].encode(), LONG)])
    most = 100 * _PAGES
    found = list(itertools.islice(tried.store.scan(prefix), most))
    if len(found) == most:
        raise Broken(
            "scan(prefix) ends, and returns no keys but those that begin with the prefix: it returned "
            f"{most:,} where {len(wanted):,} do."
        )
    if not {(key, key.encode()) for key in wanted} <= {(key, value and bytes(value)) for key, value in found}:
        yield (
            "scan(prefix) returns each key that begins with the prefix, and its value, however many pages "
            "these are."
        )
    odd = wanted[0] + "_%*?.[a]\\z"
    likes = [odd.replace(each, "z") for each in ("_", "%", "*", "?", ".", "[a]", "\\")]
    for key in (odd, *likes, odd.upper(), odd[:-1], "a" + odd):
        tried.write([key], [b"1"])
    if {key for key, _ in tried.store.scan(odd)} != {odd}:
        yield (
            "scan(prefix) takes the prefix literally, at the beginning of a key, so that no character such "
            "as _ means another, and small letters are no capitals."
        )
    if any(key.endswith("-only-read") for key, _ in found):
        yield "A key that was only read is not in the store: insert nothing but what is written."


def _opens_again(tried: Tried) -> Iterator[str]:
    """Open at the next call what close() has closed."""
    (key,) = tried.keys(1)
    tried.write([key], [b"1"])
    tried.store.close()
    if tried.read([key]) != [b"1"]:
        yield "close() forgets nothing: a later call opens again what it has closed."


class _Elsewhere(ValueStore):
    """Another place, of another kind."""

    def transact(self, keys: Sequence[str], step: Any) -> None:
        step([None for _ in keys])


def _tells_of_itself(tried: Tried) -> Iterator[str]:
    """Tell whether it answers, and whether it is the same place as another."""
    took: Any = tried.store.ping(None)
    if isinstance(took, bool) or not isinstance(took, (int, float)) or not 0 <= took < _NEVER:
        yield f"ping(timeout) returns how many seconds it took, not {took!r}."
    if not tried.store.is_same_as(tried.store):
        yield "is_same_as(other) is True of the store itself."
    if tried.store.is_same_as(_Elsewhere()):
        yield "is_same_as(other) is False of a store of another place, of whatever class that is."


def _leaves_the_loop(tried: Tried, awaited: AwaitedTried) -> Iterator[str]:
    """Let other tasks of an event loop go on while one waits."""
    (key,) = awaited.keys(1, "busy")
    tried.write([key], [b"0"])
    is_free: list[bool] = []

    def hold(values: Values) -> Writes:
        if not is_free:
            waiting.append(aside(lambda: awaited.add([key])))
            time.sleep(HELD)
            is_free.append(is_done(aside(awaited.turn), BEYOND))
        return one_more(values)

    waiting: list[Future[Any]] = []
    tried.run([key], hold)
    waiting[0].result(_NEVER)
    if is_free == [False]:
        yield "transact_async awaits whatever it waits for: other tasks of its event loop go on meanwhile."


def _awaits(tried: Tried) -> Iterator[str]:
    """Keep all this by transact_async, too, if there is one."""
    if getattr(tried.store, "transact_async", None) is None:
        return
    awaited = AwaitedTried(tried.make, tried.misuses)
    try:
        for promise in (
            *(_keeps_values, _keeps_order, _writes_all_or_nothing),
            *(_lets_nobody_between, _loses_nothing, _ends_in_time),
        ):
            for said in promise(awaited):
                yield f"transact_async: {said}"
        yield from _leaves_the_loop(tried, awaited)
        (key,) = awaited.keys(1, "both")
        awaited.add([key])
        if tried.read([key]) != [b"1"]:
            yield "What transact_async writes, transact reads."
    except Broken as broken:
        raise Broken(f"transact_async: {broken}") from None
    finally:
        awaited.loop.call_soon_threadsafe(awaited.loop.stop)


_PROMISES = (
    _keeps_values,
    _keeps_order,
    _goes_by_time,
    _writes_all_or_nothing,
    _lets_nobody_between,
    _loses_nothing,
    _notices_removals,
    _ends_in_time,
    _works_in_children,
    _lists_keys,
    _opens_again,
    _tells_of_itself,
    _awaits,
)
