"""The command ``overlimit`` and what it can do."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

import click

from overlimit.command_line import completing  # noqa: F401  which tells click how bash completes
from overlimit.command_line.failures import WrongUsage, as_written
from overlimit.command_line.operating import COMMANDS
from overlimit.command_line.operating.places import without_secrets
from overlimit.command_line.routes import limits, routes
from overlimit.command_line.simulating.comparing import compare
from overlimit.command_line.simulating.planning import plan
from overlimit.command_line.simulating.reading import read
from overlimit.command_line.simulating.replaying import replay
from overlimit.command_line.simulating.reporting import report
from overlimit.command_line.simulating.suggesting import suggest

_INTERRUPTED = 130
"""What a shell says of a command that Ctrl-C has ended."""


class _Unread(click.ClickException):
    """Nobody reads the output any more, as after ``| head``: exit code 2, without a word."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print nothing."""


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """Keep a closed pipe from click, which would exit with 1, as if a call had been refused."""
    try:
        yield
    except BrokenPipeError:
        raise _Unread("nobody reads the output") from None


class _Program(click.Group):
    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _written():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _written():
            return super().invoke(ctx)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="overlimit")
def program() -> None:
    """Find out from your own logs which limit to set, and look after the stores that count.

    The URL of a store may be env:NAME: then it is read from the environment variable NAME, which keeps its
    password out of the list of processes and of the history of the shell.
    """


for _command in (compare, limits, plan, read, replay, report, routes, suggest, *COMMANDS):
    program.add_command(_command)


def run() -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if sys.stdout is None:
            raise WrongUsage("there is no standard output to write to")
        status = program.main(prog_name="overlimit", standalone_mode=False) or 0
        with _written():
            sys.stdout.flush()
    except OSError as error:
        return _shown(WrongUsage(f"cannot write the output: {as_written(error)}"))
    except click.ClickException as error:
        return _shown(error)
    except click.Abort:
        return _INTERRUPTED
    return status


def _shown(error: click.ClickException) -> int:
    told = io.StringIO()
    error.show(told)
    with contextlib.suppress(OSError):
        click.echo(without_secrets(told.getvalue()), nl=False, err=True)
    return error.exit_code
