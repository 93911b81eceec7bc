"""Options that are a ``LocalProxy``: a function is looked up in each request, anything else at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from werkzeug.local import LocalProxy

from overlimit.http.options.kinds import Option
from overlimit.limits import Limit

T = TypeVar("T")


class _ProxiedFunction:
    """Calls the function that a proxy stands for at that moment; returns it if it is a string or a limit."""

    __slots__ = ("_proxy",)

    def __init__(self, proxy: LocalProxy[Any]) -> None:
        self._proxy = proxy

    def __call__(self, *arguments: object) -> object:
        found = self._proxy._get_current_object()
        return found(*arguments) if callable(found) and not isinstance(found, Limit) else found

    def __repr__(self) -> str:
        return "a LocalProxy"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ProxiedFunction) and self._proxy is other._proxy

    def __hash__(self) -> int:
        return id(self._proxy)


def without_proxies(
    options: Mapping[str, Any], known: Mapping[str, Option] = MappingProxyType({})
) -> dict[str, Any]:
    """Return hashable functions in place of proxies, or their objects where ``known`` as no functions."""
    return {
        name: unproxied(value) if _is_no_function(known.get(name)) else without_proxy(value)
        for name, value in options.items()
    }


def _is_no_function(option: Option | None) -> bool:
    return option is not None and option.kind.own_arguments is None


def unproxied(value: T) -> T:
    """Return the object that a proxy such as ``flask.current_app`` stands for now; others unchanged."""
    return value._get_current_object() if _is_proxy(value) else value  # type: ignore[attr-defined]


def without_proxy(value: Any) -> Any:
    """Return a function instead of a proxy, or around an unhashable function; in lists, too."""
    if _is_proxy(value):
        return _ProxiedFunction(value)
    if type(value) in (list, tuple):
        return type(value)(map(without_proxy, value))
    return partial(value) if callable(value) and not _hashes(value) else value


def _hashes(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_proxy(value: object) -> bool:
    # Not isinstance: a proxy claims to be of the class of its object.
    return issubclass(type(value), LocalProxy)
