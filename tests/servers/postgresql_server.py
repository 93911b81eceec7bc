"""A PostgreSQL of our own."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from .patience import PATIENCE
from .ports import free_port

_PATHS = ("/usr/lib/postgresql/*/bin/initdb", "/opt/homebrew/opt/postgresql*/bin/initdb")


class PostgreSQLServer:
    """A PostgreSQL on a unix socket and a free TCP port of loopback, that waits for no disk.

    Everybody may log in as its superuser ``overlimit``, without a password. Once built, it answers. It
    refuses to run as root, for whom it runs as the user ``postgres`` of Debian's package.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._programs = Path(_installed())
        self._directory = tempfile.TemporaryDirectory(prefix="overlimit-", ignore_cleanup_errors=True)
        self.directory = Path(self._directory.name)
        self._data = self.directory / "data"
        self._as: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self._as |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._initialise()
        self._start()

    def _initialise(self) -> None:
        options = "--auth=trust --no-sync --no-instructions --encoding=UTF8 --locale=C --username=overlimit"
        command = [self._programs / "initdb", *options.split(), "-D", self._data]
        subprocess.run(command, check=True, cwd=self.directory, **self._as)

    def _start(self) -> None:
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.directory,
            "fsync": "off",
            "max_connections": 200,
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", self._data, *words]
        self._process = subprocess.Popen(command, cwd=self.directory, **self._as)
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 3 * PATIENCE
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError(f"postgres ended at once with status {self._process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError("postgres did not answer in time")
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            return self.ask("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def url(self, *, user: str = "overlimit", host: str | None = None, **options: object) -> str:
        """Return the URL of its database, by its unix socket unless a host is named."""
        query = "&".join(
            f"{name}={value}" for name, value in {"host": host or self.directory, **options}.items()
        )
        return f"postgresql://{user}@:{self.port}/postgres?{query}"

    def ask(self, query: str, *values: object) -> list[Any]:
        """Ask over a connection of its own, and return the rows."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def cut_connections(self) -> None:
        """End all connections, in the middle of whatever they do."""
        self.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def restart(self) -> None:
        """End it at once, as by a crash, and start it again with what was committed."""
        self._end(signal.SIGQUIT)
        self._start()

    def kill(self) -> None:
        """End it at once, as by a crash; ``start`` brings it back."""
        self._end(signal.SIGQUIT)

    def start(self) -> None:
        """Start it again after ``kill``."""
        self._start()

    def stop(self) -> None:
        """End it for good."""
        self._end(signal.SIGINT)
        self._directory.cleanup()

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _installed() -> str:
    on_path = [path] if (path := shutil.which("initdb")) else []
    found = [*on_path, *(path for each in _PATHS for path in sorted(glob.glob(each), reverse=True))]
    for path in found:
        if os.path.exists(os.path.join(folder := os.path.dirname(os.path.realpath(path)), "postgres")):
            return folder
    raise RuntimeError("PostgreSQL is not installed: these tests need a real one (Debian: postgresql)")
