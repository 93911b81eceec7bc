"""Identifiers that are written as words, such as ``"user_or_ip"`` and ``"header:X-Api-Key"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from overlimit._messages.texts import nearest
from overlimit.http.callables import check_takes_no_group
from overlimit.http.identifying.builtin import (
    BuiltinIdentifier,
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    by_user,
    by_user_or_address,
)

_WORDS = MappingProxyType({"ip": by_address, "user": by_user, "user_or_ip": by_user_or_address})

OfName: TypeAlias = Mapping[str, Callable[[str], BuiltinIdentifier]]
"""What makes an identifier of the name behind a colon, by the word before it."""

OF_NAME: OfName = MappingProxyType(
    {"header": by_header, "cookie": by_cookie, "path": by_path_parameter, "json": by_json}
)
"""Those of every framework."""


def identifiers_of(key: Any, of_name: OfName = OF_NAME) -> Any:
    """Return the ``identifiers`` that a word or a list of them stands for, and anything else as it is.

    Raises ValueError for a word that does not exist, and TypeError for a function of a group and the request.
    """
    if isinstance(key, str):
        return _named(key, of_name)
    if not isinstance(key, (list, tuple)):
        check_takes_no_group(key)
        return key
    if not key:
        raise ValueError(f"key={key!r} names nobody: name one or several, or leave it out")
    return [identifiers_of(each, of_name) for each in key]


def _named(word: str, of_name: OfName) -> BuiltinIdentifier:
    kind, colon, name = word.partition(":")
    if word in _WORDS:
        return _WORDS[word]
    if name and kind in of_name:
        return of_name[kind](name)
    like = nearest(kind if colon else word, [*_WORDS, *of_name])
    example = f"{like}:{name or '...'}" if like in of_name else like
    known = (*_WORDS, *(f"{kind}:..." for kind in of_name))
    hint = f"did you mean {example!r}?" if like else f"there are {', '.join(known)}, and functions"
    raise ValueError(f"key={word!r} names nobody: {hint}")
