"""The command ``overlimit`` and what it can do."""

from __future__ import annotations

import click

from overlimit.command_line.replaying import replay
from overlimit.command_line.suggesting import suggest

__all__ = ["program"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="overlimit")
def program() -> None:
    """Find out from your own logs which limit to set, and whom it would have hit."""


program.add_command(replay)
program.add_command(suggest)
