"""What is missing is named, with the extra that has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDE = """
import sys
class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"no module named {name}", name=name)
sys.meta_path.insert(0, Hidden)
"""


def run(hidden, program):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HIDE + program, hidden],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("hidden", "program"),
    [
        ("numpy", "import overlimit.simulation"),
        ("pandas", "from overlimit.simulation import Events; Events([1], ['a']).to_pandas()"),
        (
            "pandas",
            "from overlimit.simulation import read_log; read_log('examples/shop_day.log.gz', where='True')",
        ),
        ("pyarrow", "from overlimit.simulation import read_log; read_log('pyproject.toml', 'parquet')"),
        ("zstandard", "from overlimit.simulation import read_log; read_log('x.zst')"),
        *(
            (name, "from overlimit.simulation import Events, explore; explore(Events([1], ['a']))")
            for name in ("ipywidgets", "matplotlib")
        ),
        ("tqdm", "from overlimit.simulation import read_log; read_log('pyproject.toml', progress=True)"),
    ],
    ids=range(8),
)
def test_what_is_missing_is_named(tmp_path, hidden, program):
    (tmp_path / "x.zst").write_bytes(b"")
    found = run(hidden, program.replace("x.zst", str(tmp_path / "x.zst")))
    assert found.startswith("ImportError: ")
    assert f"needs {hidden}: pip install 'overlimit[notebook]'" in found


def test_numpy_is_enough_for_events_logs_and_traffic():
    program = """
from overlimit.simulation import Events, read_log, traffic
events = read_log("examples/shop_day.log.gz", identifiers=("ip", "user"), cost="bytes")
print(len(events), len(traffic.scanner(1, 10)), len(Events([1], ["a"])), "pandas" in sys.modules)
"""
    assert run("pandas pyarrow matplotlib tqdm zstandard ipywidgets", program) == "12000 10 1 False"


def test_importing_it_imports_only_numpy():
    program = """
import overlimit
assert "numpy" not in sys.modules
import overlimit.simulation
print([name for name in ("pandas", "pyarrow", "matplotlib", "tqdm", "zstandard") if name in sys.modules])
"""
    assert run("", program) == "[]"
