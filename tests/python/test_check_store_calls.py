"""``check_store`` tells stores that call step when they should not, and those that do not come to an end."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pytest

from overlimit.testing import check_store
from own_stores import DictStore


class OfProcess(DictStore):
    is_shared = waits = False


class Twice(OfProcess):
    """It asks once more, and writes what it was told at first."""

    def transact(self, keys, step):
        def first(values):
            writes = step(values)
            if writes is not None:
                step([write.value if write else value for write, value in zip(writes, values, strict=True)])
            return writes

        super().transact(keys, first)


class Racing(OfProcess):
    """It asks by two threads at once."""

    def transact(self, keys, step):
        def both(values):
            answers = []

            def ask():
                with contextlib.suppress(BaseException):
                    answers.append(step(values))

            threads = [threading.Thread(target=ask) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return answers[-1] if answers else None

        super().transact(keys, both)


class Late(OfProcess):
    """It asks once more when it has returned."""

    def transact(self, keys, step):
        super().transact(keys, step)
        threading.Timer(0.05, self.ask, [keys, step]).start()

    def ask(self, keys, step):
        with contextlib.suppress(RuntimeError):
            step([None for _ in keys])


class LeftBehind(OfProcess):
    """It gives up in time, and the thread that works for it finds that out later."""

    waits = True

    def transact(self, keys, step):
        errors = []

        def work():
            try:
                super(LeftBehind, self).transact(keys, step)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(step.time_left())
        if thread.is_alive():
            raise TimeoutError("the thread has not ended")
        if errors:
            raise errors[0]


class Sleeping(OfProcess):
    """It goes on when its time is over."""

    calls = itertools.count(1)

    def transact(self, keys, step):
        if next(self.calls) == 5:
            time.sleep(step.time_left() + 2.5)
        super().transact(keys, step)


class Circling(OfProcess):
    """It lists the same page again and again."""

    def scan(self, prefix):
        return itertools.cycle(super().scan(prefix))


class Listing(OfProcess):
    """It lists what there is, of whatever prefix, and more than fits."""

    def scan(self, prefix):
        return ((f"other:{number}", b"1") for number in itertools.count())


class PuttingStrangers(OfProcess):
    """It leaves a row of each stranger beside whom something is written."""

    def transact(self, keys, step):
        with self.lock:
            writes = step([self.values.get(key) for key in keys]) or []
            for key, write in zip(keys, writes, strict=False):
                self.values[key] = write.value if write else self.values.get(key)


class Unclosable(OfProcess):
    def close(self):
        raise OSError("nothing is open")


def said_of(store: DictStore) -> list[str]:
    try:
        check_store(lambda: store)
    except AssertionError as error:
        return str(error).splitlines()
    return []


@pytest.mark.check
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Twice, "If step is called several times, what it returned last is written."),
        (Racing, "step is called by one thread at a time."),
        (Late, "step is called before transact returns, and not afterwards."),
        (Sleeping, "A call ends when its time is over, and does not call step seconds after that."),
        (Circling, "scan(prefix) ends, and returns no keys but those that begin with the prefix"),
        (Listing, "scan(prefix) ends, and returns no keys but those that begin with the prefix"),
        (
            PuttingStrangers,
            "A key that was only read is not in the store: insert nothing but what is written.",
        ),
        (Unclosable, "close() raises nothing, whatever is open. This raised OSError: nothing is open"),
    ],
)
def test_it_is_told_in_a_sentence(kind: type[DictStore], sentence: str) -> None:
    began = time.monotonic()
    said = said_of(kind())
    assert any(line.startswith(sentence) for line in said), said
    assert len(said) == len(set(said))
    assert time.monotonic() - began < 60


def test_a_thread_that_is_left_behind_breaks_no_promise() -> None:
    assert said_of(LeftBehind()) == []
