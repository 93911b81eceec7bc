"""``overlimit explain``: what the URN in the body of a refusal says, and what is kept of its policy now."""

from __future__ import annotations

from collections import Counter

import click

from overlimit.command_line.failures import WrongUsage
from overlimit.command_line.operating.endings import FINE, asks_store
from overlimit.command_line.operating.listing import keys_option
from overlimit.command_line.operating.places import Place, StoreUrl
from overlimit.command_line.operating.tables import counted
from overlimit.command_line.operating.walking import KEYS, Walk
from overlimit.command_line.output import print_json
from overlimit.decision_urns import number_of, read_urn

_EXAMPLES = """
\b
Examples:
  overlimit explain urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1p00:login
  overlimit explain urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1p00:login --store env:REDIS_URL
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
    kept, locked = _kept(walk, refusal.policy)
    if as_json:
        told = {} if walk is None else {"kept": kept, "locked": locked, **walk.told()}
        print_json({**told, **refusal._asdict()})  # whose status counts; nodes not reached have a list
        return FINE if walk is None else walk.ended()
    click.echo(refusal.sentence)
    for policy, number in kept.items():
        several = counted(number, "identifier")
        click.echo(
            f"The store keeps {several} of the policy {policy} now, {locked[policy]:,} of them locked."
        )
    if walk is not None and not kept:
        click.echo("The store keeps nothing of this policy now.")
    return FINE if walk is None else walk.ended()


def _walk(place: Place, keys: int) -> Walk:
    if place.shared_memory is not None:
        raise WrongUsage(
            "shared memory keeps only hashes of policies: overlimit top URL --policy NAME finds one"
        )
    place.require()
    return Walk(place, None, keys)


def _kept(walk: Walk | None, number: str) -> tuple[Counter[str], Counter[str]]:
    """Return how many identifiers the policies of this number have, mostly one, and how many are locked."""
    found = [each for each in walk or () if each.counts and number_of(each.policy) == number]
    locked = (each.policy for each in found if each.value.locked_for(each.now))
    return Counter(each.policy for each in found), Counter(locked)
