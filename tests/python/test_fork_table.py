"""docs/forks.md names every file with a lock that forks neither take nor replace."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = re.compile(
    r"std::(?:recursive_|shared_|timed_)?mutex \w+\b|std::(?:condition_variable|once_flag)\b"
    r"|(?<!PerProcess\()threading\.(?:R?Lock|Condition|Event|Semaphore|Barrier)\("
)


def files_with_locks() -> set[str]:
    sources = [*(ROOT / "cpp").rglob("*.[ch]pp"), *(ROOT / "python").rglob("*.py")]
    return {str(path.relative_to(ROOT)) for path in sources if LOCK.search(path.read_text(encoding="utf-8"))}


def test_every_file_with_such_a_lock_is_named():
    found = files_with_locks()
    assert len(found) >= 8
    page = (ROOT / "docs/forks.md").read_text(encoding="utf-8")
    assert [path for path in sorted(found) if f"`{path}`" not in page] == []


def test_a_lock_is_found_unless_it_belongs_to_the_process():
    assert LOCK.search("  std::mutex mutex_;")
    assert LOCK.search("self.lock = threading.RLock()")
    assert not LOCK.search("lock = PerProcess(threading.Lock)")
    assert not LOCK.search("ForkSafeMutex mutex;")
