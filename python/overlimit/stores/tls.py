"""TLS options, under the names that redis-py gives them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from overlimit._options import is_utf8, truth_of

TLS_DEFAULTS: Mapping[str, Any] = {
    "ssl_ca_certs": None,
    "ssl_ca_path": None,
    "ssl_ca_data": None,
    "ssl_cert_reqs": "required",
    "ssl_check_hostname": True,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_password": None,
}
"""The options and what they are by default: the server is verified by the system's CAs, and its host name."""

_TEXTS = {
    "ssl_ca_certs": "ca_file",
    "ssl_ca_path": "ca_directory",
    "ssl_ca_data": "ca_data",
    "ssl_certfile": "certificate_file",
    "ssl_keyfile": "key_file",
    "ssl_password": "key_password",
}
CERT_REQS = {None: "none", 0: "none", 1: "required", 2: "required", "optional": "required"}
"""How redis-py writes ``ssl_cert_reqs``, and what that is here."""
_TLS_1_2 = 0x0303


def tls_options(options: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return the options as the core reads them.

    Raises ValueError or TypeError for a wrong one, without what may be secret.
    """
    if options["ssl_keyfile"] is not None and options["ssl_certfile"] is None:
        raise ValueError("ssl_keyfile needs ssl_certfile, the certificate that the key is of")
    if options["ssl_cert_reqs"] not in ("required", "none"):
        raise ValueError(f"ssl_cert_reqs must be 'required' or 'none', not {options['ssl_cert_reqs']!r}")
    return {
        **{field: _text(name, options[name]) for name, field in _TEXTS.items()},
        "verify": options["ssl_cert_reqs"] == "required",
        "check_hostname": truth_of("ssl_check_hostname", options["ssl_check_hostname"]),
    }


_loading = threading.RLock()
"""Held over an import, and by forks: a child would wait for ever for a module that its parent imports."""
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


def load_openssl() -> None:
    """Load the OpenSSL of Python's own ``ssl``, if it has one: the core takes what the process has.

    Where the environment names another one, that comes first, or it would find the other's libcrypto.
    """
    if os.environ.get("OVERLIMIT_OPENSSL"):
        return
    with _loading, suppress(ImportError):
        import ssl  # noqa: F401


def refuse_tls_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError when an option is set that means nothing without TLS."""
    for name, default in TLS_DEFAULTS.items():
        if options[name] != default:
            raise ValueError(f"{name} is for TLS: begin the store's URL with rediss:// (or valkeys://)")


def taken_over(connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS options of a redis-py connection as those of ``RedisStore``.

    What the connection leaves open is as strict as it is by default here. Raises ValueError naming an option
    that cannot be honoured.
    """
    given = {name: value for name, value in connection.items() if name.startswith("ssl_")}
    options = {name: given.pop(name) for name in TLS_DEFAULTS if name in given}
    if "ssl_cert_reqs" in options:
        options["ssl_cert_reqs"] = CERT_REQS.get(options["ssl_cert_reqs"], options["ssl_cert_reqs"])
    for name in _TEXTS:
        if not isinstance(options.get(name), str | os.PathLike | None):
            raise ValueError(f"over_limit: the client's {name} is supported as a str only")
    if given.get("ssl_min_version") == _TLS_1_2:
        del given["ssl_min_version"]
    for name, value in given.items():
        if value:
            raise ValueError(f"over_limit: the client's {name} is not supported; give a RedisStore instead")
    return options


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not text or "\0" in text or not is_utf8(text):
        raise ValueError(f"{name} must be neither empty nor hold a NUL or a lone surrogate")
    return text
