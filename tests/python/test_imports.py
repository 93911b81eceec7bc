"""Importing the package imports nothing optional, and works without any of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from overlimit.limits import ALGORITHMS

OPTIONAL = [
    "flask",
    "flask_login",
    "click",
    "rich",
    "redis",
    "numpy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "tqdm",
    "zstandard",
]

IMPORTED = """
import json, sys
import overlimit
print(json.dumps(sorted(sys.modules)))
"""

WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import overlimit
import overlimit.errors
import overlimit.limits

limiter = overlimit.Limiter("2/hour")
print([bool(limiter.hit("a")) for _ in range(3)])
"""


WITHOUT_FLASK = (
    WITHOUT.partition("import overlimit\n")[0]
    + """
try:
    import overlimit.flask
except ImportError as error:
    print(error)
"""
)


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_optional():
    modules = json.loads(run(IMPORTED))
    assert "overlimit._core" in modules
    assert [name for name in modules if name.partition(".")[0] in OPTIONAL] == []


@pytest.mark.parametrize("package", OPTIONAL)
def test_the_package_works_without(package):
    assert run(WITHOUT, package) == "[True, True, False]\n"


def test_all_that_is_exported_exists():
    algorithms = [kind.__name__ for kind in ALGORITHMS.values()]
    names = ["Limit", "Limiter", "ManualClock", "MemoryStore", "RedisStore", "hit_all", *algorithms]
    program = "import overlimit; print([hasattr(overlimit, name) for name in overlimit.__all__])"
    assert "False" not in run(program)
    assert run(f"import overlimit; print(set({names}) - set(overlimit.__all__))") == "set()\n"


@pytest.mark.parametrize("missing", ["flask", "blinker"])  # Flask has blinker since 2.3
def test_flask_is_named_where_it_is_missing(missing):
    says = run(WITHOUT_FLASK, missing)
    assert "needs Flask 2.3 or later" in says
    assert "pip install 'overlimit[flask]'" in says
