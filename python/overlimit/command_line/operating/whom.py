"""Whom a command is about: names of policies and identifiers, refused where no limiter takes them."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from overlimit import _core
from overlimit.command_line.operating.places import StoreUrl
from overlimit.command_line.operating.walking import Walk

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType


_KEYS_FOR_COMPLETION = 2000
_HASH_OF_POLICY = re.compile("#[0-9a-f]{16}")


class PolicyName(_Text):
    """The name of a limiter, in which no character has a meaning to ``SCAN``; or its hash as it is shown."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, if a limiter can have it."""
        if not _core.is_key_name(value) and not _HASH_OF_POLICY.fullmatch(value):
            self.fail(f"the name of a policy has {_core.KEY_NAME_RULE}, and {value!r} is none", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the policies of the store that the line names, as far as a short look finds them."""
        found: set[str] = set()
        with contextlib.suppress(Exception):  # whatever is wrong, the command itself says it better
            # An option without its value, as it is typed, keeps click from telling arguments apart.
            place = ctx.params.get("place") or StoreUrl().convert(ctx.args[0], None, ctx)
            found.update(each.policy for each in Walk(place, most=_KEYS_FOR_COMPLETION))
        return [CompletionItem(each) for each in sorted(found) if each.startswith(incomplete)]


class Identifier(_Text):
    """Who is limited."""

    name = "identifier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the identifier, if a limiter takes it."""
        if not value:
            self.fail("an identifier must not be empty: name who is limited, such as user:42", param, ctx)
        return str(value)
