"""How a command ends that cannot do what it was asked to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from overlimit.errors import OverlimitError


class NothingFound(click.ClickException):
    """The command was right, and there is no answer: exit code 1."""

    exit_code = 1


class WrongUsage(click.ClickException):
    """The command cannot be carried out as it was written: exit code 2."""

    exit_code = 2


_WRONG = (OverlimitError, ValueError, TypeError, SyntaxError, re.error, OSError)

_FIRST = re.compile(
    r"^(among|columns|cost|delimiter|every|format|ipv6_prefix|labels?|levels|limits|spare|stop|time_format|timezone"
    r"|trusted_proxies|unit|where)"
    r"(?= must|=|(?<=among): |(?<=labels): |(?<=spare): |(?<=stop): |(?<=proxies): )=?"
)
_ONLY_IN_PYTHON = re.compile(r", which have no labels: .*")
_AS_ARGUMENT = re.compile(r"\b(unit|format|timezone)='([\w/]+)'")
_QUOTED_ARGUMENT = re.compile(r"\b(delimiter|time_format)=('[^']+')")

_OF_THE_COMMAND_LINE = ("numpy", "pandas", "pyarrow", "tomlkit", "backports.zstd")
"""Packages of the extra ``cli``; the library names ``notebook``, which has them too."""


@contextmanager
def reported() -> Iterator[None]:
    """Say what is wrong with the arguments that were passed on, without a traceback."""
    try:
        yield
    except ImportError as error:
        raise WrongUsage(_how_to_install(error)) from None
    except _WRONG as error:
        message = as_written(error)
        if type(error).__name__ == "UnreadableLog":  # which only simulations can import
            raise NothingFound(f"there is no request to replay: {message}") from None
        raise WrongUsage(message) from None


def as_written(problem: object) -> str:
    """Return what an error or a warning says, with arguments as they are written on the command line."""
    if isinstance(problem, OSError) and problem.strerror:
        has_name = problem.filename is not None
        return f"{problem.filename or repr('')}: {problem.strerror}" if has_name else problem.strerror
    text = _ONLY_IN_PYTHON.sub("", str(problem).replace("missing='skip'", "--skip-missing"))
    text = text.replace("time=('date', 'time')", "--time date --time time")
    named = _AS_ARGUMENT.sub(r"--\1 \2", _FIRST.sub(_option, text))
    return _QUOTED_ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", named)


def _option(argument: re.Match[str]) -> str:
    after = argument.string[argument.end() :][:1]
    others = {"levels": "lock", "labels": "label" if after == ":" else "labels"}
    name = others.get(argument[1], argument[1].replace("_", "-"))
    return f"--{name}" if after in {" ", ":"} else f"--{name} "


def _how_to_install(error: ImportError) -> str:
    if error.name not in _OF_THE_COMMAND_LINE:
        return str(error)
    return f"the command line needs {error.name}: pip install 'overlimit[cli]' brings it"
