"""``make release-check`` finds what would be wrong with a release: each question with a wrong answer."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from programs import loaded_script

pytestmark = pytest.mark.check

WHEEL = "overlimit-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl"
INSIDE = ("overlimit/py.typed", "overlimit/_core.pyi", "overlimit-1.2.3.dist-info/METADATA")
LICENCES = tuple(
    f"overlimit-1.2.3.dist-info/licenses/{name}" for name in ("LICENSE", "hiredis.txt", "pybind11.txt")
)
SBOM = "overlimit-1.2.3.dist-info/sboms/overlimit.cdx.json"
LISTED = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "components": [{"type": "library", "name": name, "version": "1"} for name in ("hiredis", "pybind11")],
}
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
METADATA = "\n".join(["Name: overlimit", *(f"Provides-Extra: {extra}" for extra in EXTRAS), ""])


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return the script, asked about a repository and packages that are as they should be."""
    script = loaded_script("release-check")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "DIST", tmp_path / "dist")
    (tmp_path / "dist").mkdir()
    write(tmp_path, "CMakeLists.txt", "project(overlimit VERSION 1.2.3 LANGUAGES CXX)\n")
    write(tmp_path, "CHANGELOG.md", "# Changelog\n\n## 1.2.3 (unreleased)\n")
    write(tmp_path, "README.md", "[changes](CHANGELOG.md), [elsewhere](https://example.com)\n")
    write(tmp_path, "python/overlimit.py", "number = 11.2.3\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    write(tmp_path, "pyproject.toml", "")
    wheel(tmp_path, WHEEL, *INSIDE, *LICENCES)
    sdist(tmp_path, "overlimit-1.2.3.tar.gz", "CHANGELOG.md")
    return script


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "CMakeLists.txt", "python")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "change")


def wheel(root: Path, name: str, *inside: str, sbom: object = LISTED) -> None:
    with ZipFile(root / "dist" / name, "w") as archive:
        for each in inside:
            archive.writestr(each, METADATA if each.endswith("METADATA") else "")
        if sbom is not None:
            archive.writestr(SBOM, json.dumps(sbom))


def sdist(root: Path, name: str, *inside: str) -> None:
    with tarfile.open(root / "dist" / name, "w:gz") as archive:
        for each in inside:
            archive.add(root / each, f"{name.removesuffix('.tar.gz')}/{each}")


def problems(script) -> list[str]:
    questions = ("version", "changelog", "package", "content", "sbom", "pin", "link")
    return [each for question in questions for each in getattr(script, f"{question}_problems")()]


def test_what_is_as_it_should_be_has_no_problems(check):
    assert problems(check) == []


def test_a_version_that_is_written_twice_is_found(check, tmp_path):
    write(tmp_path, "python/overlimit.py", "__version__ = '1.2.3'\n")
    commit(tmp_path)
    (told,) = problems(check)
    assert told.startswith("python/overlimit.py has 1.2.3 too")


def test_a_changelog_of_another_version_is_found(check, tmp_path):
    write(tmp_path, "CHANGELOG.md", "# Changelog\n\n## 1.2.2 (2026-01-01)\n")
    assert problems(check) == ["CHANGELOG.md must begin with '## 1.2.3 (unreleased)', or its date"]


def test_a_tag_needs_a_date_and_is_given_once(check, tmp_path):
    git(tmp_path, "tag", "v1.2.3")
    assert problems(check) == ["this is tagged v1.2.3, but CHANGELOG.md has no date for it"]
    write(tmp_path, "CHANGELOG.md", "# Changelog\n\n## 1.2.3 (2026-11-24)\n")
    assert problems(check) == []
    commit(tmp_path)
    assert problems(check) == ["v1.2.3 has been tagged before: raise the version in CMakeLists.txt"]


def test_missing_and_old_packages_are_found(check, tmp_path):
    wheel(tmp_path, WHEEL.replace("1.2.3", "1.2.2"), *(name.replace("1.2.3", "1.2.2") for name in INSIDE))
    assert "dist/ has packages of 1.2.2 too: remove them" in problems(check)
    for path in (tmp_path / "dist").iterdir():
        path.unlink()
    assert problems(check) == ["there is no wheel: make wheels", "there is no sdist: make sdist"]


def test_a_wheel_for_this_machine_only_is_found(check, tmp_path):
    (tmp_path / "dist" / WHEEL).rename(tmp_path / "dist" / "overlimit-1.2.3-cp311-cp311-linux_x86_64.whl")
    (told,) = problems(check)
    assert told == "overlimit-1.2.3 has a wheel for this machine's Linux only: make wheels"


@pytest.mark.parametrize(
    ("without", "more", "told"),
    [
        ("licenses/hiredis.txt", (), "lacks the licences hiredis.txt"),
        ("py.typed", (), "has no types"),
        (None, ("tests/test_it.py",), "has tests/test_it.py"),
    ],
)
def test_a_wheel_that_lacks_something_or_has_more_is_found(check, tmp_path, without, more, told):
    wheel(
        tmp_path,
        WHEEL,
        *(name for name in (*INSIDE, *LICENCES, *more) if not without or not name.endswith(without)),
    )
    assert problems(check) == [f"{WHEEL} {told}"]


@pytest.mark.parametrize(
    ("sbom", "told"),
    [
        (None, f"{WHEEL} has no {SBOM}"),
        (LISTED | {"specVersion": 1.6}, f"{SBOM} in {WHEEL} is no CycloneDX: "),
        (LISTED | {"components": LISTED["components"][:1]}, f"{SBOM} in {WHEEL} does not list pybind11"),
    ],
)
def test_a_wheel_that_does_not_say_what_is_compiled_in_is_found(check, tmp_path, sbom, told):
    wheel(tmp_path, WHEEL, *INSIDE, *LICENCES, sbom=sbom)
    (found,) = problems(check)
    assert found.startswith(told)


@pytest.mark.parametrize("version", ["v7", "main", "3d3c42e"])
def test_actions_that_are_not_pinned_are_found(check, tmp_path, version):
    pinned = f"actions/checkout@{'3d3c42e5' * 5}"
    write(tmp_path, ".github/workflows/ci.yml", f"- uses: {pinned}  # v7\n- uses: other/action@{version}\n")
    git(tmp_path, "add", ".github")
    assert problems(check) == [f".github/workflows/ci.yml uses other/action@{version}"]


@pytest.mark.parametrize(
    ("path", "text"), [("README.md", "REPOSITORY_URL"), ("pyproject.toml", "overlimit.example")]
)
def test_a_tag_needs_the_address_of_the_repository(check, tmp_path, path, text):
    write(tmp_path, "CHANGELOG.md", "# Changelog\n\n## 1.2.3 (2026-11-24)\n")
    git(tmp_path, "tag", "v1.2.3")
    write(tmp_path, path, text)
    assert problems(check) == [f"this is tagged v1.2.3, but {path} does not say where the repository is"]


def test_links_that_lead_nowhere_are_found(check, tmp_path):
    write(
        tmp_path,
        "README.md",
        "[changes](CHANGELOG.md) [guide](pages/guide.md#start) [code](python/overlimit.py)\n",
    )
    assert problems(check) == [
        "pages/guide.md does not exist",
        "pages/guide.md is not in overlimit-1.2.3.tar.gz",
        "python/overlimit.py is not in overlimit-1.2.3.tar.gz",
    ]
