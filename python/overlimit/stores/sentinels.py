"""As whom a store talks to sentinels: options of their own, beside those of the master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlimit._options import is_utf8, truth_of
from overlimit.stores.redis_url import Login, RedisUrl
from overlimit.stores.tls import TLS_DEFAULTS, load_openssl, tls_options

_LOGIN = ("sentinel_username", "sentinel_password")
_TLS = {f"sentinel_{name}": name for name in TLS_DEFAULTS}

SENTINEL_DEFAULTS: Mapping[str, Any] = dict.fromkeys((*_LOGIN, "sentinel_ssl", *_TLS))
"""The options, none of which is given by default: no login, and TLS as the master has it."""


def sentinel_login(where: RedisUrl, options: Mapping[str, Any]) -> Login:
    """Return as whom to talk to the sentinels of a URL; raise ValueError or TypeError for a wrong option."""
    given = [name for name in SENTINEL_DEFAULTS if options[name] is not None]
    if given and where.layout != "sentinel":
        raise ValueError(f"{given[0]} is for sentinels: begin the store's URL with redis+sentinel://")
    wants = options["sentinel_ssl"]
    has_tls = where.has_tls if wants is None else truth_of("sentinel_ssl", wants)
    of_tls = next((name for name in given if name in _TLS), None)
    if of_tls and not has_tls:
        raise ValueError(
            f"{of_tls} is for TLS: give sentinel_ssl=True, or begin the store's URL with rediss+sentinel://"
        )
    username, password = (_text(name, options[name]) for name in _LOGIN)
    if username and not password:
        raise ValueError("sentinel_username needs sentinel_password")
    if not has_tls:
        return Login(username, password, None)
    load_openssl()
    own = {name: options[ours] for ours, name in _TLS.items() if options[ours] is not None}
    return Login(username, password, tls_options({**TLS_DEFAULTS, **_of_master(where, options), **own}))


def _of_master(where: RedisUrl, options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in TLS_DEFAULTS} if where.has_tls else {}


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value or not is_utf8(value):
        raise ValueError(f"{name} must be neither empty nor hold a lone surrogate")
    return value
