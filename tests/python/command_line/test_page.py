"""docs/reference/command_line.md is true: its examples print what it says, and it has every option."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from overlimit.command_line.program import program
from servers.patience import PATIENCE

from .test_commands import printed

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n(\$ overlimit .*\n(?:.*\n)*?)^```$", PAGE, re.M)
COMMAND = re.compile(r"^\$ overlimit (.*)\n((?:[^$].*\n|\n)*)", re.M)


def test_no_example_is_overlooked():
    assert len(EXAMPLES) == PAGE.count("```console") >= 4


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_prints_what_the_page_says(monkeypatch, start_redis, prefix, tmp_path, example):
    for name in ("shop_day.log.gz", "fastapi_app.py", "limits.toml", "stricter_limits.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    url = f"{start_redis().tcp_url()}?prefix={prefix}&timeout={PATIENCE}"
    commands = COMMAND.findall(example)
    assert commands
    for command, output in commands:
        assert printed(*shlex.split(command.replace("redis://localhost:6379/0", url))) == output


def all_of(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from all_of(command) if isinstance(command, click.Group) else [command]


def test_the_page_of_the_site_has_every_option(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    import commands

    text = [PAGE]
    commands.show_options(None, "reference/command_line", text)
    assert "<!-- options" not in text[0]
    options = {option for command in all_of(program) for each in command.params for option in each.opts}
    named = set(re.findall(r"(?<=[` ])--[a-z0-9-]+", " ".join(re.findall(r"`-[^`]*`", text[0]))))
    assert named == {option for option in options if option.startswith("--")}


def test_the_page_has_every_command():
    shown = set(re.findall(r"\b(\w+(?: \w+)?)`", PAGE.partition("\n\n`-h`")[0].partition("| --- |")[2]))
    commands = {name for name, command in program.commands.items() if not isinstance(command, click.Group)}
    groups = {name: program.commands[name].commands for name in ("shm", "stores")}
    assert shown == commands | {f"{group} {name}" for group, named in groups.items() for name in named}
