"""The CI workflows and the pre-commit hooks call what the Makefile has (CONTRIBUTING.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
STEP = re.compile(r"^ +(?:- )?run: make (?P<target>[a-z-]+)(?P<rest>.*)$", re.MULTILINE)
PRESETS = (ROOT / "CMakePresets.json").read_text(encoding="utf-8")
RULE = re.compile(r"^(?P<targets>[a-z][a-z -]*):(?!=)", re.MULTILINE)
VARIABLE = re.compile(r"^(?P<name>[A-Z]+) \?=", re.MULTILINE)
TOOL = re.compile(r"(?:ruff check|ruff format|mypy\.stubtest|mypy|clang-format)\b")


def targets_of_the_makefile() -> set[str]:
    builds = {f"build-{preset}" for preset in re.findall(r'"configurePreset": "(\w+)"', PRESETS)}
    return builds | {target for rule in RULE.finditer(MAKEFILE) for target in rule["targets"].split()}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_door_that_a_workflow_calls_exists(workflow):
    steps = list(STEP.finditer(workflow.read_text(encoding="utf-8")))
    assert {step["target"] for step in steps} <= targets_of_the_makefile()
    assert {"test", "prove"} & {step["target"] for step in steps}
    variables = {name for step in steps for name in re.findall(r"([A-Z]+)=", step["rest"])}
    assert variables <= set(VARIABLE.findall(MAKEFILE))


def test_nothing_else_tests_or_builds_in_a_workflow():
    runs = {run for path in WORKFLOWS for run in re.findall(r"run: (\w[\w-]*)", path.read_text("utf-8"))}
    assert runs == {"make", "apt-get", "git"}


def test_every_supported_python_is_tested():
    versions = re.findall(r'"(3\.\d+)"', (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    lowest = re.search(r'requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert lowest is not None
    assert versions[0] == lowest[1]
    assert [int(version.split(".")[1]) for version in versions] == list(range(10, 15))


def test_the_hooks_run_the_tools_of_lint():
    lint = MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0]
    assert set(TOOL.findall(HOOKS)) == set(TOOL.findall(lint))
    assert len(set(TOOL.findall(lint))) == 5


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/testing.md"])
def test_every_door_that_a_page_names_exists(page):
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)\b(?!/)", (ROOT / page).read_text("utf-8"), re.MULTILINE))
    assert {"test", "prove"} <= named <= targets_of_the_makefile()
