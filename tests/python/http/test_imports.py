"""What is imported together with what."""

from __future__ import annotations

import subprocess
import sys

HIDE_FLASK = """
import sys
sys.modules["flask"] = sys.modules["werkzeug"] = None
import overlimit
import overlimit.http.plan
try:
    import overlimit.flask
except ImportError:
    print("imported without Flask")
"""


def test_everything_but_the_extension_imports_without_flask():
    run = subprocess.run([sys.executable, "-c", HIDE_FLASK], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "imported without Flask"
