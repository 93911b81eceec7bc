"""tests/cpp/CMakeLists.txt lists every file, and those with threads twice (docs/testing.md)."""

from __future__ import annotations

import re
from pathlib import Path

CPP = Path(__file__).parents[1] / "cpp"
FILES = {str(path.relative_to(CPP)) for path in CPP.glob("*/*_test.cpp")}
THREADS = re.compile(r"std::(?:j?thread|async)\b")


def listed_in(program: str) -> list[str]:
    text = (CPP / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.findall(r"\w+/\w+_test\.cpp", text.partition(f"overlimit_test({program} ")[2].partition(")")[0])


def has_threads(name: str) -> bool:
    """Whether a file starts threads, or tests the transport, whose peers are threads."""
    return "/transport_" in name or bool(THREADS.search((CPP / name).read_text(encoding="utf-8")))


def test_each_file_is_part_of_one_program():
    programs = ("core", "memory", "redis", "shared_memory", "simulation")
    listed = [name for program in programs for name in listed_in(f"{program}_tests")]
    assert sorted(listed) == sorted(FILES)
    assert len(FILES) >= 50


def test_files_with_threads_run_under_the_thread_sanitizer():
    concurrent = {name for name in FILES if has_threads(name)}
    assert "memory/memory_store_threads_test.cpp" in concurrent
    assert concurrent <= set(listed_in("thread_tests"))
