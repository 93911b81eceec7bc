"""A memory store without room for everybody says so: docs/guides/operations.md, "Statistics and the log"."""

from __future__ import annotations

import gc
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

import programs
from overlimit import Limiter, ManualClock, MemoryStore, Penalty, RedisStore, hit_all
from overlimit.stores.memory import local_fallback_of

NOWHERE = "unix:///nowhere/redis.sock"


def limited(store, limits="1000/minute", **options) -> Limiter:
    return Limiter(limits, store=store, clock=ManualClock(1_700_000_000), **options)


def crowded(limiter: Limiter) -> tuple[int, int]:
    """Return what the limiter and its store have counted."""
    assert isinstance(limiter.store, MemoryStore)
    return limiter.stats()["crowded"], limiter.store.stats()["crowded"]


def names(count: int, prefix: str = "user") -> list[str]:
    return [f"{prefix}:{number}" for number in range(count)]


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.INFO, "overlimit")
    return lambda: [record.getMessage() for record in caplog.records if "is full" in record.getMessage()]


def test_a_lock_without_room_says_which_store_is_full():
    limiter = limited(MemoryStore(max_keys=1))
    limiter.hit("a")
    full = r"^MemoryStore\(max_keys=1, max_bytes=\d+\) has no room to lock another identifier: raise max_keys"
    for _ in range(2):
        with pytest.raises(MemoryError, match=full):
            limiter.lock("b", 60)
    assert limiter.peek("a")


class TestTheCount:
    @pytest.mark.parametrize("name", ["api", None])
    @pytest.mark.parametrize("bound", [{"max_keys": 5}, {"max_bytes": 64 << 10}], ids=repr)
    def test_is_of_each_hit_beyond_the_bounds(self, name, bound):
        limiter = limited(MemoryStore(**bound), name=name)
        for identifier in names(3000):
            limiter.hit(identifier)
        tracked = len(limiter.store)
        assert 0 < tracked <= bound.get("max_keys", 2999)
        assert crowded(limiter) == (3000 - tracked, 3000 - tracked)
        for identifier in names(5):
            limiter.hit(identifier)
        assert crowded(limiter) == (3000 - tracked, 3000 - tracked)

    def test_is_of_common_cells_too(self):
        store = MemoryStore(max_keys=1, max_bytes=64 << 10)
        limiters = [limited(store, name=f"policy-{number}") for number in range(2000)]
        for limiter in limiters:
            limiter.hit("a")
        assert [limiter.stats()["crowded"] for limiter in limiters] == [0] + [1] * 1999
        assert store.stats() == {"crowded": 1999}

    def test_is_of_admitted_and_refused_and_free_hits(self):
        limiter = limited(MemoryStore(max_keys=1), "2/minute", penalty=Penalty(60))
        limiter.hit("known")
        answers = [bool(limiter.hit(identifier)) for identifier in names(4)]
        assert answers == [True, True, False, False]
        limiter.hit("another", cost=0)
        assert crowded(limiter) == (5, 5)

    def test_is_not_of_peeks_and_what_else_is_asked(self):
        limiter = limited(MemoryStore(max_keys=1))
        limiter.hit("known")
        decision = limiter.hit("new")
        limiter.peek("new")
        limiter.peek("newer", cost=0)
        limiter.refund(decision)
        limiter.unlock("new")
        limiter.reset("new")
        assert crowded(limiter) == (1, 1)
        limiter.reset("known")
        limiter.hit("newer")  # finds room again
        assert crowded(limiter) == (1, 1)

    def test_is_one_for_a_call_of_several_newcomers(self):
        limiter = limited(MemoryStore(max_keys=1))
        assert limiter.acquire("known")
        limiter.hit("known", *names(10))
        assert crowded(limiter) == (1, 1)
        assert limiter.acquire("new")
        assert crowded(limiter) == (2, 2)

    def test_is_of_those_limiters_of_a_hit_all_whose_identifiers_found_no_room(self):
        store, clock = MemoryStore(max_keys=1), ManualClock(1_700_000_000)
        first, second = (Limiter("100/minute", store=store, clock=clock) for _ in range(2))
        first.hit("known")
        hit_all([(first, "known"), (second, "new")])
        assert (first.stats()["crowded"], second.stats()["crowded"], store.stats()["crowded"]) == (0, 1, 1)
        hit_all([(first, "x"), (second, "x"), (first, "y")])
        assert (first.stats()["crowded"], second.stats()["crowded"], store.stats()["crowded"]) == (1, 2, 2)

    def test_is_exact_with_threads(self, warnings):
        limiter = limited(MemoryStore(max_keys=4))
        for identifier in names(4):
            limiter.hit(identifier)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(limiter.hit, names(4000, "other")))
        assert crowded(limiter) == (4000, 4000)
        assert len(warnings()) == 1

    def test_is_none_in_redis(self, redis_store):
        limiter = Limiter("1/minute", name="default", store=redis_store)
        for identifier in names(10):
            limiter.hit(identifier)
        assert limiter.stats()["crowded"] == 0

    def test_is_of_the_store_that_decides_in_an_outage(self, monkeypatch, warnings):
        local = MemoryStore(max_keys=3)
        monkeypatch.setattr("overlimit.stores.memory.MemoryStore", lambda: local)
        limiter = Limiter("5/minute", name="api", store=RedisStore(NOWHERE), on_error="local")
        assert local_fallback_of(limiter.store) is local
        for identifier in names(10):
            limiter.hit(identifier)
        stats = limiter.stats()
        assert (stats["local"], stats["crowded"], local.stats()["crowded"]) == (10, 7, 7)
        assert [text for text in warnings() if text.startswith("MemoryStore(max_keys=3, ")] == warnings()
        assert len(warnings()) == 1
        assert "local fallback" in warnings()[0]
        assert "max_bytes has room" not in warnings()[0]

    def test_starts_at_0_in_a_child_and_its_store_goes_on(self):
        program = """
            import os
            from overlimit import Limiter, MemoryStore
            limiter = Limiter("9/minute", store=MemoryStore(max_keys=1))
            for name in "abc":
                limiter.hit(name)
            if os.fork() == 0:
                limiter.hit("d")
                print(limiter.stats()["crowded"], limiter.store.stats()["crowded"], flush=True)
                os._exit(0)
            os.wait()
            print(limiter.stats()["crowded"], limiter.store.stats()["crowded"])
        """
        ran = programs.run(program)
        assert ran.stdout.splitlines() == ["1 3", "2 2"]
        assert ran.stderr.count("is full") == 1


