"""A gunicorn of our own that serves an app from several worker processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .http_clients import answers
from .patience import PATIENCE, eventually
from .ports import free_port


class Gunicorn:
    """Some workers with four threads each; ``app`` is as on gunicorn's command line, found in ``directory``.

    Once built, ``health`` answers with 200. What the app and its workers say is in ``log``.
    """

    def __init__(
        self,
        app: str,
        directory: Path,
        *,
        health: str,
        log: Path,
        environment: Mapping[str, str],
        workers: int = 4,
        more: str = "",
    ) -> None:
        self.port = free_port()
        self.log = log
        self._health = health
        # By default gunicorn closes what was idle for two seconds, which is short on a crowded machine.
        options = (
            f"--workers {workers} --threads 4 --keep-alive 30 --graceful-timeout 2"
            f" --bind 127.0.0.1:{self.port} {more}"
        )
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", *options.split(), app],
                cwd=directory,
                env={"PATH": "", **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(self._answers, within=3 * PATIENCE)
        except BaseException:
            self.stop()
            raise

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(
                f"gunicorn ended with status {self._process.returncode}: {self.log.read_text()}"
            )
        return answers(self.port, self._health)

    @property
    def pid(self) -> int:
        """The process that starts the workers."""
        return self._process.pid

    def stop(self) -> None:
        """End it and its workers; harmless when it has ended already."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
