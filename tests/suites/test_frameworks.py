"""The suites of Flask, Falcon and Pyramid find the same under limits as without them."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.prove, pytest.mark.timeout(7200)]

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "suites"

ONLY_WITHOUT_LIMITS = {
    # An app and its limits refer to each other, so the collector frees them.
    "flask": {"tests.test_basic.test_app_freed_on_zero_refcount"},
    "falcon": set(),
    "pyramid": set(),
}
SELECTED = {"flask": [], "falcon": ["-k", "not asgi"], "pyramid": ["--override-ini=addopts="]}


def unpacked(name: str) -> Path:
    """Return the directory of the source distribution of the installed version, fetched from PyPI once."""
    wanted = f"{name}=={importlib.metadata.version(name)}"
    place = BUILD / wanted
    if not place.exists():
        command = [*(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name)]
        subprocess.run([*command, "--dest", str(BUILD / "archives"), wanted], check=True)
        (archive,) = (BUILD / "archives").glob(f"{name}-{wanted.partition('==')[2]}.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(place, filter="data")
    (directory,) = place.iterdir()
    return directory


def outcomes(name: str, *tests: str, **environment: str) -> dict[str, str]:
    """Run the suite of a framework; return what became of each test."""
    directory, report = unpacked(name), BUILD / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), f"--junitxml={report}"]
    # Of an editable install; Flask's suite takes warnings for errors.
    command += ["-W", "ignore:Module already imported so cannot be rewritten"]
    plugin = ["-p", "under_limits"] if "UNDER_LIMITS" in environment else []
    subprocess.run(
        [*command, *plugin, "-p", "no:cacheprovider", *SELECTED[name], *(tests or ["tests"])],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}.{case.get('name')}": next((child.tag for child in case), "passed")
        for case in cases
    }


@pytest.mark.parametrize("name", ["flask", "falcon", "pyramid"])
def test_the_suite_of_a_framework_finds_the_same_under_limits(name):
    bare = outcomes(name)
    assert list(bare.values()).count("passed") > 400
    limited = outcomes(name, UNDER_LIMITS=name, LIMITS_HEADERS="draft")
    assert limited.keys() == bare.keys()
    different = {each for each in bare if limited[each] != bare[each]}
    if different - ONLY_WITHOUT_LIMITS[name]:  # some compare all header fields of a response
        without_fields = outcomes(name, UNDER_LIMITS=name)
        different = {each for each in different if without_fields[each] != bare[each]}
    assert different <= ONLY_WITHOUT_LIMITS[name]
