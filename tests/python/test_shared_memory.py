"""SharedMemoryStore as Python sees it: names, URLs, options, copies, warnings (docs/reference/stores.md)."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import pydoc
import secrets
from pathlib import Path

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    SharedMemoryStore,
    StoreConfigError,
    hit_all,
)
from overlimit.http.options.storage_urls import store_url
from overlimit.stores import as_store
from programs import output_of

pytestmark = pytest.mark.usefixtures("shared_memory")


@pytest.fixture
def name():
    name = f"test-{secrets.token_hex(6)}"
    yield name
    SharedMemoryStore(name).unlink()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "limits"


MANY_AT_ONCE = """
import json, os, sys
from overlimit import FixedWindow, Limiter, SharedMemoryStore

limiter = Limiter(FixedWindow(10**6, 3600), name="p", store=SharedMemoryStore(sys.argv[1], timeout=30))
identifiers = [f"user:{number}" for number in range(400)]
reading, writing = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        admitted = sum(int(limiter.hit_many(identifiers).allowed.sum()) for _ in range(40))
        os.write(writing, admitted.to_bytes(8, "big"))
        os._exit(0)
admitted = sum(int.from_bytes(os.read(reading, 8), "big") for _ in range(4))
counted = sum(10**6 - limiter.peek(each, cost=0).remaining for each in identifiers)
print(json.dumps([admitted, counted]))
"""


def hits(store, times=1):
    limiter = Limiter(FixedWindow(5, per=86_400), name="p", store=store)
    return [bool(limiter.hit("a")) for _ in range(times)]


class TestNames:
    def test_a_name_is_a_file_of_this_user_in_dev_shm(self, name):
        store = SharedMemoryStore(name)
        assert store.path == f"/dev/shm/overlimit-{os.geteuid()}-{name}-v3"
        assert not os.path.exists(store.path)
        assert hits(store) == [True]
        assert os.stat(store.path).st_size == 32 << 20

    @pytest.mark.parametrize("given", [str, Path], ids=["str", "path"])
    def test_a_path_is_taken_as_it_is(self, given, path):
        store = SharedMemoryStore(given(path), max_keys=100, max_bytes=1 << 20)
        assert store.path == str(path)
        assert hits(store) == [True]

    @pytest.mark.parametrize(
        ("wrong", "error", "said"),
        [
            ("", ValueError, "no name for shared memory"),
            ("a/b", ValueError, "no name for shared memory"),
            ("ä", ValueError, "no name for shared memory"),
            ("a" * 65, ValueError, "no name for shared memory"),
            ("/a\0b", ValueError, "NUL"),
            ("shm://a", ValueError, "store='shm://a'"),
            (Path("a"), ValueError, "absolute"),
            (b"a", TypeError, "name_or_path must be a str"),
            (None, TypeError, "name_or_path must be a str"),
        ],
    )
    def test_what_cannot_be_a_name_is_an_error_at_once(self, wrong, error, said):
        with pytest.raises(error, match=said):
            SharedMemoryStore(wrong)

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"max_keys": 0}, ValueError, "max_keys must be at least 1"),
            ({"max_keys": 1.5}, TypeError, "max_keys must be a whole number"),
            ({"max_bytes": 1000}, ValueError, "max_bytes must be from 262144"),
            ({"mode": 0o777}, ValueError, "mode must"),
            ({"mode": 0o20}, ValueError, r"mode must let the owner read and write.*not 16 \(0o20\)$"),
            ({"mode": 660}, ValueError, r"mode must .*not 660 \(0o1224\): write 0o660$"),
            ({"mode": "600"}, TypeError, "mode must be a whole number"),
            ({"timeout": 0}, ValueError, "timeout must be a number of seconds above 0"),
            ({"timeout": "1"}, TypeError, "timeout must be a number of seconds"),
            ({"max_key": 1}, TypeError, "max_keys"),
        ],
    )
    def test_options_that_cannot_be_are_errors_at_once(self, options, error, said):
        with pytest.raises(error, match=said):
            SharedMemoryStore("a", **options)


class TestUrls:
    def test_a_url_is_one_store_for_the_whole_process(self, name):
        store = as_store(f"shm://{name}")
        assert as_store(f"shm://{name}") is store
        assert isinstance(store, SharedMemoryStore)

    def test_options_are_read_from_the_query(self, name):
        store = as_store(f"shm://{name}?max_keys=2000&max_bytes=3000000&mode=660&timeout=0.5")
        assert repr(store) == (
            f"SharedMemoryStore({name!r}, max_keys=2000, max_bytes=3000000, mode=0o660, timeout=0.5)"
        )

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("size=1", "unknown option 'size'"),
            ("max_key=1", "write max_keys="),
            ("max_keys=many", "whole number"),
            ("mode=900", "octal"),
            ("mode=060", "mode must let the owner read and write.*mode=060 is octal$"),
            ("mode=432", "mode=432 is octal, not decimal: write 660$"),
            ("timeout=soon", "number of seconds"),
            ("timeout=1&timeout=2", "twice"),
        ],
    )
    def test_a_wrong_query_is_an_error_that_names_the_option(self, query, said):
        with pytest.raises(ValueError, match=said):
            as_store(f"shm://a?{query}")

    def test_storage_urls_of_flask_mean_the_same_and_take_its_options(self, recwarn):
        assert store_url("shm://app") == "shm://app"
        options = {"max_keys": 10, "mode": 0o660}
        assert store_url("shm://app?timeout=1", options) == "shm://app?max_keys=10&mode=660&timeout=1"
        assert not recwarn.list

    def test_storage_options_of_redis_are_warned_of(self):
        with pytest.warns(UserWarning, match="no effect on shm://: socket_timeout"):
            assert store_url("shm://app", {"socket_timeout": 1}) == "shm://app"


class TestSharing:
    def test_a_limiter_needs_a_name(self):
        with pytest.raises(ValueError, match="needs name="):
            Limiter("5/minute", store=SharedMemoryStore("a"))

    def test_other_processes_count_in_the_same_place(self, name):
        assert hits(SharedMemoryStore(name), 2) == [True, True]
        script = """
            import sys; from overlimit import FixedWindow, Limiter
            limiter = Limiter(FixedWindow(5, per=86_400), name='p', store=sys.argv[1])
            print([limiter.hit('a').remaining for _ in range(4)], limiter.store.stats())
        """
        assert output_of(script, f"shm://{name}").startswith("[2, 1, 0, 0] ")
        assert hits(SharedMemoryStore(name)) == [False]

    def test_two_stores_of_a_file_are_one_to_hit_all(self, name):
        clock = ManualClock(1_700_000_000)
        first, second = (
            Limiter("5/minute", name=each, store=SharedMemoryStore(name), clock=clock) for each in "ab"
        )
        assert hit_all([(first, "x"), (second, "x")])
        assert hit_all([(first, "x"), (second, "x")])
        assert first.peek("x", cost=0).remaining == second.peek("x", cost=0).remaining == 3

    def test_it_pickles_by_its_arguments_and_copies_to_itself(self, name):
        store = SharedMemoryStore(name, max_keys=1000, timeout=0.5)
        hits(store, 3)
        again = pickle.loads(pickle.dumps(store))
        assert repr(again) == repr(store) == f"SharedMemoryStore({name!r}, max_keys=1000, timeout=0.5)"
        assert hits(again, 3) == [True, True, False]
        assert copy.copy(store) is store
        assert copy.deepcopy(store) is store

    def test_what_it_tells_of_a_file_that_is_not_there_makes_none(self, name):
        store = SharedMemoryStore(name)
        assert len(store) == 0
        assert store
        assert store.stats() == {
            "crowded": 0,
            "processes": {"attached": 0, "alive": 0},
            "damaged": 0,
            "unlinked": False,
        }
        assert not store.is_created
        store.unlink()
        assert not os.path.exists(store.path)
        hits(store)
        assert store.is_created


class TestWarnings:
    def test_other_sizes_are_warned_of_once_and_only_if_they_were_asked_for(self, name, caplog):
        hits(SharedMemoryStore(name, max_keys=1000))
        hits(SharedMemoryStore(name))
        hits(SharedMemoryStore(name, max_keys=1000))
        assert caplog.records == []
        other = pickle.loads(pickle.dumps(SharedMemoryStore(name, max_keys=100_000)))
        hits(other, 3)
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("overlimit", logging.WARNING)
        assert "was made with max_keys=1000" in record.getMessage()

    def test_a_full_store_is_warned_of_once(self, path, caplog):
        store = SharedMemoryStore(path, max_keys=2, max_bytes=1 << 18)
        limiter = Limiter("5/minute", name="p", store=store)
        for number in range(9):
            limiter.hit(f"user:{number}")
        (record,) = caplog.records
        assert "is full" in record.getMessage()
        assert "remove it with unlink(), and restart" in record.getMessage()
        assert store.stats()["crowded"] == limiter.stats()["crowded"] == 7

    def test_a_file_that_cannot_be_used_is_a_config_error_at_the_call(self, path):
        path.write_text("mine")
        path.chmod(0o600)
        limiter = Limiter("5/minute", name="p", store=SharedMemoryStore(path))
        with pytest.raises(StoreConfigError, match="is left alone: give the store another name"):
            limiter.hit("a")
        allowing = Limiter("5/minute", name="p", store=SharedMemoryStore(path), on_error="allow")
        assert allowing.hit("a").source == "error"
        assert limiter.stats()["errors"]["config"] == 1

    def test_hit_many_charges_once_however_many_wait_for_each_other(self, name):
        admitted, counted = json.loads(output_of(MANY_AT_ONCE, name))
        assert admitted == counted == 4 * 40 * 400

    def test_limiters_count_crowded_decisions_of_hit_many(self, path):
        for store in (MemoryStore(max_keys=1), SharedMemoryStore(path, max_keys=1, max_bytes=1 << 18)):
            limiter = Limiter("100/minute", name="p", store=store)
            limiter.hit("own")
            limiter.hit_many(["x", "y", "z"])
            assert store.stats()["crowded"] == limiter.stats()["crowded"] == 3

    def test_its_length_is_a_number_however_damaged_its_head_is(self, path):
        store = SharedMemoryStore(path, max_keys=1000, max_bytes=1 << 18)
        hits(store)
        whole = path.read_bytes()
        for at in range(88, 512):
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([whole[at] ^ 0xFF]))
                file.flush()
                assert 0 <= len(store) <= 1000
                file.seek(at)
                file.write(whole[at : at + 1])

    def test_of_several_stores_of_a_file_one_warns_that_it_was_removed(self, path, caplog):
        others = [path, path.parent / "." / path.name, f"{path.parent}/../{path.parent.name}/{path.name}"]
        stores = [SharedMemoryStore(each, max_bytes=1 << 18) for each in others]
        for store in stores:
            hits(store)
        path.unlink()
        assert [store.stats()["unlinked"] for store in stores] == [True] * 3
        assert sum("was removed" in record.getMessage() for record in caplog.records) == 1

    def test_unlink_leaves_what_is_no_file_of_this_user(self, path):
        if os.geteuid() == 0:  # who alone may give files away
            path.write_bytes(b"")
            os.chown(path, 65534, 65534)
            with pytest.raises(StoreConfigError, match="who alone may remove it"):
                SharedMemoryStore(path).unlink()
            path.unlink()
        os.mkfifo(path)
        with pytest.raises(StoreConfigError, match="is not a regular file, and is left alone"):
            SharedMemoryStore(path).unlink()

    def test_its_endpoint_is_a_url_that_leads_to_it(self, name, tmp_path):
        assert SharedMemoryStore(name, max_keys=5).endpoint == f"shm://{name}"
        assert SharedMemoryStore(tmp_path / "a b").endpoint == f"shm://{tmp_path}/a%20b"
        assert as_store(SharedMemoryStore(tmp_path / "a b").endpoint).path == f"{tmp_path}/a b"

    def test_files_of_the_same_name_that_other_users_have_made_are_found(self, name):
        store = SharedMemoryStore(name)
        others = Path(f"/dev/shm/overlimit-54321-{name}-v3")
        others.write_bytes(b"")
        try:
            assert store.paths_of_others() == [str(others)]
            assert SharedMemoryStore(name.partition("-")[2]).paths_of_others() == []
            hits(store)
            assert store.paths_of_others() == []
        finally:
            others.unlink()


def test_help_shows_permissions_as_they_are_written():
    text = pydoc.plain(pydoc.render_doc(SharedMemoryStore))
    assert "0o600" in text
    assert "384" not in text
