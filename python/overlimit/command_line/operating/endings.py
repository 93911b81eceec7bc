"""How a command ends that asks a server: what went wrong, in a line for people and in JSON for programs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import IO, Any, ParamSpec

import click

from overlimit.command_line.failures import WrongUsage, as_written
from overlimit.command_line.operating.places import MissingStore, Place, without_secrets
from overlimit.command_line.output import print_json
from overlimit.errors import InvalidLimit, StoreError, StoreTimeout, StoreUnavailable

P = ParamSpec("P")

_log = logging.getLogger("overlimit")
_SILENT = logging.NullHandler()
"""What keeps warnings for programs, which name objects of Python, from the standard error of a command."""

FINE, REFUSED = 0, 1
_ANSWERED = ' answered "'
_OF_PROGRAMS = re.compile(r"; calls fail at once until a probe is answered, the next one in [0-9.]+ s")
_IS_NO_REDIS = "it sent something that is not a Redis reply"


class NoAnswer(click.ClickException):
    """The store is ``"unreachable"``, ``"missing"``, or ``"broken"`` if it cannot be used. Exit code 2."""

    exit_code = 2

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status

    def show(self, file: IO[Any] | None = None) -> None:
        """Print what went wrong, to the standard error unless a file is given."""
        click.echo(f"{self.status}: {self.message}", file=file, err=file is None)


def done(message: str, as_json: bool, **told: object) -> int:
    """Print what was done, and return the exit code."""
    if as_json:
        print_json({"status": "ok", "message": message, **told})
    else:
        click.echo(message)
    return FINE


def asks_store(run: Callable[P, int]) -> Callable[P, int]:
    """Add ``--json`` to a command, and say what went wrong, without a traceback."""

    @click.option("--json", "as_json", is_flag=True, help="Print one object of JSON.")
    @wraps(run)
    def asking(*args: P.args, **options: P.kwargs) -> int:
        _log.addHandler(_SILENT)
        try:
            return run(*args, **options)
        except Exception as caught:
            error = _explained(caught, options.get("place"))
            status = status_of(error)
            if status is None:
                raise usage_of(error) from None
            message = message_of(error)
            if options["as_json"]:
                print_json({"status": status, "message": message})
            raise NoAnswer(status, message) from None

    return asking


def _explained(error: Exception, place: object) -> Exception:
    """Return which node is down, where another one says only that the cluster is."""
    if isinstance(place, Place) and f"{_ANSWERED}CLUSTERDOWN" in str(error):
        try:
            place.store.ping()
        except StoreError as explained:
            return explained
    return error


def status_of(error: Exception) -> str | None:
    """Return ``"unreachable"``, ``"missing"`` or ``"broken"`` for the error of a store; None: of another."""
    if isinstance(error, MissingStore):
        return "missing"
    if not isinstance(error, StoreError):
        return None
    # What says it cannot serve now, as when its memory is full, or is no Redis at all, is there.
    is_there = has_answered(error) or _IS_NO_REDIS in str(error)
    return "unreachable" if isinstance(error, (StoreTimeout, StoreUnavailable)) and not is_there else "broken"


def said_in(error: Exception) -> str:
    """Return what a server has said in an error."""
    return str(error).partition(_ANSWERED)[2].rpartition('"; ')[0]


def is_forbidden(answer: object) -> bool:
    """Whether an answer of a server is that this user may not ask."""
    return isinstance(answer, StoreError) and said_in(answer).startswith("NOPERM")


def has_answered(error: Exception) -> bool:
    """Whether the error of a store is an answer of its server, to which there is a connection then."""
    return _ANSWERED in str(error)


def message_of(error: Exception) -> str:
    """Return what an error says, in one line and without secrets, with commands instead of methods."""
    line = " ".join(str(error).split()).replace("call unlink() on the store", "use `overlimit shm remove`")
    line = _OF_PROGRAMS.sub("", line)
    return without_secrets(line) or type(error).__name__


def usage_of(error: Exception) -> Exception:
    """Return the error of a wrong argument as the command line reports it; others as they are."""
    if isinstance(error, (InvalidLimit, ValueError, TypeError)):
        return WrongUsage(without_secrets(str(error)))
    if isinstance(error, OSError) and error.filename:
        return WrongUsage(as_written(error))
    return error
