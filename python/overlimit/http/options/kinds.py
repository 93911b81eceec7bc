"""Options, and what they take: how each kind of value is checked, and read from a configuration.

Reading, checking and ``help()`` come from the description of an option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from itertools import groupby
from textwrap import fill
from typing import Any, NamedTuple, TypeVar, get_type_hints

from overlimit._addresses import Addresses, checked_ipv6_prefix
from overlimit._forwarded import checked_address_header, checked_header_name
from overlimit._messages.texts import short_repr
from overlimit._options import TRUTH, is_set
from overlimit.clocks import reader_of
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.callables import KeptIn, check_callable, taking_request
from overlimit.http.identifying.identifiers import ReadsRequest, as_identify, check_key_func
from overlimit.limits.penalty import Penalty
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
    of: str = ""
    """What these are, such as ``"the response"``."""
    is_set: Callable[[object], bool] = is_set
    has_no_text: bool = False
    """Whether no text says it, so that one in a file of settings can be the path to import it from."""

    @property
    def may_be_imported(self) -> bool:
        """Whether a dotted path may stand for it in a file of settings."""
        return self.has_no_text or self.own_arguments is not None or self == SWITCH_OR_FUNCTION


def function(of: str = "") -> Kind:
    """Return the kind of a function that is called with ``of``, such as ``"the response"``."""
    return Kind(lambda *about: check_callable(*about, of=of), own_arguments=int(bool(of)), of=of)


def one_of(*words: str | None) -> Kind:
    """Return the kind of one of these values; as texts, None is ``"none"``."""
    known = [repr(word) for word in words]

    def check(name: str, value: object, _: int) -> None:
        if value not in words:
            raise ValueError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}, not {value!r}")

    return Kind(check, lambda value: None if value == "none" and None in words else value)


def _check_file(name: str, value: object, _: int) -> None:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, as 'limits.toml', not {short_repr(value)}")


def _check_switch(name: str, value: object, _: int) -> None:
    if not isinstance(value, bool):  # a string such as "False" would be true
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _check_switch_or_function(name: str, value: object, _: int) -> None:
    return check_callable(name, value, 0) if callable(value) else _check_switch(name, value, _)


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
    check_callable(name, value, arguments, of=SCOPE.of)


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


def _check_penalty(name: str, value: object, _: int) -> None:
    if not isinstance(value, Penalty):
        raise TypeError(f"{name} must be a Penalty such as Penalty(60), not {short_repr(value)}")


def _read_penalty(value: Any) -> object:
    levels = value.split(",") if isinstance(value, str) else value
    try:
        return Penalty([float(each) for each in levels] if isinstance(levels, (list, tuple)) else levels)
    except (TypeError, ValueError):
        return value


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
FILE = Kind(_check_file)
SWITCH = Kind(_check_switch, _read_switch)
SWITCH_OR_FUNCTION = Kind(_check_switch_or_function, _read_switch)
"""A function is not one of a request: it is called without arguments, now and then."""
TEXT = Kind(_check_text)
NAME = Kind(_check_name)
TEXT_OR_FUNCTION = Kind(_check_text_or_function, own_arguments=0)
COST = Kind(_check_cost, _read_number, own_arguments=0)
SCOPE = Kind(_check_scope, own_arguments=1, of="the endpoint")
IDENTIFY = Kind(_check_identify, own_arguments=0)
KEY_FUNC = Kind(check_key_func, own_arguments=0)
ALGORITHM = Kind(lambda name, value, _: algorithm_named(value))
CLOCK = Kind(lambda name, value, _: reader_of(value), has_no_text=True)
SHARE = Kind(lambda name, value, _: share_of_all(value, name))
HEADERS = one_of("draft", "legacy", "both", None)._replace(is_set=lambda value: True)
HEADER_NAMES = Kind(_check_header_names, has_no_text=True)
PENALTY = Kind(_check_penalty, _read_penalty)
"""A configuration may say the seconds of its levels, as ``"60, 300"``."""
PROXIES = Kind(lambda name, value, _: Addresses(value), _read_proxies)
ADDRESS_HEADER = Kind(lambda name, value, _: checked_address_header(value, name))
IPV6_PREFIX = Kind(lambda name, value, _: checked_ipv6_prefix(value), _read_number)


C = TypeVar("C")


class Option(NamedTuple):
    """An option of a RateLimit or of a limit."""

    kind: Kind
    help: str
    """What it means; of options in a row with the same text it is shown once."""
    key: str | None = None
    """The ``RATELIMIT_*`` key that sets it."""
    other_keys: tuple[str, ...] = ()
    """Keys of Flask-Limiter that say the same otherwise."""
    default: object = None
    """What holds if it is not set."""
    is_strict: bool = False
    """Whether an empty value is an error instead of not set."""
    name: str = ""

    def is_set(self, value: object) -> bool:
        """Return whether a value sets it."""
        return value is not None if self.is_strict else self.kind.is_set(value)

    def check(self, value: object, arguments: int, called: str | None = None) -> None:
        """Raise TypeError or ValueError if a value cannot be used; the message says what it is called."""
        try:
            self.kind.check(called or self.name, value, arguments)
        except (TypeError, ValueError) as error:
            told = str(error)
            rest = told.removeprefix(self.name)  # which some checks begin with, whatever it is called here
            if called is None or rest == told:
                raise
            raise type(error)(f"{called}{rest}") from None

    def configured(self, key: str, value: Any, arguments: int) -> object:
        """Return what a key sets; raise ValueError, or TypeError for a function, naming the key."""
        found = self.kind.read(value)
        try:
            self.check(found, arguments)
        except (TypeError, ValueError) as error:
            told = str(error)
            rest = told.removeprefix(f"{self.name} ")
            takes_it = self.kind.may_be_imported and callable(value)
            kind = TypeError if isinstance(error, TypeError) and takes_it else ValueError
            raise kind(f"{key}: {told}" if rest == told else f"{key} {rest}") from None
        return found


def described(keywords: type) -> dict[str, Option]:
    """Return the options of a TypedDict by their names: each is in ``Annotated`` with its type."""
    hints = get_type_hints(keywords, include_extras=True)
    return {
        name: each._replace(name=name)
        for name, hint in hints.items()
        for each in getattr(hint, "__metadata__", ())
    }


def type_of(keywords: type, name: str) -> str:
    """Return the type of a member of a TypedDict as it is written, without what is said of it."""
    given = keywords.__annotations__[name]
    written = str(getattr(given, "__forward_arg__", given))
    told = re.fullmatch(r"Annotated\[(.+?), (?:(?:Option|_term)\(.*\)|[A-Z_]+)\]", written, re.DOTALL)
    return written if told is None else told[1]


def with_request(
    given: Mapping[str, Any], known: Mapping[str, Option], kept_in: KeptIn | None = None
) -> dict[str, Any]:
    """Return options whose functions are called with the request, which they need not take.

    With ``kept_in`` they may be coroutine functions (see `taking_request`).
    """
    return {
        name: taking_request(value, known[name].kind.own_arguments, kept_in) if name in known else value
        for name, value in given.items()
    }


def without_keys(known: Mapping[str, Option]) -> dict[str, Option]:
    """Return options as they are where no configuration is read."""
    return {name: option._replace(key=None, other_keys=()) for name, option in known.items()}


def documents(known: Mapping[str, Option], **texts: str) -> Callable[[C], C]:
    """Write the options in the place of ``{options}`` in a docstring, and each text in that of its name."""

    def write(documented: C) -> C:
        if documented.__doc__ is not None:  # as it is under python -OO
            text = cleandoc(documented.__doc__)  # compiled, it is indented up to Python 3.12 only
            for name, told in {"options": "\n".join(_parameters(known)), **texts}.items():
                text = text.replace(f"{{{name}}}", told)
            documented.__doc__ = text
        return documented

    return write


def _parameters(known: Mapping[str, Option]) -> Iterator[str]:
    """Yield the section on each option, or on several with the same text."""
    for text, same in groupby(known.values(), key=lambda option: option.help):
        alike = list(same)
        keys = ", ".join(key for option in alike for key in (option.key, *option.other_keys) if key)
        yield ", ".join(option.name for option in alike)
        told = f"{text[:-1]} ({keys})." if keys else text
        yield fill(told, 105, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False)
