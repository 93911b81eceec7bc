"""How much memory the stores take for a key, with their index and all that they round up."""

from __future__ import annotations

import os
import secrets

import pytest

from overlimit import SharedMemoryStore
from programs import output_of

pytestmark = pytest.mark.check

KEYS = 100_000
GROWTH = f"""
import sys
from overlimit import Limiter, MemoryStore, SharedMemoryStore, TokenBucket


def resident():
    # What is mapped from other files, such as the program, is no part of it.
    with open("/proc/self/status") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return sum(int(sizes[kind].split()[0]) << 10 for kind in ("RssAnon", "RssShmem"))


store = SharedMemoryStore(sys.argv[1], max_keys={2 * KEYS}) if sys.argv[1] else MemoryStore()
hit = Limiter(TokenBucket(10, per=3600), name="default", store=store).hit
hit("first")
before = resident()
for number in range({KEYS}):
    hit(f"user:{{number}}")
print(len(store), resident() - before)
"""


def check_growth(name):
    keys, growth = map(int, output_of(GROWTH, name).split())
    assert keys == KEYS + 1
    assert 80 <= growth / KEYS <= 120


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc tells how much memory is used")
class TestAKeyOfOneTokenBucketTakesAtMost120Bytes:
    def test_in_memory(self):
        check_growth("")

    def test_in_shared_memory(self, shared_memory):
        store = SharedMemoryStore(f"test-{secrets.token_hex(6)}")
        try:
            check_growth(store.path)
        finally:
            store.unlink()
