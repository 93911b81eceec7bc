"""The distinct identifiers of a log, which have a number each."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from overlimit._addresses import Addresses, grouped, is_address
from overlimit.simulation.events.given import given_column
from overlimit.simulation.events.identifiers import MISSING, REFUSED, Codes, factorized, named
from overlimit.simulation.logs.arrow_texts import Texts, dictionary_of, slices
from overlimit.simulation.optional import required

AS_WRITTEN = 128
"""How many bits of an address of IPv6 count where each counts as it is written: all of them."""

_MOST_REMEMBERED = 1 << 16
_UNKNOWN = -3
_HALF = 64
# An address of IPv6 whose first half is not zero, and written in full or up to the zeros that are left out.
_GROUP = "[0-9A-Fa-f]{1,4}"
_SHORT = f"(?::{_GROUP}){{0,2}}::(?:{_GROUP}(?::{_GROUP}){{0,3}})?"
_FULL = f"(?::{_GROUP}){{3}}(?:(?::{_GROUP}){{4}}|:(?::{_GROUP}){{1,3}})"
_ADDRESS = f"^[1-9A-Fa-f][0-9A-Fa-f]{{0,3}}(?:{_FULL}|{_SHORT})$"


class Distinct:
    """The distinct identifiers of a column, over all tables.

    ``proxies`` says which address counts of a list of them, as ``X-Forwarded-For`` has.
    """

    def __init__(self, name: str | None, ipv6_prefix: int, proxies: Addresses | None = None) -> None:
        self._numbers: dict[str | bytes, int] = {}
        # What was written in the log lately, which is more than what counts.
        self._recent: dict[str | bytes, int] = {}
        self._name = name
        self._ipv6_prefix = ipv6_prefix
        self._proxies = proxies

    def labels(self) -> npt.NDArray[np.object_]:
        """Return the identifiers in the order of their numbers."""
        return np.fromiter(self._numbers, object, len(self._numbers))

    def codes_of(self, column: Any) -> Codes:
        """Return the number of each row's identifier, `MISSING` or `REFUSED`."""
        dictionary = dictionary_of(column)
        if dictionary is None:
            found = factorized(given_column(column, "identifiers"))
            return self._numbers_of(found.labels)[found.codes]
        codes, texts = dictionary
        return np.append(self._numbers_of_texts(texts), np.int32(MISSING))[codes]

    def _numbers_of_texts(self, texts: Texts) -> Codes:
        if self._ipv6_prefix > _HALF or not (whole := _has_first_half(texts)).any():
            return self._numbers_of(_list_of(texts.column))[:-2]
        numbers = np.empty(len(whole), np.int32)
        halves = _first_halves(texts, np.flatnonzero(whole)).dictionary_encode()
        networks = self._numbers_of([str(half) + ":" for half in _list_of(halves.dictionary)])
        numbers[whole] = networks[halves.indices.to_numpy()]
        numbers[~whole] = self._numbers_of(_list_of(texts.column.filter(~whole)))[:-2]
        return numbers

    def _numbers_of(self, labels: list[str | bytes]) -> Codes:
        """Return the numbers of labels, after which those of `REFUSED` and `MISSING` stand."""
        numbers = np.empty(len(labels) + 2, np.int32)
        numbers[:-2] = np.fromiter(map(self._recent.get, labels, repeat(_UNKNOWN)), np.int32, len(labels))
        for k in np.flatnonzero(numbers[:-2] == _UNKNOWN).tolist():
            numbers[k] = self._remember(labels[k])
        numbers[-2:] = REFUSED, MISSING
        return numbers

    def _remember(self, label: str | bytes) -> int:
        if len(self._recent) >= _MOST_REMEMBERED:
            self._recent.clear()
        number = MISSING
        if label:
            number = self._numbers.setdefault(named(self._name, self._counted(label)), len(self._numbers))
        self._recent[label] = number
        return number

    def _counted(self, label: str | bytes) -> str | bytes:
        """Return an identifier as it counts: an address by its network, as in web applications."""
        if isinstance(label, bytes):
            return label
        if self._proxies and "," in label:
            last = label.rpartition(",")[2].strip()
            client = self._proxies.client(last, label)
            label = client if client and is_address(client) else label
        if self._ipv6_prefix == AS_WRITTEN:
            return label
        # Without a colon, and with nothing around it, an address is as it counts.
        may_differ = ":" in label or not (label[0].isalnum() and label[-1].isalnum())
        return grouped(label, self._ipv6_prefix) if may_differ else label


def _list_of(texts: Any) -> list[str | bytes]:
    listed: list[str | bytes] = texts.to_numpy(zero_copy_only=False).tolist()
    return listed


def _has_first_half(texts: Texts) -> npt.NDArray[np.bool_]:
    """Return which texts are addresses whose first half can be told by its letters."""
    compute = required("pyarrow.compute", "reading logs quickly")
    return texts.mask(compute.match_substring_regex(texts.column, _ADDRESS))


def _first_halves(texts: Texts, rows: npt.NDArray[np.int64]) -> Any:
    """Return what is written of some addresses up to the fourth colon, or the first of two in a row."""
    colons = np.flatnonzero(texts.bytes == ord(":"))
    first_of_two = colons[:-1][np.diff(colons) == 1]
    beyond = len(texts.bytes)
    starts = texts.starts[rows]
    fourth = np.append(colons, [beyond] * 4)[np.searchsorted(colons, starts) + 3]
    double = np.append(first_of_two, beyond)[np.searchsorted(first_of_two, starts)]
    return slices(texts.bytes, starts, np.minimum(fourth, double) + 1)
