"""scripts/smoke: where it tries a package, and what it refuses to call a success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from programs import loaded_script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def smoke():
    return loaded_script("smoke")


@pytest.fixture
def few_pythons(monkeypatch, tmp_path):
    """Have only the Python that runs this, and those of Debian, to be asked for their versions."""
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))


def wheel(tags: str) -> Path:
    return Path(f"overlimit-0.1.0-{tags}.whl")


@pytest.mark.parametrize(
    ("tags", "versions"),
    [
        ("cp311-cp311-linux_x86_64", {"3.11"}),
        ("cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64", {"3.13"}),
        ("cp313-cp313t-manylinux_2_28_x86_64", {"3.13t"}),
    ],
)
def test_a_wheel_fits_the_pythons_of_its_abi(smoke, tags, versions):
    every = {"3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.1"}
    assert {version for version in every if smoke.fits(wheel(tags), version)} == versions


@pytest.mark.usefixtures("few_pythons")
def test_this_python_is_found_once(smoke):
    executables = [place.python for place in smoke.pythons([sys.executable])]
    assert executables.count(str(Path(sys.executable).resolve())) == 1
    assert len(executables) == len(set(executables))


@pytest.mark.usefixtures("few_pythons")
def test_a_wheel_that_fits_nowhere_is_a_failure(smoke, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["smoke", str(wheel("cp399-cp399-linux_x86_64"))])
    assert smoke.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize(
    "found", ["usr/bin/gcc", "usr/bin/x86_64-linux-gnu-g++", "usr/include/openssl/ssl.h"]
)
def test_a_root_with_a_compiler_or_a_header_is_not_bare(smoke, monkeypatch, tmp_path, found):
    monkeypatch.setattr(smoke, "made_root", lambda suite, name, packages: tmp_path)
    assert smoke.bare_root("bookworm") == tmp_path
    (tmp_path / found).parent.mkdir(parents=True)
    (tmp_path / found).touch()
    with pytest.raises(AssertionError, match="not bare"):
        smoke.bare_root("bookworm")


def test_developers_get_what_the_readme_has_users_install(smoke):
    named = smoke.packages_to_build()
    assert {"g++", "python3-venv"} <= set(named)
    # Who runs make in a clone has these two.
    assert set(named) - {"git", "make"} <= set((ROOT / "packages.txt").read_text("utf-8").split())


class TestATrial:
    @pytest.fixture
    def trial(self, smoke, monkeypatch, tmp_path):
        monkeypatch.setattr(smoke, "BUILD", tmp_path)
        monkeypatch.setattr(smoke, "WORK", tmp_path)
        (tmp_path / "logs").mkdir()
        trial = smoke.Trial(wheel("cp311-cp311-linux_x86_64"), smoke.Place("here", "3.11"), tmp_path)
        (tmp_path / trial.name).mkdir()
        return lambda printed, status=0: smoke.passes(trial, ["sh", "-c", f"echo '{printed}'; exit {status}"])

    def test_it_passes_when_the_tests_have_run_without_extras_and_with_them(self, trial):
        assert trial("13 passed, 9 skipped in 2s\n22 passed in 9s")

    @pytest.mark.parametrize(
        ("printed", "status"), [("22 passed in 9s", 0), ("", 0), ("13 passed\n22 passed", 1)]
    )
    def test_it_fails_otherwise_and_shows_what_was_printed(self, trial, capsys, printed, status):
        assert not trial(printed, status)
        assert f"FAILED with status {status}\n{printed}" in capsys.readouterr().out
