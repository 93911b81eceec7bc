"""docs/forks.md names every lock, cache and descriptor of the sources, and none that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(?P<where>[\w./]+)` \| (?P<names>`[^|]+`) \|", re.MULTILINE)

CPP_KINDS = (
    r"std::(?:recursive_|shared_|timed_)?mutex|ForkSafeMutex\w*|std::once_flag|std::condition_variable\w*|"
    r"std::atomic(?:_flag\b|<[^;{(]*>)|std::(?:counting|binary)_semaphore|std::latch|std::barrier|"
    r"ProcessSlot<[^;{(]*>|PerProcess<[^;{(]*>|Registry<[^;{(]*>|OwnDescriptor|OpenDescriptors|Gate"
)
CPP_DECLARATION = re.compile(rf"(?:{CPP_KINDS})\s+(?P<name>\w+)(?:\s*[{{;=]|$)")
CPP_THREAD_LOCAL = re.compile(r"\bthread_local\s+[\w:<> ]*?(?P<name>\w+)\s*[{=;]")
CPP_STATIC = re.compile(
    r"^\s+static (?!constexpr\b|const char\*)(?:constinit )?[\w:<>,*& ]*?\b(?P<name>\w+)(?:\[\])?\s*[={]"
)
CPP_STATIC_CALL = re.compile(r"^ +static const \w+ (?P<name>\w+)\(")

CONTAINERS = {"dict", "list", "set", "defaultdict", "OrderedDict", "deque"}
LOCKS = {
    "Lock",
    "RLock",
    "Condition",
    "Event",
    "Semaphore",
    "BoundedSemaphore",
    "Barrier",
    "local",
    "PerProcess",
}
CACHES = {"lru_cache", "cache", "cached_property", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}


def cpp_names(text: str) -> Iterator[str]:
    for line in text.splitlines():
        code = line.split("//")[0]
        if code.lstrip().startswith(("#", "static_assert", "template", "using", "friend")):
            continue
        for pattern in (CPP_DECLARATION, CPP_THREAD_LOCAL, CPP_STATIC, CPP_STATIC_CALL):
            yield from (found["name"] for found in pattern.finditer(code))


def maker_of(node: ast.expr | None) -> str | None:
    """Return what makes the value of an assignment: a function's name, or the type of a literal."""
    if isinstance(node, ast.Dict | ast.List | ast.Set):
        return type(node).__name__.lower()
    while isinstance(node, ast.Call | ast.IfExp):
        node = node.func if isinstance(node, ast.Call) else node.body
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def python_names(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any(maker_of(each) in CACHES for each in node.decorator_list):
                yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            makers = LOCKS | CACHES | (CONTAINERS if node in tree.body else set())
            if maker_of(node.value) in makers and name.islower() and not name.startswith("__"):
                yield name


def declared() -> set[tuple[str, str]]:
    cpp = [path for path in (ROOT / "cpp").rglob("*.[ch]pp") if "benchmarks" not in path.parts]
    found = {(path, name) for path in cpp for name in cpp_names(path.read_text(encoding="utf-8"))}
    for path in (ROOT / "python").rglob("*.py"):
        found |= {(path, name) for name in python_names(path.read_text(encoding="utf-8"))}
    return {(path.relative_to(ROOT).as_posix(), name) for path, name in found}


def named() -> set[tuple[str, str]]:
    text = (ROOT / "docs/forks.md").read_text(encoding="utf-8")
    rows = [(row["where"], re.findall(r"`(\w+)`", row["names"])) for row in ROW.finditer(text)]
    return {(where, name) for where, names in rows for name in names}


def test_every_lock_and_cache_is_in_the_table():
    assert declared() - named() == set()


def test_the_table_names_nothing_that_is_gone():
    assert named() - declared() == set()


def test_locks_and_caches_are_found_however_they_are_declared():
    cpp = """
  std::mutex one;
  mutable std::mutex two;  // guarded
  constinit std::atomic<std::uint64_t> three{0};
  thread_local std::minstd_rand four{1};
  static const std::string five = made();
  static BIO_METHOD* const six = new_method();
  static const Script seven(joined());
  std::once_flag eight;
  static bool nine(int x);
  static constexpr int kTen = 10;
"""
    assert list(cpp_names(cpp)) == ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    python = """
one = threading.Lock()
two: dict[str, int] = {}
class A:
    def __init__(self):
        self.three = threading.RLock()
        self.four = lru_cache(8)(len)
        self.fine = {}
@functools.lru_cache
def five(): ...
"""
    assert sorted(python_names(python)) == ["five", "four", "one", "three", "two"]
