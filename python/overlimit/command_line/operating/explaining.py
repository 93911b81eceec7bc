"""``overlimit explain``: what the URN in the body of a refusal says, and what is kept of its policy now."""

from __future__ import annotations

from typing import Any

import click

from overlimit.command_line.failures import WrongUsage
from overlimit.command_line.operating.endings import FINE, asks_store
from overlimit.command_line.operating.listing import keys_option
from overlimit.command_line.operating.places import Place, StoreUrl
from overlimit.command_line.operating.tables import counted
from overlimit.command_line.operating.walking import KEYS, Walk
from overlimit.command_line.output import print_json
from overlimit.decision_urns import Refusal, hash_of, read_urn

_EXAMPLES = """
\b
Examples:
  overlimit explain urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1pos:login
  overlimit explain urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1pos:login --store env:REDIS_URL
"""


@click.command(epilog=_EXAMPLES, short_help="Say what the URN of a refusal means.")
@click.argument("urn", metavar="URN")
@click.option("--store", "place", metavar="URL", type=StoreUrl(), help="Say what this store keeps now, too.")
@keys_option(KEYS)
@asks_store
def explain(urn: str, place: Place | None, keys: int, as_json: bool) -> int:
    """Say what the URN means that a refusal of a web app has as its ``instance``, such as on a screenshot.

    It names nobody. With --store, the policy is looked for by its number: how many identifiers it has there,
    and how many of them are locked.
    """
    try:
        refusal = read_urn(urn)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    walk = None if place is None else _walk(place, keys)
    kept = None if walk is None else _kept(walk, refusal)
    if as_json:
        print_json({**refusal._asdict(), "kept": kept, **({} if walk is None else walk.told())})
    else:
        click.echo(refusal.sentence)
        for line in () if kept is None else _lines(kept):
            click.echo(line)
    return FINE if walk is None else walk.ended()


def _walk(place: Place, keys: int) -> Walk:
    if place.shared_memory is not None:
        raise WrongUsage(
            "shared memory keeps only hashes of policies: look for it by its name, as in overlimit top URL "
            "--policy NAME"
        )
    place.require()
    return Walk(place, None, keys)


def _kept(walk: Walk, refusal: Refusal) -> dict[str, dict[str, int]]:
    """Return how many identifiers the policies of this number have, mostly one, and how many are locked."""
    kept: dict[str, dict[str, int]] = {}
    for found in walk:
        if found.counts and hash_of(found.policy) == refusal.policy:
            policy = kept.setdefault(found.policy, {"identifiers": 0, "locked": 0})
            policy["identifiers"] += 1
            policy["locked"] += found.value.locked_for(found.now) > 0
    return kept


def _lines(kept: dict[str, dict[str, int]]) -> list[str]:
    if not kept:
        return ["The store keeps nothing of this policy now."]
    return [_line(policy, told) for policy, told in kept.items()]


def _line(policy: str, told: dict[str, Any]) -> str:
    return (
        f"The store keeps {counted(told['identifiers'], 'identifier')} of the policy {policy} now, "
        f"{told['locked']:,} of them locked; overlimit show URL --policy {policy} IDENTIFIER shows one."
    )
