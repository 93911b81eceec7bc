"""A gunicorn of our own that serves an app from several worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .web_server import WebServer


class Gunicorn(WebServer):
    """Some workers with four threads each; ``app`` is as on its command line, found in ``directory``."""

    def __init__(
        self,
        app: str,
        directory: Path,
        *,
        health: str,
        log: Path,
        environment: Mapping[str, str],
        workers: int = 2,
        more: str = "",
    ) -> None:
        # By default gunicorn closes what was idle for two seconds, which is short on a crowded machine.
        command = (
            f"gunicorn --workers {workers} --threads 4 --keep-alive 30 --graceful-timeout 2"
            f" --bind 127.0.0.1:{{port}} {more} {app}"
        )
        super().__init__(command, directory, health=health, log=log, environment=environment)
