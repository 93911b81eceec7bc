"""Programs that run in processes of their own, forked from one that has imported what takes long."""

from __future__ import annotations

import multiprocessing
import os
import sys
import types
import warnings
from pathlib import Path
from typing import NamedTuple

CGI_OF_WEBOB = "'cgi' is deprecated"  # which Pyramid imports
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["blocks", "overlimit.flask", "overlimit.simulation", "pandas", "pytest"])


class Run(NamedTuple):
    """What a program has printed, and its status."""

    returncode: int | None
    stdout: str
    stderr: str


def run(code: str, folder: Path) -> Run:
    """Run a program in a folder as ``python -W error -c`` does; one that defines tests is run by pytest."""
    process = _SERVER.Process(target=_main, args=(code, folder))
    process.start()
    process.join(60)
    process.kill()
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    return Run(process.exitcode, *texts)


def _main(code: str, folder: Path) -> None:
    os.chdir(folder)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    warnings.resetwarnings()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", CGI_OF_WEBOB, DeprecationWarning)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if "\ndef test_" not in f"\n{code}":
        exec(compile(code, "<string>", "exec"), vars(main))
        return
    import pytest

    Path("test_example.py").write_text(code, encoding="utf-8")
    # The package is imported already, and its plugin is not to be rewritten.
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *ignored, "test_example.py"]))
