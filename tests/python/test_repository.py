"""Lists kept by hand are whole: C++ tests, locks in docs/forks.md, steps of workflows, hooks and targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"
CPP_FILES = {str(path.relative_to(CPP)) for path in CPP.rglob("*_test.cpp")}
THREADS = re.compile(r"\bin_threads\(|std::(?:j?thread|async)\b")
LOCK = re.compile(
    r"std::(?:recursive_|shared_|timed_)?mutex \w+\b|std::(?:condition_variable|once_flag)\b"
    r"|(?<!PerProcess\()threading\.(?:R?Lock|Condition|Event|Semaphore|Barrier)\("
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEP = re.compile(r"^ +(?:- )?run: make (?P<target>[a-z0-9-]+)(?P<rest>.*)$", re.MULTILINE)
RULE = re.compile(r"^(?P<targets>[a-z][a-z0-9 -]*):(?!=)", re.MULTILINE)
VARIABLE = re.compile(r"^(?P<name>[A-Z]+) \?=", re.MULTILINE)
TOOL = re.compile(r"(?:ruff check|ruff format|mypy\.stubtest|mypy|clang-format)\b")


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def listed_in(program: str) -> list[str]:
    text = text_of("tests/cpp/CMakeLists.txt")
    return re.findall(r"[\w/]+_test\.cpp", text.partition(f"overlimit_test({program} ")[2].partition(")")[0])


def has_threads(name: str) -> bool:
    """Whether a file starts threads, or tests the transport, whose peers are threads."""
    has_peers = name.startswith("redis/transport/") and not name.endswith("/openssl_test.cpp")
    return has_peers or bool(THREADS.search((CPP / name).read_text(encoding="utf-8")))


def test_each_file_of_cpp_tests_is_part_of_one_program():
    programs = (
        "core",
        "fibers",
        "memory",
        "platform",
        "redis",
        "shared_memory",
        "simulation",
        "unavailable",
        "values",
    )
    programs += tuple(ROOMS_OF_REDIS)
    assert sorted(name for program in programs for name in listed_in(f"{program}_tests")) == sorted(CPP_FILES)
    assert len(CPP_FILES) >= 50


# Each room of the Redis store, and the rooms below it: a layer knows none of the others.
CLIENT = {"protocol", "transport"}
ROOMS_OF_REDIS = {
    "protocol": set(),
    "transport": {"protocol"},
    "wire": CLIENT,
    "plain": CLIENT | {"wire"},
    **dict.fromkeys(("refusals", "leases", "recovery", "cross_slot"), CLIENT | {"wire", "plain"}),
}


@pytest.mark.parametrize("room", ROOMS_OF_REDIS)
def test_a_room_of_the_redis_store_includes_only_those_below_it(room):
    sources = list((ROOT / "cpp/src/redis" / room).glob("*.[ch]pp"))
    assert sources
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(re.findall(r'#include "redis/(\w+)[/.]', text)) <= {room} | ROOMS_OF_REDIS[room]
    stores = re.findall(r'#include "overlimit/(\w*store\w*)\.hpp"', text)
    assert set(stores) <= (set() if room in CLIENT else {"store"})


def test_every_room_of_the_redis_store_is_listed():
    folders = {path.name for path in (ROOT / "cpp/src/redis").iterdir() if path.is_dir()}
    assert folders == set(ROOMS_OF_REDIS)


def test_files_with_threads_run_under_the_thread_sanitizer():
    concurrent = {name for name in CPP_FILES if has_threads(name)}
    assert "memory/memory_store_threads_test.cpp" in concurrent
    assert concurrent <= set(listed_in("thread_tests"))


def test_every_file_with_a_lock_that_forks_neither_take_nor_replace_is_named():
    sources = [*(ROOT / "cpp").rglob("*.[ch]pp"), *(ROOT / "python").rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in sources if LOCK.search(path.read_text(encoding="utf-8"))]
    assert len(found) >= 8
    assert [path for path in sorted(found) if f"`{path}`" not in text_of("docs/forks.md")] == []
    assert not LOCK.search("lock = PerProcess(threading.Lock)")
    assert not LOCK.search("ForkSafeMutex mutex;")


def targets_of_the_makefile() -> set[str]:
    presets = re.findall(r'"configurePreset": "([\w-]+)"', text_of("CMakePresets.json"))
    rules = RULE.finditer(text_of("Makefile"))
    return {f"build-{preset}" for preset in presets} | {
        each for rule in rules for each in rule["targets"].split()
    }


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_target_that_a_workflow_calls_exists(workflow):
    steps = list(STEP.finditer(workflow.read_text(encoding="utf-8")))
    assert {step["target"] for step in steps} <= targets_of_the_makefile()
    assert {"test", "prove", "wheels"} & {step["target"] for step in steps}
    variables = {name for step in steps for name in re.findall(r"([A-Z]+)=", step["rest"])}
    assert variables <= set(VARIABLE.findall(text_of("Makefile")))


def test_nothing_else_tests_or_builds_in_a_workflow():
    command = re.compile(r"run: (?:SOURCE_DATE_EPOCH=\$\([^)]*\) )?([\w-]+(?: -m \w+)?)")
    runs = {run for path in WORKFLOWS for run in command.findall(path.read_text("utf-8"))}
    releasing = {f"python -m {each}" for each in ("pip", "build", "cibuildwheel", "pip_audit")}
    assert runs == {"make", "apt-get", "git"} | releasing


def test_every_supported_python_is_tested():
    versions = re.findall(r'"(3\.\d+)"', text_of(".github/workflows/ci.yml"))
    lowest = re.search(r'requires-python = ">=(3\.\d+)"', text_of("pyproject.toml"))
    assert lowest is not None
    assert versions[0] == lowest[1]
    assert [int(version.split(".")[1]) for version in versions] == list(range(11, 16))


def test_the_hooks_run_the_tools_of_lint():
    lint = text_of("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    assert set(TOOL.findall(text_of(".pre-commit-config.yaml"))) == set(TOOL.findall(lint))
    assert len(set(TOOL.findall(lint))) == 5


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/testing.md"])
def test_every_target_that_a_page_names_exists(page):
    named = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)\b(?!/)", text_of(page), re.MULTILINE))
    assert {"test", "prove"} <= named <= targets_of_the_makefile()


def test_extras_have_the_same_names_everywhere():
    project = text_of("pyproject.toml").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", project, re.MULTILINE))
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    named = set(re.findall(r"install [\"']?(?:overlimit|\.)\[(\w+)\]", texts))
    frameworks = {"flask", "fastapi", "quart", "requests", "httpx", "aiohttp", "django", "drf"}
    queues = {"celery", "rq", "arq", "dramatiq"}
    assert (
        named
        == extras
        == frameworks | queues | {"cli", "notebook", "prometheus", "opentelemetry", "postgres"}
    )
