"""Who is limited: what ``key=`` and the setting ``KEY`` may be."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from overlimit.http.identifying import words
from overlimit.http.identifying.builtin import BuiltinIdentifier, Normalise, by_field
from overlimit.http.identifying.identifiers import Identify, makes_an_identifier

Key: TypeAlias = str | Identify | Sequence[str | Identify]
"""A word such as ``"user_or_ip"`` or ``"post:username"``, a function of the request, or a list of these."""


@makes_an_identifier
def by_post(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a field of the form in the body: ``post:``, its name and value.

    Raises TypeError or ValueError for a name that is no string or empty, or for a wrong ``normalise``.
    """
    return by_field("post", name, lambda request: request.POST, normalise)


@makes_an_identifier
def by_get(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a parameter of the query: ``get:``, its name and value; raises as `by_post` does."""
    return by_field("get", name, lambda request: request.GET, normalise)


_OF_NAME = MappingProxyType({**words.OF_NAME, "post": by_post, "get": by_get})


def identifiers_of(key: Any) -> Any:
    """Return the ``identifiers`` that a key stands for; raise ValueError for a word that does not exist."""
    return words.identifiers_of(key, _OF_NAME)
