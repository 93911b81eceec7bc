"""scripts/prove-mutations: what tests/mutations breaks is there, and so are the tests that must notice."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from programs import finished, loaded_script

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "prove-mutations"
FILES = sorted((ROOT / "tests" / "mutations").glob("*.toml"))


@pytest.fixture
def script():
    return loaded_script("prove-mutations")


def test_each_mutation_can_be_applied_and_has_a_test_that_is_there(script):
    mutations = script.read_all(FILES)
    programs = (ROOT / "tests" / "cpp" / "CMakeLists.txt").read_text(encoding="utf-8")
    cases = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "cpp").rglob("*.[ch]pp"))
    assert len({each.name for each in mutations}) == len(mutations) >= 15
    assert [each.name for each in mutations if each.finds != 1 or each.old == each.new] == []
    for each in mutations:
        assert each.tests, each.name
        for test in each.tests:
            path, _, name = test.partition("::")
            if script.is_pytest(test):
                function = re.match(r"(?:\w+::)?(\w*)", name)[1]
                assert f"def {function}" in (ROOT / path).read_text(encoding="utf-8"), test
            else:
                assert f"overlimit_test({path} " in programs, test
                suites = re.findall(r"(\w+)(?:/\*)?\.", name)
                assert [suite for suite in suites if f"({suite}, " not in cases] == [], test


def test_a_field_that_is_unknown_is_an_error(script, tmp_path):
    (tmp_path / "a.toml").write_text('[[mutation]]\nname = "a"\nfile = "b"\nold = "c"\nnwe = "d"\n')
    with pytest.raises(TypeError, match="nwe"):
        script.read_all([tmp_path / "a.toml"])


@pytest.mark.parametrize(
    ("tests", "verdict", "status"),
    [
        (["tests/test_right.py"], "noticed", 0),
        (["tests/test_blind.py"], "SURVIVES", 1),
        (["tests/test_right.py", "right_tests"], "noticed", 0),
        (["right_tests::Right.*"], "noticed", 0),
        (["blind_tests"], "SURVIVES", 1),
        (["hanging_tests"], "hangs", 0),
        (["crashing_tests"], "noticed", 0),
    ],
)
def test_a_mutation_is_noticed_if_a_test_fails_crashes_or_hangs(
    script, tmp_path, monkeypatch, capsys, tests, verdict, status
):
    seconds = 1 if verdict == "hangs" else 60
    table = (
        f'name = "n"\nfile = "f.txt"\nold = "right"\nnew = "wrong"\nseconds = {seconds}\ntests = {tests}\n'
    )
    (tmp_path / "m.toml").write_text(f"[[mutation]]\n{table}")
    for folder in ("root", "tree"):
        (tmp_path / folder / "tests").mkdir(parents=True)
        (tmp_path / folder / "f.txt").write_text("all is right\n")
    right = "from pathlib import Path\n\ndef test_it():\n    assert 'right' in Path('f.txt').read_text()\n"
    (tmp_path / "tree" / "tests" / "test_right.py").write_text(right)
    (tmp_path / "tree" / "tests" / "test_blind.py").write_text("def test_it():\n    pass\n")
    programs = {"right": "grep -q right f.txt", "blind": "true"}
    programs |= {
        "hanging": "grep -q right f.txt || sleep 60",
        "crashing": "grep -q right f.txt || kill -11 $$",
    }
    for name, line in programs.items():
        (tmp_path / f"{name}_tests").write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / f"{name}_tests").chmod(0o755)
    for name, value in {"ROOT": "root", "TREE": "tree", "PROGRAMS": "."}.items():
        monkeypatch.setattr(script, name, tmp_path / value)
    monkeypatch.setattr(script, "copy_tree", lambda: Path(sys.executable))
    monkeypatch.setattr(sys, "argv", ["prove-mutations", str(tmp_path / "m.toml")])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert (bool(ended.value.code), verdict in capsys.readouterr().out) == (bool(status), True)
    assert (tmp_path / "tree" / "f.txt").read_text() == "all is right\n"


@pytest.mark.parametrize(
    ("file", "tests", "targets"),
    [
        ("python/a.py", ["tests/a.py"], set()),
        ("python/a.py", ["redis_tests"], set()),
        ("cpp/a.hpp", ["core_tests::A.*", "memory_tests"], {"core_tests", "memory_tests"}),
        ("lua/a.lua", ["tests/a.py::test_a", "redis_tests"], {"_core", "redis_tests"}),
    ],
)
def test_what_a_mutation_needs_is_compiled(script, file, tests, targets):
    assert script.Mutation("a", file, "b", "c", tuple(tests)).targets == targets


def test_it_says_how_it_is_called():
    assert "--only" in finished([SCRIPT, "--help"]).stdout
