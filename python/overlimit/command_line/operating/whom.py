"""Whom a command is about: names of policies and identifiers, refused where no limiter takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from overlimit import _core

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType


class PolicyName(_Text):
    """The name of a limiter, in which no character has a meaning to ``SCAN``."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, if a limiter can have it."""
        if not _core.is_key_name(value):
            self.fail(f"the name of a policy has {_core.KEY_NAME_RULE}, and {value!r} is none", param, ctx)
        return str(value)


class Identifier(_Text):
    """Who is limited."""

    name = "identifier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the identifier, if a limiter takes it."""
        if not value:
            self.fail("an identifier must not be empty: name who is limited, such as user:42", param, ctx)
        return str(value)
