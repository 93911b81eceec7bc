"""What commands print for programs: JSON."""

from __future__ import annotations

import json
import math
import sys

import click


def print_json(found: object) -> None:
    """Print JSON; what is infinite, as in never, and what there is none of, is null."""
    click.echo(json.dumps(_without_infinity(found), indent=2))


def print_json_line(found: object) -> None:
    """Print JSON in one line, at once, for who reads while it goes on."""
    click.echo(json.dumps(_without_infinity(found)))
    sys.stdout.flush()


def _without_infinity(found: object) -> object:
    if isinstance(found, dict):
        return {name: _without_infinity(each) for name, each in found.items()}
    if isinstance(found, (list, tuple)):
        return [_without_infinity(each) for each in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
