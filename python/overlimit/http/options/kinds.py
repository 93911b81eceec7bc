"""What options take: how each kind of value is checked, and read where it is a text of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from overlimit._options import TRUTH, is_set
from overlimit.clocks import reader_of
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import HeaderNames, checked_header_name
from overlimit.http.callables import check_callable
from overlimit.http.identifying.addresses import Addresses, checked_ipv6_prefix
from overlimit.http.identifying.identifiers import ReadsRequest, as_identify
from overlimit.limits.quantities import share_of_all
from overlimit.limits.registry import algorithm_named


class Kind(NamedTuple):
    """What an option takes."""

    check: Callable[[str, Any, int], object] = lambda name, value, arguments: None
    """Raises TypeError or ValueError, whose message begins with the given name.

    The last argument is the number of arguments for the request with which functions are called.
    """
    read: Callable[[Any], object] = lambda value: value
    """Converts what a configuration says, which may be a text; returns anything else unchanged."""
    own_arguments: int | None = None
    """How many arguments a function gets before those for the request; None: it is never a function."""
    is_set: Callable[[object], bool] = is_set


def function(of: str = "") -> Kind:
    """Return the kind of a function that is called with ``of``, such as ``"the response"``."""
    return Kind(lambda *about: check_callable(*about, of=of), own_arguments=int(bool(of)))


def one_of(*words: str | None) -> Kind:
    """Return the kind of one of these values; as texts, None is ``"none"``."""
    known = [repr(word) for word in words]

    def check(name: str, value: object, _: int) -> None:
        if value not in words:
            raise ValueError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}, not {value!r}")

    return Kind(check, lambda value: None if value == "none" and None in words else value)


def _check_switch(name: str, value: object, _: int) -> None:
    if not isinstance(value, bool):  # a string such as "False" would be true
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _read_switch(value: Any) -> object:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    words = {**TRUTH, "on": True, "off": False}
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


def _check_text(name: str, value: object, _: int) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")


def _check_name(name: str, value: object, _: int) -> None:
    _check_text(name, value, _)
    if value == "":
        raise InvalidLimit(f"{name} must not be empty")


def _check_text_or_function(name: str, value: object, arguments: int) -> None:
    if callable(value):
        check_callable(name, value, arguments)


def _check_cost(name: str, value: object, arguments: int) -> None:
    if callable(value):
        return check_callable(name, value, arguments)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number or a function that returns one, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be 0 or more, not {value}")
    return None


def _check_scope(name: str, value: object, arguments: int) -> None:
    if isinstance(value, str):
        return
    if not callable(value):
        instead = f": write {name}='{value}'" if isinstance(value, int) else ""
        raise TypeError(f"{name} must be a string or a function of the endpoint, not {value!r}{instead}")
    check_callable(name, value, arguments, of="the endpoint")


def _check_header_names(name: str, value: object, _: int) -> None:
    if not isinstance(value, HeaderNames):
        raise TypeError(f"{name} must be a HeaderNames, not {value!r}")
    for each in value:
        checked_header_name(each)


def _check_identify(name: str, value: object, arguments: int) -> None:
    if not isinstance(value, ReadsRequest):
        as_identify(name, value, arguments)


def _read_number(value: Any) -> object:
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _read_proxies(value: Any) -> object:
    number = _read_number(value)
    if isinstance(number, str):
        return [part.strip() for part in number.split(",")]
    return list(number) if isinstance(number, (tuple, set, frozenset)) else number


LIMITS = Kind(own_arguments=0)
"""Checked where it is known which algorithm strings mean."""
LIMITS_OF_ALL = LIMITS._replace(is_set=lambda value: value == "" or is_set(value))
"""The same where an empty string is an error."""
STORE = Kind()
"""Checked where it is needed, because what is disabled needs none."""
SWITCH = Kind(_check_switch, _read_switch)
TEXT = Kind(_check_text)
NAME = Kind(_check_name)
TEXT_OR_FUNCTION = Kind(_check_text_or_function, own_arguments=0)
COST = Kind(_check_cost, _read_number, own_arguments=0)
SCOPE = Kind(_check_scope, own_arguments=1)
IDENTIFY = Kind(_check_identify, own_arguments=0)
ALGORITHM = Kind(lambda name, value, _: algorithm_named(value))
CLOCK = Kind(lambda name, value, _: reader_of(value))
SHARE = Kind(lambda name, value, _: share_of_all(value, name))
HEADERS = one_of("draft", "legacy", "both", None)._replace(is_set=lambda value: True)
HEADER_NAMES = Kind(_check_header_names)
PROXIES = Kind(lambda name, value, _: Addresses(value), _read_proxies)
IPV6_PREFIX = Kind(lambda name, value, _: checked_ipv6_prefix(value), _read_number)
