"""The setting ``OVERLIMIT``: the options of a site, and requests that are exempt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from overlimit._messages.arguments import check_options
from overlimit._messages.texts import short_repr
from overlimit.django.keys import identifiers_of
from overlimit.django.request import kept_in
from overlimit.http.callables import taking_request
from overlimit.http.identifying.identifiers import as_identify
from overlimit.http.middleware import ExemptRequests
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option
from overlimit.http.options.optional_limits import optional
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS
from overlimit.http.options.settings import Settings
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.stores import as_store

NAME = "OVERLIMIT"

_INSTEAD = {"identifiers": "KEY", "key_func": "KEY"}
KEY = Option(
    kinds.IDENTIFY,
    'Who is limited: ``"ip"``, ``"user"``, ``"user_or_ip"``, ``"header:X-Api-Key"``, ``"cookie:..."``, '
    '``"path:..."``, ``"json:..."``, ``"post:..."``, ``"get:..."``, a function of the request, or a list of '
    "these, all of which are limited. Default: the setting ``KEY``, or else the address, and the user if one "
    "is logged in.",
    name="key",
)
_EXEMPT = Option(
    kinds.function(),
    'Requests that are not limited: patterns such as ``"/health"`` or ``"GET /feeds/*"``, or a function of '
    "the request.",
    name="exempt",
)
SITE_OPTIONS = {
    option.name.upper(): option
    for option in (*RATE_LIMIT_OPTIONS.values(), KEY, _EXEMPT)
    if option.name not in _INSTEAD
}
"""What ``OVERLIMIT`` may contain, by its keys."""

_HINTS = {name.upper(): f"write {key!r}" for name, key in _INSTEAD.items()} | {
    "LIMITS": "write 'DEFAULT_LIMITS', which each view counts by itself, or 'APPLICATION_LIMITS'",
    "STORAGE_URI": "write 'STORE'",
    "STORAGE_URL": "write 'STORE'",
}
LABELS = {option.name: f"{NAME}[{key!r}]" for key, option in SITE_OPTIONS.items()} | {
    "identifiers": f"{NAME}['KEY']"
}
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class SiteSettings(NamedTuple):
    """What ``OVERLIMIT`` says."""

    options: Settings
    exempt: ExemptRequests


def read(given: object) -> SiteSettings:
    """Read ``OVERLIMIT``; raise ImproperlyConfigured, naming the key, for what is wrong or unknown."""
    try:
        found = _read(given)
        with _labelled(NAME, ValueError):
            found.options.addresses()
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(str(error)) from error
    return found


def problems(given: object) -> list[str]:
    """Return what is wrong, key by key, and else of all keys together."""
    each_key = [{key: value} for key, value in given.items()] if isinstance(given, Mapping) else [given]
    return list(_errors(_read, each_key)) or list(_errors(read, [given]))


def _errors(reading: Callable[[object], object], given: Iterable[object]) -> Iterator[str]:
    for each in given:
        try:
            reading(each)
        except (TypeError, ValueError, ImproperlyConfigured) as error:
            yield str(error)


@contextmanager
def _labelled(label: str, *kinds_of_errors: type[Exception]) -> Iterator[None]:
    """Have errors of these kinds say which setting is wrong."""
    try:
        yield
    except kinds_of_errors as error:
        raise type(error)(f"{label}: {error}") from None


@hides_passwords
def _read(given: object) -> SiteSettings:
    if not isinstance(given, Mapping):
        example = f"{NAME} = {{'DEFAULT_LIMITS': '100/minute'}}"
        raise TypeError(f"{NAME} must be a dict, as in {example}, not {short_repr(given)}")
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"the keys of {NAME} must be strings, not {short_repr(key)}")
        check_options(NAME, [key], SITE_OPTIONS, _hints_at(key))
    found = {SITE_OPTIONS[key].name: _value(key, value) for key, value in given.items()}
    exempt = ExemptRequests(found.pop("exempt", None), LABELS["exempt"], kept_in)
    with _labelled(LABELS["key"], ValueError):
        found["identifiers"] = as_identify(LABELS["key"], identifiers_of(found.pop("key", None)), 1)
    settings = Settings(found, 1).completed({})
    settings.check(**LABELS)
    _check_store(settings)
    return SiteSettings(settings, exempt)


def _check_store(settings: Settings) -> None:
    store = settings.options["store"]
    if store == "memory://" or not settings.options["enabled"]:
        return
    with _labelled(LABELS["store"], TypeError, ValueError):
        as_store(store)


def _hints_at(key: object) -> Mapping[str, str]:
    lower = isinstance(key, str) and key.upper() in SITE_OPTIONS
    return {str(key): f"write {str(key).upper()!r}"} if lower else _HINTS


def _value(key: str, value: Any) -> Any:
    """Return a value as an option takes it, with functions that take no request made to do so."""
    option = SITE_OPTIONS[key]
    if isinstance(value, str) and option.kind.may_be_imported and _DOTTED.fullmatch(value):
        value = _imported(key, value)
    if option.kind in (kinds.LIMITS, kinds.LIMITS_OF_ALL):
        return optional(value, kept_in)
    read = option.kind.read(value)
    with _labelled(LABELS[option.name], TypeError):
        return taking_request(read, option.kind.own_arguments, kept_in)


def _imported(key: str, path: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ValueError(f"{LABELS[SITE_OPTIONS[key].name]}: {error}") from error
