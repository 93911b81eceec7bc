"""The sdist holds what a build and its own tests need, nothing else, and always the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
FILES = {
    "CHANGELOG.md",
    "CMakeLists.txt",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
}
WHOLE = {"cmake", "docs", "examples", "lua", "python", "cpp/bindings", "cpp/include", "cpp/src"}
TESTS = {
    "adapters",
    "conformance",
    "faults",
    "python",
    "queues",
    "servers",
    "simulation",
    "smoke",
    "soak",
    "vectors",
}
LEFT_OUT = {
    "adding_an_algorithm",
    "benchmarks",
    "command_line/page",
    "docs",
    "flask/flask_limiter_names",
    "flask/options_not_set",
    "fleet",
    "mutations",
    "release_check",
    "repository",
    "run_steps",
    "sdist",
    "site_check",
    "smoke_places",
    "systems_without_wheels",
    "types",
}
"""What tests in tests/python are about that need git, files that an sdist lacks, or packages of their own."""


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def sources() -> set[str]:
    """Return every file of the repository: what is committed, and what may be."""
    listed = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return {path for path in listed if (ROOT / path).is_file()}


def built(tree: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(tree)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
    (sdist,) = folder.iterdir()
    return sdist


@pytest.fixture(scope="module")
def copied(tmp_path_factory, sources) -> Path:
    """Return a copy of the repository: other files may come and go while tests run."""
    copy = tmp_path_factory.mktemp("copy")
    for path in sources:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy / path)
        shutil.copymode(ROOT / path, copy / path)
    return copy


@pytest.fixture(scope="module")
def sdist(tmp_path_factory, copied) -> Path:
    for artefact in (
        "build/x.o",
        "dist/x.whl",
        "python/overlimit/_core.so",
        "cpp/src/__pycache__/x.pyc",
        "lua/x.pyc",
    ):
        (copied / artefact).parent.mkdir(parents=True, exist_ok=True)
        (copied / artefact).write_bytes(b"")
    return built(copied, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def held(sdist) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def belongs(path: str) -> bool:
    """Whether a file of the repository is to be in the sdist."""
    top, _, rest = path.partition("/")
    if top != "tests":
        return path in FILES or any(path.startswith(f"{folder}/") for folder in WHOLE)
    about = re.fullmatch(r"python/(.*)test_(\w+)\.py", rest)
    if about and about[1] + about[2] in LEFT_OUT:
        return False
    return "/" not in rest or rest.partition("/")[0] in TESTS


def test_it_holds_what_a_build_and_its_tests_need_and_nothing_else(held, sources):
    assert held == {path for path in sources if belongs(path)} | {"PKG-INFO"}
    assert len(held) > 500


def test_every_source_that_cmake_names_is_there(held):
    listed = (ROOT / "CMakeLists.txt").read_text("utf-8") + (ROOT / "cpp/bindings/CMakeLists.txt").read_text(
        "utf-8"
    )
    globs = re.findall(r"file\((GLOB(?:_RECURSE)?) \w+ CONFIGURE_DEPENDS (\S+)/\*\.cpp\)", listed)
    assert len(globs) == listed.count(" CONFIGURE_DEPENDS ") >= 6
    for kind, folder in globs:
        found = (ROOT / folder).glob("**/*.cpp" if kind == "GLOB_RECURSE" else "*.cpp")
        names = {path.relative_to(ROOT).as_posix() for path in found}
        assert names
        assert names <= held
    assert {f"cmake/{name}.cmake" for name in re.findall(r"include\((\w+)\)", listed)} <= held


def test_the_same_sources_make_the_same_bytes(copied, sdist, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(copied, again, copy_function=shutil.copy)  # other times, other inodes
    for path in again.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o077)
    assert built(again, tmp_path / "dist").read_bytes() == sdist.read_bytes()
