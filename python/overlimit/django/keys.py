"""Who is limited: what ``key=`` and the setting ``KEY`` may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import nearest
from overlimit.http.identifying.builtin import (
    BuiltinIdentifier,
    Normalise,
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    by_user,
    by_user_or_address,
    by_value,
    hash_of,
)
from overlimit.http.identifying.identifiers import Identify, makes_an_identifier

Key: TypeAlias = str | Identify | Sequence[str | Identify]
"""A word such as ``"user_or_ip"`` or ``"post:username"``, a function of the request, or a list of these."""

_LONGEST = 256
"""A client that sends longer values, each another one, fills no store with them."""


@makes_an_identifier
@checks_arguments()
def by_post(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a field of the form in the body: ``post:``, its name and value.

    Raises TypeError or ValueError for a name that is no string or empty, or for a wrong ``normalise``.
    """
    return _by_parameter("post", name, lambda request: request.POST, normalise)


@makes_an_identifier
@checks_arguments()
def by_get(name: str, *, normalise: Normalise = None) -> BuiltinIdentifier:
    """Identify by a parameter of the query: ``get:``, its name and value; raises as `by_post` does."""
    return _by_parameter("get", name, lambda request: request.GET, normalise)


def _by_parameter(
    kind: str, name: str, parameters: Callable[[Any], Mapping[str, str]], normalise: Normalise
) -> BuiltinIdentifier:
    if not isinstance(name, str) or not name:
        raise (ValueError if name == "" else TypeError)(f"by_{kind} takes the name of a field, not {name!r}")
    return by_value(
        f"by_{kind}",
        name,
        f"{kind}:{name}:",
        lambda request: parameters(request.arguments[0]).get(name),
        normalise,
        lambda value: value if len(value) <= _LONGEST else hash_of(value),
    )


_WORDS = MappingProxyType({"ip": by_address, "user": by_user, "user_or_ip": by_user_or_address})
_OF_NAME: Mapping[str, Callable[[str], BuiltinIdentifier]] = MappingProxyType(
    {
        "header": by_header,
        "cookie": by_cookie,
        "path": by_path_parameter,
        "json": by_json,
        "post": by_post,
        "get": by_get,
    }
)
KNOWN = (*_WORDS, *(f"{kind}:..." for kind in _OF_NAME))


def identifiers_of(key: Any) -> Any:
    """Return the ``identifiers`` that a key stands for; raise ValueError for a word that does not exist."""
    if isinstance(key, str):
        return _named(key)
    if not isinstance(key, (list, tuple)):
        return key
    if not key:
        raise ValueError(f"key={key!r} names nobody: name one or several, or leave it out")
    return [identifiers_of(each) for each in key]


def _named(word: str) -> BuiltinIdentifier:
    kind, colon, name = word.partition(":")
    if word in _WORDS:
        return _WORDS[word]
    if name and kind in _OF_NAME:
        return _OF_NAME[kind](name)
    like = nearest(kind if colon else word, [*_WORDS, *_OF_NAME])
    example = f"{like}:{name or '...'}" if like in _OF_NAME else like
    hint = f"did you mean {example!r}?" if like else f"there are {', '.join(KNOWN)}, and functions"
    raise ValueError(f"key={word!r} names nobody: {hint}")
