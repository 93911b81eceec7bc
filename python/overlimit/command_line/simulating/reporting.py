"""``overlimit report``: a page, or a notebook, on whom policies would have hit."""

from __future__ import annotations

from pathlib import Path

import click

from overlimit.command_line.failures import reported
from overlimit.command_line.simulating.logs import Log, reads_log
from overlimit.command_line.simulating.policies import Rules, takes_policies, takes_rules

_PAGE = "report.html"

_EXAMPLES = """
\b
Examples:
  overlimit report access.log --policy today=100/minute --policy "new=10/second; 600/hour"
  overlimit report "access.log*" --policy new=60/minute --timezone Europe/Berlin -o limits.html
  overlimit report access.log --policy new=60/minute --label ip:198.51.100.20=office --notebook limits.ipynb
"""


@click.command(epilog=_EXAMPLES, short_help="Write a page on whom policies would have hit.")
@reads_log
@takes_rules
@takes_policies
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True),
    help=f"The page, which is whole in itself. Default: {_PAGE}.",
)
@click.option("--title", help="What is written above it.")
@click.option(
    "--notebook",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write a notebook of Jupyter that makes the same, instead of the page.",
)
def report(
    rules: Rules,
    log: Log,
    policies: dict[str, str],
    output: str | None,
    title: str | None,
    notebook: str | None,
) -> None:
    """Write a page on what was read of LOG and whom policies would have hit, with figures, for others.

    Times are in --timezone. The page has all that it shows, and links to nothing.
    """
    if output is not None and notebook is not None:
        raise click.UsageError("--output and --notebook exclude each other")
    with reported():
        for limits in policies.values():
            rules.limiter(limits)
    events = log.events()
    title = title or "Whom would these limits have hit?"
    codes = {name: rules.code(limits) for name, limits in policies.items()}
    with reported():
        from overlimit.simulation.report import cells_of, notebook_of, page_of

        cells = cells_of(events, log.code(), codes, log.timezone)
        if notebook is not None:
            written = notebook_of(cells, title)
        else:
            about = log.summary(events).replace("\n", ", ")
            written = page_of(cells, events, title, about, log.timezone)
        path = Path(notebook or output or _PAGE)
        path.write_text(written, encoding="utf-8", errors="backslashreplace")
    click.echo(path)
