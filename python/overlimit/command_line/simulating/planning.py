"""``overlimit plan``: whom a change of a file of limits hits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from overlimit._messages.texts import percent
from overlimit.command_line.failures import NothingFound, WrongUsage, reported
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log_option, takes_names
from overlimit.command_line.simulating.output import as_text, bars, print_table
from overlimit.limits_file import LimitsFile, parsed, read_limits_file, written

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
@takes_names("--among", "An identifier or a label that is asked about; by default all.")
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
    """Show what was changed in the limits of FILE, and who would be refused by them and was not before.

    An identifier is newly refused if one of its requests is refused now, and none was before. A FILE that is
    new is compared with no limits. A policy that no route uses holds only where code names it: whom a change
    of it hits, the log does not say, so it is listed as such and never exceeds --fail-over.

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

        limits = map(RouteLimits._of_file, (before, after))
        found = newly_refused(events, *limits, among=among, progress=progress)
    changes = list(_changes(before, after))
    if as_json:
        print_json(log.counts(events) | _described(found, fail_over) | {"changes": changes})
    else:
        told = f"{found.identifiers:,} of {found.of:,} identifiers ({percent(found.share)}) newly refused"
        lines = [_told(**each) for each in changes]
        click.echo("\n".join([log.summary(events, told), "", *(lines or ["no limits were changed"]), ""]))
        if found.to_pandas().size:
            print_table(found.to_pandas().set_index("route"), {})
    return int(fail_over is not None and found.share > fail_over)


def _described(found: NewlyRefused, bound: float | None) -> dict[str, object]:
    rows = found.to_pandas()
    rows = rows.assign(label=rows["label"].map(as_text))
    counts = {"identifiers": found.of, "newly_refused_identifiers": found.identifiers, "share": found.share}
    return counts | {"fail_over": bound, "newly_refused": rows.to_dict("records")}


def _changes(before: LimitsFile | None, after: LimitsFile) -> Iterator[dict[str, Any]]:
    """Yield what was added, removed or changed: where, what was and is there, and whether the log was asked.

    None stands for nothing.
    """
    was, now = {} if before is None else before.named(), after.named()
    for key in dict.fromkeys((*was, *now)):
        texts = [None if key not in each else str(each[key]) for each in (was, now)]
        if texts[0] != texts[1]:
            checked = key[0] != "policies" or any(each.is_used(key[1]) for each in (before, after) if each)
            yield {"limits": written(key), "before": texts[0], "after": texts[1], "checked": checked}


def _told(limits: str, before: str | None, after: str | None, checked: bool) -> str:
    unknown = "" if checked else "; no route uses it, so the log does not say whom this hits"
    if before is None or after is None:
        return f"{limits}: {f'added, {after}' if before is None else f'removed, which was {before}'}{unknown}"
    return f"{limits}: {before} -> {after}{unknown}"


def _before(path: str, against: str) -> LimitsFile | None:
    """Return what the limits were; None if there was no such file in the revision."""
    if Path(against).is_file():
        return read_limits_file(against)
    if against.startswith("-"):
        raise WrongUsage(f"--against is a file or a revision, not {against}")
    commit = None
    for place in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        folder, name = os.path.split(place)
        commit = _commit(folder, against)
        if commit is not None and (data := _blob(folder, f"{commit}:./{name}")) is not None:
            return parsed(data, f"{against}:{name}")
    if commit is None:
        is_shallow = _git(folder, "rev-parse", "--is-shallow-repository") == b"true\n"
        hint = ": the clone is shallow, so fetch more of it (in CI by fetch-depth: 0)" if is_shallow else ""
        raise WrongUsage(
            f"--against: there is neither a file {against} nor such a revision of git in {folder}{hint}"
        )
    return None


def _commit(folder: str, revision: str) -> str | None:
    """Return the name of the commit that a revision is; None if it is none."""
    for each in ("", "^{commit}"):  # the second apart, since ``:/text`` takes what follows for text
        found = _git(folder, "rev-parse", "--verify", "--quiet", revision + each)
        if found is None:
            return None
        revision = found.decode().strip()
    return revision


def _blob(folder: str, place: str) -> bytes | None:
    """Return what a file was in a revision, through symbolic links in it; None if there was none."""
    told = _git(folder, "cat-file", "--batch", "--follow-symlinks", given=f"{place}\n".encode()) or b""
    head, _, data = told.partition(b"\n")
    return data.removesuffix(b"\n") if head.split()[1:2] == [b"blob"] else None


def _git(folder: str, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return what git prints; None if it fails."""
    command = ["git", "-C", folder, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except OSError as error:
        raise WrongUsage(f"git cannot be run: {error.strerror}") from None
    return None if done.returncode else done.stdout
