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
from overlimit.errors import InvalidLimit, StoreConfigError, StoreError, StoreTimeout, StoreUnavailable

P = ParamSpec("P")

_log = logging.getLogger("overlimit")
_SILENT = logging.NullHandler()
"""What keeps warnings for programs, which name objects of Python, from the standard error of a command."""

FINE, REFUSED = 0, 1
_ANSWERED = ' answered "'
_OF_PROGRAMS = re.compile(r"; calls fail at once until a probe is answered, the next one in [0-9.]+ s")
_GRANT = "grant the user of the URL what the page Operating overlimit lists under Permissions"
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
    """Return what the store says where redis-py failed, since it says why and what to do."""
    if status_of(error) is None or isinstance(error, StoreError) or not isinstance(place, Place):
        return error
    if type(error).__name__ == "NoPermissionError":  # a ping would ask for other permissions
        return StoreConfigError(f'{place.store.endpoint}{_ANSWERED}NOPERM {error}"; {_GRANT}')
    try:
        place.store.ping()
    except StoreError as explained:
        return explained
    return error


def status_of(error: Exception) -> str | None:
    """Return ``"unreachable"``, ``"missing"`` or ``"broken"`` for the error of a store; None: of another."""
    if isinstance(error, MissingStore):
        return "missing"
    if isinstance(error, StoreError):
        # What says it cannot serve now, as when its memory is full, or is no Redis at all, is there.
        is_there = has_answered(error) or _IS_NO_REDIS in str(error)
        is_lost = isinstance(error, (StoreTimeout, StoreUnavailable)) and not is_there
        return "unreachable" if is_lost else "broken"
    if not type(error).__module__.startswith("redis."):
        return None
    from redis import exceptions

    is_refused = isinstance(error, exceptions.AuthenticationError)
    is_lost = isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError))
    return "unreachable" if is_lost and not is_refused else "broken"


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
    if isinstance(error, ImportError) and error.name == "redis":
        return WrongUsage("the command line needs redis: pip install 'overlimit[cli]' brings it")
    if isinstance(error, OSError) and error.filename:
        return WrongUsage(as_written(error))
    return error
