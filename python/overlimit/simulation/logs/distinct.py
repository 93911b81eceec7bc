"""The distinct identifiers of a log, which have a number each."""

from __future__ import annotations

import re
import socket
from typing import Any

import numpy as np
import numpy.typing as npt

from overlimit.http.identifying.addresses import grouped
from overlimit.simulation.events.given import given_column
from overlimit.simulation.events.identifiers import MISSING, REFUSED, Codes, factorized, named
from overlimit.simulation.logs.arrow_texts import dictionary_of

_AS_WRITTEN = 128
_MOST_REMEMBERED = 1 << 16
# An IPv4 address counts as it is written.
_LIKE_NETWORK = re.compile(r"(?![0-9.]+\Z).*[.:].*[.:]")
_IPV4_WITHIN = b"\0" * 10 + b"\xff\xff"


class Distinct:
    """The distinct identifiers of a column, over all tables."""

    def __init__(self, name: str | None, ipv6_prefix: int) -> None:
        self._numbers: dict[str | bytes, int] = {}
        # What was written in the log lately, which is more than what counts.
        self._recent: dict[str | bytes, int] = {}
        self._networks: dict[int, str] = {}
        self._name = name
        self._ipv6_prefix = ipv6_prefix

    def labels(self) -> npt.NDArray[np.object_]:
        """Return the identifiers in the order of their numbers."""
        return np.fromiter(self._numbers, object, len(self._numbers))

    def codes_of(self, column: Any) -> Codes:
        """Return the number of each row's identifier, `MISSING` or `REFUSED`."""
        dictionary = dictionary_of(column)
        if dictionary is None:
            codes, labels = factorized(given_column(column, "identifiers"))
        else:
            codes, labels = dictionary
        numbers = [self._number(each) for each in labels]
        found: Codes = np.array([*numbers, REFUSED, MISSING], np.int32)[codes]
        return found

    def _number(self, label: str | bytes) -> int:
        number = self._recent.get(label)
        if number is None:
            if len(self._recent) >= _MOST_REMEMBERED:
                self._recent.clear()
            counted = self._counted(label)
            number = self._numbers.setdefault(counted, len(self._numbers)) if label else MISSING
            self._recent[label] = number
        return number

    def _counted(self, label: str | bytes) -> str | bytes:
        """Return an identifier as it counts: an address by its network, as in web applications."""
        if self._ipv6_prefix < _AS_WRITTEN and isinstance(label, str) and _LIKE_NETWORK.match(label):
            label = self._network(label)
        return named(self._name, label)

    def _network(self, address: str) -> str:
        """Return the network of an address; each is written once, which is slow."""
        try:
            packed = socket.inet_pton(socket.AF_INET6, address)
        except (OSError, ValueError):
            return grouped(address, self._ipv6_prefix)
        if packed.startswith(_IPV4_WITHIN):
            return grouped(address, self._ipv6_prefix)
        number = int.from_bytes(packed, "big") >> (_AS_WRITTEN - self._ipv6_prefix)
        network = self._networks.get(number)
        if network is None:
            if len(self._networks) >= _MOST_REMEMBERED:
                self._networks.clear()
            network = self._networks[number] = grouped(address, self._ipv6_prefix)
        return network
