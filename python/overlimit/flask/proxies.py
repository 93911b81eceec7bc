"""What is given as a ``LocalProxy``: functions are looked up behind it at each request, all else at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from werkzeug.local import LocalProxy

from overlimit.limits import Limit

__all__ = ["behind", "without_proxies", "without_proxy"]

T = TypeVar("T")


class _Behind:
    """Calls the function that is behind a proxy at that moment; returns a text or a limit that is there."""

    __slots__ = ("_proxy",)

    def __init__(self, proxy: LocalProxy[Any]) -> None:
        self._proxy = proxy

    def __call__(self, *arguments: object) -> object:
        found = self._proxy._get_current_object()
        return found(*arguments) if callable(found) and not isinstance(found, Limit) else found

    def __repr__(self) -> str:
        return "a LocalProxy"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Behind) and self._proxy is other._proxy

    def __hash__(self) -> int:
        return id(self._proxy)


def without_proxies(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with functions that hash in the place of proxies and of what does not.

    Of options that are no functions what is behind a proxy now.
    """
    return {
        name: behind(value) if name in _NEVER_FUNCTIONS else without_proxy(value)
        for name, value in options.items()
    }


_NEVER_FUNCTIONS = frozenset(
    {
        "algorithm",
        "anonymous",
        "application_limits_per_method",
        "clock",
        "default_limits_per_method",
        "enabled",
        "header_names",
        "headers",
        "ipv6_prefix",
        "key_prefix",
        "local_share",
        "methods",
        "name",
        "on_error",
        "override_defaults",
        "per_method",
        "shadow",
        "store",
        "trusted_proxies",
    }
)


def behind(value: T) -> T:
    """Return what is behind a proxy at this moment, as ``flask.current_app``, or what is none."""
    return value._get_current_object() if _is_proxy(value) else value  # type: ignore[attr-defined]


def without_proxy(value: Any) -> Any:
    """Return a function in the place of a proxy, or around one that does not hash; in lists too."""
    if _is_proxy(value):
        return _Behind(value)
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
    # A proxy says of itself that it is what is behind it.
    return issubclass(type(value), LocalProxy)
