"""What a type checker knows of decorated views, and of policies of several kinds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TYPED = (Path(__file__).with_name("typed_views.py"), ROOT / "tests" / "simulation" / "typed_questions.py")


def test_decorators_keep_types_of_views_and_questions_take_policies_of_several_kinds():
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", *TYPED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