class TestTheWarning:
    def test_names_the_bounds_and_what_happens(self, warnings):
        limiter = limited(MemoryStore(max_keys=2, max_bytes=1 << 20))
        for identifier in names(3):
            limiter.hit(identifier)
        assert warnings() == [
            "MemoryStore(max_keys=2, max_bytes=1048576) is full: identifiers that find no room in it share "
            "counts, so some of them are refused early; a store with a larger max_keys or max_bytes has room "
            "for more"
        ]

    def test_comes_once_for_all_limiters_of_a_store_with_the_first_crowded_decision(self, warnings):
        store = MemoryStore(max_keys=2)
        limiters = [limited(store) for _ in range(5)]
        limiters[0].hit("a", "b")
        limiters[0].peek("c")
        assert warnings() == []
        for limiter in limiters:
            limiter.hit("c")
            assert len(warnings()) == 1
            limiter.hit("d")
        assert len(warnings()) == 1

    def test_comes_for_each_store(self, warnings):
        for bound in (1, 2, 1):
            limited(MemoryStore(max_keys=bound)).hit(*names(3))
            gc.collect()
        assert [text[:22] for text in warnings()] == [
            "MemoryStore(max_keys=1",
            "MemoryStore(max_keys=2",
            "MemoryStore(max_keys=1",
        ]

    def test_may_be_handled_by_what_hits_the_same_limiter(self, warnings):
        limiter = limited(MemoryStore(max_keys=1))

        class Hitting(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                limiter.hit(record.name, "another")

        handler = Hitting()
        logging.getLogger("overlimit").addHandler(handler)
        try:
            limiter.hit("a")
            limiter.hit("b")
        finally:
            logging.getLogger("overlimit").removeHandler(handler)
        assert crowded(limiter) == (2, 2)
        assert len(warnings()) == 1
