"""How keys on Redis are named: from a policy and an identifier, and back."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from overlimit import _core
from overlimit.command_line.failures import WrongUsage
from overlimit.command_line.operating.places import Place

_FORMAT_VERSION = "1"
_LONGEST_PLAIN = 256
_POLICY = r"(?P<policy>[A-Za-z0-9_.-]{1,64})"


@dataclass(frozen=True)
class KeyName:
    """A key's policy and identifier, or the SHA-256 of that in hexadecimal digits."""

    policy: str
    identifier: bytes
    is_hashed: bool

    @property
    def shown(self) -> str:
        """The identifier as text; a hash behind a number sign."""
        text = self.identifier.decode("utf-8", "backslashreplace")
        return f"#{text}" if self.is_hashed else text


class KeyNames:
    """The names of the keys of one store, or of one that differs from it by the hash tag."""

    def __init__(self, place: Place, hash_tag: str | None = None) -> None:
        self._hashes = place.hashes_identifiers
        beginning = f"{place.prefix}{_FORMAT_VERSION}"
        self.pattern_of_all_tags = f"*{beginning}*"
        self._start, self._end = {
            "none": (f"{beginning}:", ""),
            "policy": (f"{{{beginning}:", "}"),
            "prefix": (f"{{{beginning}}}:", ""),
        }[hash_tag or place.hash_tag]
        whole = f"{re.escape(self._start)}{_POLICY}{re.escape(self._end)}(?P<kind>[:#])(?P<identifier>.*)"
        self._parts = re.compile(whole.encode(), re.DOTALL)

    def key(self, policy: str, identifier: str | bytes, is_hash: bool = False) -> bytes:
        """Return the key of an identifier in a policy, or of one of which the hash is given."""
        plain = as_bytes(identifier)
        start = f"{self._start}{policy}{self._end}".encode()
        if is_hash:
            return start + b"#" + plain
        if self._hashes or len(plain) > _LONGEST_PLAIN:
            return start + b"#" + hashlib.sha256(plain).hexdigest().encode()
        return start + b":" + plain

    def pattern(self, policy: str | None) -> str:
        """Return what matches the keys of a policy, or of all."""
        if policy is not None and not _core.is_key_name(policy):
            raise WrongUsage(f"{policy} is how shared memory shows a policy: on Redis, give its name")
        return f"{self._start}*" if policy is None else f"{self._start}{policy}{self._end}[:#]*"

    def read(self, key: bytes) -> KeyName | None:
        """Take a key apart; None for one that no store with these options has written."""
        parts = self._parts.fullmatch(key)
        if parts is None:
            return None
        return KeyName(parts["policy"].decode(), parts["identifier"], parts["kind"] == b"#")


def as_bytes(identifier: str | bytes) -> bytes:
    """Return an identifier as it is counted; one from a terminal that is not UTF-8 is its bytes."""
    return identifier if isinstance(identifier, bytes) else os.fsencode(identifier)


def from_terminal(identifier: str) -> str | bytes:
    """Return an identifier as a limiter takes it."""
    return identifier if identifier.isascii() else os.fsencode(identifier)
