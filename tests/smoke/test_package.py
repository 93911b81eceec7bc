"""The package is whole, and works without anything optional."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from pathlib import Path

import overlimit

OPTIONAL = (
    "flask blinker httpx requests aiohttp click rich redis numpy pandas pyarrow matplotlib tqdm"
    " backports.zstd ipywidgets"
)
HIDDEN = f"""
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if {{name, name.partition(".")[0]}} & {{*{OPTIONAL.split()}}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def run_without_extras(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-W", "error", "-c", HIDDEN + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_is_the_installed_one():
    installed = distribution("overlimit")
    assert overlimit.__version__ == installed.version
    editable = json.loads(installed.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable")
    beside_its_metadata = Path(overlimit.__file__).is_relative_to(str(installed.locate_file("")))
    assert beside_its_metadata == (not editable)


def test_it_works_where_no_optional_package_is_installed():
    done = run_without_extras("""
import overlimit
assert "overlimit._core" in sys.modules
limiter = overlimit.Limiter("2/hour")
print([bool(limiter.hit("a")) for _ in range(3)])
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[True, True, False]\n", "")


def test_what_needs_an_extra_names_it():
    for program, extra in (
        ("import overlimit.flask", "flask"),
        ("import overlimit.requests", "requests"),
        ("import overlimit.httpx", "httpx"),
        ("import overlimit.aiohttp", "aiohttp"),
        ("import overlimit.simulation", "notebook"),
        ("from overlimit.command_line import main; sys.exit(main())", "cli"),
    ):
        done = run_without_extras(program)
        assert done.returncode != 0
        assert f"pip install 'overlimit[{extra}]'" in done.stderr


def test_type_checkers_find_its_types():
    assert (files("overlimit") / "py.typed").is_file()
    assert "class Limiter" in (files("overlimit") / "_core.pyi").read_text(encoding="utf-8")


def test_its_pytest_plugin_is_loaded(overlimit_time):
    assert [each.value for each in entry_points(group="pytest11", name="overlimit")] == ["pytest_overlimit"]
    limiter = overlimit.Limiter("1/minute")
    assert [bool(limiter.hit("a")) for _ in range(2)] == [True, False]
    overlimit_time.advance(limiter.hit("a").retry_after)
    assert [bool(limiter.hit("a")) for _ in range(2)] == [True, False]


def test_the_calls_that_the_doctor_makes_are_there():
    folder = files("overlimit") / "command_line" / "operating" / "doctor" / "vectors"
    assert len([each for each in folder.iterdir() if each.name.endswith(".json")]) >= 7
