"""Where the counters come from: this process alone, or a directory that processes share."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from overlimit import _core
from overlimit._forks import openers_of_counters
from overlimit.metrics.slots import Key, Slots, of_dead, parsed, summed

_log = logging.getLogger("overlimit")

_VERSION = "overlimit-2"
"""What the names of files begin with; another number for other slots."""


class Reading(NamedTuple):
    """What was counted, when it was read."""

    living: list[Slots]
    """By each process that lives."""
    dead: Slots
    """By all that have died."""
    admitted: dict[str, list[str]]
    """The policies with series of their own and their limits; whoever admits another adds it."""


class Reader(Protocol):
    """Reads what was counted."""

    is_shared: bool

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Yield what was counted, and keep what is admitted meanwhile."""


class ProcessReader:
    """Reads the counters of this process."""

    is_shared = False

    def __init__(self) -> None:
        self._admitted: dict[str, list[str]] = {}

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Yield what was counted."""
        yield Reading([parsed(_core._counters())], {}, self._admitted)


class DirectoryReader:
    """Reads the counters of all processes that keep them in a directory, of which this is one.

    Each process has a file, which the core counts in, and holds a lock of it that ends with the process. So a
    file whose lock is free is of a process that has died: what it has counted is added to the totals, which
    name the file until it is gone, so that nothing is added twice.
    """

    is_shared = True

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._totals = self.directory / f"{_VERSION}-totals.json"
        self._own: int | None = None
        self._open()
        openers_of_counters.append(self._open_in_child)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Yield what was counted, and note what dead processes did."""
        with self._locked():
            totals = _Totals.read(self._totals)
            before = json.dumps(totals.admitted)
            living: list[Slots] = []
            folded: list[Path] = []
            for path in sorted(self.directory.glob(f"{_VERSION}-*.counters")):
                if path.name in totals.folded:
                    folded.append(path)
                elif _is_of_dead(path):
                    totals.add(path)
                    folded.append(path)
                else:
                    living.append(parsed(path.read_bytes()))
            yield Reading(living, totals.slots, totals.admitted)
            if folded or json.dumps(totals.admitted) != before:
                totals.write(self._totals)
            for path in folded:
                path.unlink()

    def is_in(self, directory: str | os.PathLike[str]) -> bool:
        """Whether this is the directory."""
        return self.directory == Path(directory).absolute()

    def _open(self) -> None:
        """Have the core count in a new file, whose lock this process holds."""
        with self._locked():
            fd, path = tempfile.mkstemp(".counters", f"{_VERSION}-{os.getpid()}-", self.directory)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                _core._count_in(path)
            except OSError:
                os.close(fd)
                os.unlink(path)
                raise
        own, self._own = self._own, fd
        if own is not None:
            os.close(own)  # of the parent, which holds its lock by descriptors of its own

    def _open_in_child(self) -> None:
        try:
            self._open()
        except OSError:
            _log.warning(
                "cannot share metrics in %s: others do not see this process", self.directory, exc_info=True
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the directory. It is given up by name, as a forked child may have inherited it."""
        fd = os.open(self.directory / f"{_VERSION}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)


_shared: list[DirectoryReader] = []
"""The one of this process, and of those that it forks: its counters are in one file."""


def reader_of(directory: str | os.PathLike[str] | None) -> Reader:
    """Return what reads the counters in a directory, or without one those of this process.

    Raises OSError for a directory that cannot be used, and ValueError for another one than before.
    """
    if directory is None:
        return ProcessReader()
    if not _shared:
        _shared.append(DirectoryReader(directory))
    if not _shared[0].is_in(directory):
        raise ValueError(
            f"directory must be that of before, {_shared[0].directory}: a process keeps its counters in one"
        )
    return _shared[0]


def _is_of_dead(path: Path) -> bool:
    """Whether nobody holds the lock of a file any more."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


class _Totals:
    """The file with what dead processes have counted, and with the policies that have series of their own."""

    def __init__(self, slots: Slots, folded: list[str], admitted: dict[str, list[str]]) -> None:
        self.slots = slots
        self.folded = folded
        """The files that the slots include, and that may still exist."""
        self.admitted = admitted

    @classmethod
    def read(cls, path: Path) -> _Totals:
        try:
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls({}, [], {})
        slots = {Key(*key): numbers for key, numbers in kept["slots"]}
        return cls(slots, kept["folded"], kept["admitted"])

    def add(self, path: Path) -> None:
        """Add what a dead process has counted."""
        self.slots = summed([self.slots, of_dead(parsed(path.read_bytes()))])
        self.folded.append(path.name)

    def write(self, path: Path) -> None:
        """Take the place of the file, in one step."""
        self.folded = [name for name in self.folded if (path.parent / name).exists()]
        text = json.dumps(
            {"slots": list(self.slots.items()), "folded": self.folded, "admitted": self.admitted}
        )
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
