"""An algorithm is added in the places that docs/adding_an_algorithm.md lists, and in no others.

``make prove-algorithm`` builds what the patch makes, and runs the suites on it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from overlimit.limits import ALGORITHMS
from programs import finished

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding_an_algorithm.md"
PATCH = ROOT / "tests" / "adding_an_algorithm" / "gcra.patch"
PLACES = [
    "cpp/include/overlimit/algorithms/{}.hpp",
    "lua/{}.lua",
    "python/overlimit/limits/{}.py",
    "tests/conformance/oracle/{}.py",
    "tests/vectors/{}.json",
]
ROW = re.compile(r"^\| \d? ?\| (?P<files>`[^|]+`) \|", re.M)
TOUCHED = re.compile(r"^\+\+\+ b/(.+)$", re.M)
LISTED = re.compile(r"^  (\w+)$", re.M)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()


def test_the_patch_applies_to_the_sources_as_they_are():
    done = finished(["git", "apply", "--check", "--verbose", PATCH], cwd=ROOT)
    assert done.returncode == 0, f"make it anew from {PAGE.name}:\n{done.stderr}"


def test_the_patch_touches_what_the_page_lists_and_nothing_else():
    listed = [
        path for row in ROW.finditer(PAGE.read_text("utf-8")) for path in re.findall(r"`(.+?)`", row["files"])
    ]
    assert sorted(TOUCHED.findall(PATCH.read_text("utf-8"))) == sorted(listed)


def test_the_patch_adds_one_line_to_each_registry_and_to_the_index():
    hunks = PATCH.read_text("utf-8").split("diff --git ")[1:]
    changed = [hunk for hunk in hunks if "new file mode" not in hunk]
    assert len(changed) == 3
    for hunk in changed:
        body = hunk.split("@@", 2)[2]
        assert (body.count("\n+"), body.count("\n-")) == (1, 0)


@pytest.mark.parametrize("place", PLACES)
def test_every_algorithm_is_in_every_place(place):
    assert [name for name in ALGORITHMS if not (ROOT / place.format(name)).is_file()] == []


def test_both_registries_have_the_same_algorithms():
    text = (ROOT / "cmake" / "Algorithms.cmake").read_text("utf-8")
    (names,) = re.findall(r"^set\(OVERLIMIT_ALGORITHMS\n(.*?)^\)", text, re.M | re.S)
    kept_as = {"paced_leaky_bucket"}  # of a LeakyBucket with a burst
    assert {snake_case(name) for name in LISTED.findall(names)} == set(ALGORITHMS) | kept_as


@pytest.mark.parametrize(("name", "kind"), ALGORITHMS.items(), ids=list(ALGORITHMS))
def test_a_class_is_named_as_its_algorithm(name, kind):
    assert (kind.algorithm, snake_case(kind.__name__)) == (name, name)
