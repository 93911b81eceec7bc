"""scripts/prove-mutations: what tests/mutations breaks is there, and so are the tests that must notice."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from programs import loaded_script

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "prove-mutations"
FILES = sorted((ROOT / "tests" / "mutations").glob("*.toml"))

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="the script needs Python 3.11")


@pytest.fixture
def script():
    return loaded_script("prove-mutations")


def test_each_mutation_can_be_applied_and_has_a_test_that_is_there(script):
    mutations = script.read_all(FILES)
    assert len({each.name for each in mutations}) == len(mutations) >= 15
    assert [each.name for each in mutations if each.finds != 1 or each.old == each.new] == []
    for each in mutations:
        assert bool(each.tests) != bool(each.command), each.name
        for test in each.tests:
            path, _, name = test.partition("::")
            function = re.match(r"\w*", name)[0]
            assert f"def {function}" in (ROOT / path).read_text(encoding="utf-8"), test


def test_a_field_that_is_unknown_is_an_error(script, tmp_path):
    (tmp_path / "a.toml").write_text('[[mutation]]\nname = "a"\nfile = "b"\nold = "c"\nnwe = "d"\n')
    with pytest.raises(TypeError, match="nwe"):
        script.read_all([tmp_path / "a.toml"])


@pytest.mark.parametrize(
    ("command", "verdict", "status"),
    [("exit 1", "noticed", 0), ("true", "SURVIVES", 1), ("sleep 60", "hangs", 0)],
)
def test_a_command_that_fails_or_hangs_has_noticed_and_one_that_passes_has_not(
    script, tmp_path, monkeypatch, capsys, command, verdict, status
):
    table = 'name = "n"\nfile = "f.txt"\nold = "right"\nnew = "wrong"\nseconds = 1\n'
    (tmp_path / "m.toml").write_text(f'[[mutation]]\n{table}command = "grep -q wrong f.txt && {command}"\n')
    for folder in ("root", "tree"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f.txt").write_text("all is right\n")
    monkeypatch.setattr(script, "ROOT", tmp_path / "root")
    monkeypatch.setattr(script, "TREE", tmp_path / "tree")
    monkeypatch.setattr(script, "copy_tree", lambda: Path(sys.executable))
    monkeypatch.setattr(sys, "argv", ["prove-mutations", str(tmp_path / "m.toml")])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert (bool(ended.value.code), verdict in capsys.readouterr().out) == (bool(status), True)
    assert (tmp_path / "tree" / "f.txt").read_text() == "all is right\n"


def test_it_says_how_it_is_called():
    done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=True)
    assert "--only" in done.stdout
