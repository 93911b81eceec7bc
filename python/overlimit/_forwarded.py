"""What proxies report of a request: the addresses in the header field that they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

FORWARDED_FOR = "X-Forwarded-For"

Hops: TypeAlias = Callable[[str], Iterator[str]]
"""Yields the entries of a field from the right, where the nearest proxy has written its own."""

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# Without quotes a value may have what RFC 7239 has quoted: some proxies write addresses with colons so.
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^\s",;\\]*)'
_PAIR = rf"[ \t]*(?:{_TOKEN}={_VALUE}[ \t]*)?"
_ELEMENT = re.compile(rf"{_PAIR}(?:;{_PAIR})*")
_EACH_PAIR = re.compile(rf"({_TOKEN})=({_VALUE})")
_ESCAPED = re.compile(r"\\(.)")


def checked_header_name(value: object) -> str:
    """Return ``value`` if it can be the name of a field (RFC 9110, section 5.6.2); else raise ValueError."""
    if not isinstance(value, str) or re.fullmatch(_TOKEN, value) is None:
        raise ValueError(f"the name of a header must consist of letters, digits, - and _, not {value!r}")
    return value


def environ_key(name: str) -> str:
    """Return the key under which CGI and WSGI have a header field."""
    key = name.upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def checked_address_header(value: object, name: str = "address_header") -> str:
    """Return ``value`` if it can be the field that says the address; raise an error about ``name`` if not."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be the name of a header field, as 'CF-Connecting-IP', not {value!r}")
    if value.startswith("HTTP_"):
        field = value.removeprefix("HTTP_").replace("_", "-").title()
        raise ValueError(f"{name} must be the name of a header field, not of a key of WSGI: write {field!r}")
    try:
        return checked_header_name(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def is_list(header: str) -> bool:
    """Return whether each proxy adds an entry to this field; any other has a single one."""
    return header.lower() in (FORWARDED_FOR.lower(), "forwarded")


def hops_in(header: str) -> Hops:
    """Return what reads this field; it yields whatever is there in the place of addresses."""
    if header.lower() == "forwarded":
        return _nodes
    return _entries if is_list(header) else lambda text: iter((text,))


def _entries(text: str) -> Iterator[str]:
    return reversed(text.split(","))


def _nodes(text: str) -> Iterator[str]:
    """Yield the ``for`` of each element of ``Forwarded`` (RFC 7239, section 4); empty if it has none.

    An element begins at the last comma from which on it can be read, so no quotation mark that a client has
    opened further left reaches into it.
    """
    end = len(text)
    while end >= 0:
        start = end
        while start >= 0:
            start = text.rfind(",", 0, start)
            if _ELEMENT.fullmatch(text, start + 1, end):
                break
        else:
            yield ""  # what cannot be read at all
            return
        yield _node_in(text[start + 1 : end])
        end = start


def _node_in(element: str) -> str:
    values = [value for name, value in _EACH_PAIR.findall(element) if name.lower() == "for"]
    if len(values) != 1:
        return ""
    (value,) = values
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
