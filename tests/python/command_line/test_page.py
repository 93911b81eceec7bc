"""docs/reference/command_line.md is true: its examples print what it says, and it has every option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from overlimit.command_line.program import program

from .test_commands import printed

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ overlimit (.*)\n((?:.*\n)*?)^```$", PAGE, re.M)


def test_no_example_is_overlooked():
    assert len(EXAMPLES) == PAGE.count("```console") >= 4


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_says(monkeypatch, command, output):
    monkeypatch.chdir(ROOT / "examples")
    assert printed(*shlex.split(command)) == output


def test_the_page_has_every_option():
    options = {
        option for command in program.commands.values() for each in command.params for option in each.opts
    }
    named = set(re.findall(r"`(--[a-z0-9-]+)", PAGE))
    assert named == {option for option in options if option.startswith("--")}
