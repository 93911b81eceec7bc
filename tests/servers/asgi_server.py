"""An ASGI server of our own, uvicorn or daphne, in one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .http_clients import answers
from .patience import PATIENCE, eventually
from .ports import free_port

_OPTIONS = {"uvicorn": "--host 127.0.0.1 --port {port}", "daphne": "-b 127.0.0.1 -p {port}"}


class AsgiServer:
    """Serves ``app``, found in ``directory``, by the server of this name; once built, ``health`` answers."""

    def __init__(
        self,
        name: str,
        app: str,
        directory: Path,
        *,
        health: str,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.port = free_port()
        self.log = log
        options = _OPTIONS[name].format(port=self.port).split()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", name, *options, app],
                cwd=directory,
                env={"PATH": "", "PYTHONPATH": str(directory), **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(lambda: self._is_up(health), within=3 * PATIENCE)
        except BaseException:
            self.stop()
            raise

    def _is_up(self, health: str) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the server ended: {self.log.read_text()}")
        return answers(self.port, health)

    def stop(self) -> None:
        """End it; harmless when it has ended already."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
