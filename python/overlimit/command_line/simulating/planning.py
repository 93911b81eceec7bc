"""``overlimit plan``: whom a change of a file of limits hits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlimit._messages.texts import percent
from overlimit.command_line.failures import NothingFound, WrongUsage, reported
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log_option
from overlimit.command_line.simulating.output import as_text, bars, print_table
from overlimit.limits_file import LimitsFile, parsed, read_limits_file

if TYPE_CHECKING:
    from overlimit.simulation import NewlyRefused

_EXAMPLES = """
\b
Examples:
  overlimit plan limits.toml --against main --log access.log
  overlimit plan limits.toml --against origin/main --log access.log --fail-over 0.1% --json
  overlimit plan limits.toml --against old.toml --log access.log --labels user --among ann
"""


def _share(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(f"a share is written as 0.1% or 0.001, and is at most 1, not {text}")
    return share


@click.command(epilog=_EXAMPLES, short_help="Show whom a change of limits.toml hits.")
@click.argument("limits_file", metavar="FILE")
@reads_log_option
@click.option(
    "--against",
    required=True,
    metavar="FILE|REVISION",
    help="What the limits were: a file if there is one of this name, else a revision of git.",
)
@click.option(
    "--among",
    multiple=True,
    metavar="NAME",
    help="An identifier or a label that is asked about; by default all. May be repeated.",
)
@click.option(
    "--fail-over",
    metavar="SHARE",
    callback=_share,
    help="Exit with 1 if more of the identifiers are newly refused, as 0.1%.",
)
@click.option("--endpoint", metavar="COLUMN", help="Where requests went. Default: path.")
@click.option("--method", metavar="COLUMN", help="By which HTTP method. Default: method.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    log: Log,
    limits_file: str,
    against: str,
    among: tuple[str, ...],
    fail_over: float | None,
    endpoint: str | None,
    method: str | None,
    as_json: bool,
) -> int:
    """Show who would be refused by the limits in FILE, and was not before they were changed.

    An identifier is newly refused if one of its requests is refused now, and none was before. A FILE that is
    new is compared with no limits.

    Exit code: 0 within --fail-over or without it, 1 past it, 2 if anything is wrong.
    """
    with reported():
        after, before = read_limits_file(limits_file), _before(limits_file, against)
    try:
        events = log.events(*log.requests(endpoint, method))
    except NothingFound as nothing:  # exit code 1 is that of a bound that was passed
        raise WrongUsage(nothing.message) from None
    with reported(), bars() as progress:
        from overlimit.simulation import RouteLimits, newly_refused

        was = None if before is None else RouteLimits._of_file(before)
        found = newly_refused(events, was, RouteLimits._of_file(after), among=among, progress=progress)
    if as_json:
        print_json(log.counts(events) | _described(found, fail_over))
    else:
        told = f"{found.identifiers:,} of {found.of:,} identifiers ({percent(found.share)}) newly refused"
        click.echo(f"{log.summary(events, told)}\n")
        if found.to_pandas().size:
            print_table(found.to_pandas().set_index("route"), {})
    return int(fail_over is not None and found.share > fail_over)


def _described(found: NewlyRefused, bound: float | None) -> dict[str, object]:
    rows = found.to_pandas()
    rows = rows.assign(label=rows["label"].map(as_text))
    counts = {"identifiers": found.of, "newly_refused_identifiers": found.identifiers, "share": found.share}
    return counts | {"fail_over": bound, "newly_refused": rows.to_dict("records")}


def _before(path: str, against: str) -> LimitsFile | None:
    """Return what the limits were; None if there was no such file in the revision."""
    if Path(against).is_file():
        return read_limits_file(against)
    folder, name = os.path.split(os.path.abspath(path))
    if against.startswith("-"):
        raise WrongUsage(f"--against is a file or a revision, not {against}")
    commit = _git(folder, "rev-parse", "--verify", "--quiet", against + "^{commit}")
    if commit is None:
        raise WrongUsage(
            f"--against: there is neither a file {against} nor such a revision of git in {folder}"
        )
    place = f"{commit.decode().strip()}:./{name}"
    data = _git(folder, "cat-file", "blob", place)
    return None if data is None else parsed(data, f"{against}:{name}")


def _git(folder: str, *arguments: str) -> bytes | None:
    """Return what git prints; None if it fails."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False)
    except OSError as error:
        raise WrongUsage(f"git cannot be run: {error.strerror}") from None
    return None if done.returncode else done.stdout
