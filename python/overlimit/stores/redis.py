"""The store in Redis."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable
from functools import partial
from typing import Any, ClassVar, Literal

from overlimit import _core
from overlimit._core import KEY_NAME_RULE, is_key_name
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.texts import short_repr
from overlimit._options import check_is_seconds, hash_tag_of, seconds_us_of, text_of, timeout_us_of, truth_of
from overlimit.stores.kinds import StoreKind
from overlimit.stores.redis_url import RedisUrl
from overlimit.stores.sentinels import SENTINEL_DEFAULTS, sentinel_login
from overlimit.stores.shared_memory import lease_file_of
from overlimit.stores.tls import TLS_DEFAULTS, load_openssl, refuse_tls_options, tls_options

_OWN_DEFAULTS = {
    "timeout": 0.1,
    "prefix": "ol",
    "hash_tag": False,
    "hash_identifiers": False,
    "lease": 0.0,
    "lease_in": None,
    "max_stale": None,
    "remember": 0.0,
    "client_name": None,
}
_SECONDS = ("timeout", "lease", "max_stale", "remember")
_IN_THE_URL = "write url='redis://localhost:6379/0'"
_CLIENT_NAME = re.compile(r"[!-~]+")
_OPTIONS = (*_OWN_DEFAULTS, *TLS_DEFAULTS, *SENTINEL_DEFAULTS)


class RedisStore(_core.RedisStore, StoreKind, Initialised):
    """A store in Redis (6.2 or newer) or Valkey (7.2 or newer).

    Parameters
    ----------
    url
        ``redis://[user[:password]@]host[:port][/db]`` or ``unix://[user:password@]/path[?db=N]``, also
        written ``redis+unix://``;
        ``redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]``, where the hosts are
        sentinels and user and password are for the master they name (theirs are ``sentinel_password`` and so
        on);
        ``redis+cluster://[user:password@]host[:port],host[:port]``, where the hosts are some nodes of a
        cluster. ``rediss`` instead of ``redis`` is with TLS; ``valkey`` and ``valkeys`` are the same as
        ``redis`` and ``rediss``. Every keyword below may also be a query option of it.
    timeout
        The deadline of one whole call (resolve, connect, TLS, log in, send, reply, and asking others or once
        more where that cannot charge twice), in seconds.
    prefix
        What every key begins with: ``[A-Za-z0-9_.-]{1,64}``.
    hash_tag
        What the keys of one call share in their names, for a cluster to keep them in one slot: nothing
        (False), the policy (``"policy"`` or True) or all keys of the prefix (``"prefix"``). Of a call in
        several slots, each slot decides its part.
    hash_identifiers
        Whether keys hold the SHA-256 of every identifier, not only of those longer than 256 bytes.
    lease
        For how many seconds, at most 10, this process may spend units that it has charged early, so that
        calls that come often ask the server only now and then. 0: never.
    lease_in
        Where the processes of this host lease as one: ``"shm://myapp"``, for a file of this user in
        ``/dev/shm``, or ``"shm:///absolute/path"``; ``?mode=660`` lets in a group. Needs ``lease``. None:
        each process leases for itself, as it does, after a warning, if the file cannot be used.
    max_stale
        For how many seconds, at most 60, this process refuses by itself what the server has refused, as long
        as nothing but time can have changed; None: as ``lease``; 0: never. Then a flood of refused calls
        costs the server next to nothing, and somebody else's ``reset``, ``unlock`` or refund may be noticed
        so much later.
    remember
        For how many seconds, at most 3600, this process remembers what it was last told of a key, so that
        counts come back after a server has lost them, such as by a failover. 0: not at all. Set it in every
        process or in none: FLUSHALL and DEL by hand are undone then, and ``reset`` forgets.
    client_name
        How ``CLIENT LIST`` of a server calls the connections to it: printable ASCII without spaces. None:
        they have no name.
    ssl_ca_certs, ssl_ca_path, ssl_ca_data
        The CAs to trust instead of the system's: a PEM file, a directory as ``openssl rehash`` makes it, PEM
        text.
    ssl_cert_reqs
        ``"required"``: the server's certificate must be of such a CA. ``"none"``: any will do, for any host.
    ssl_check_hostname
        Whether the certificate must be for the URL's host name or address.
    ssl_certfile, ssl_keyfile, ssl_password
        The certificate to show the server and its key (by default in the same file), PEM files; the
        password if the key is encrypted.
    sentinel_username, sentinel_password
        The user and the password to give sentinels; without a user, the password of all.
    sentinel_ssl
        Whether sentinels are talked to with TLS; by default as the master is, by the scheme of the URL.
    sentinel_ssl_ca_certs, sentinel_ssl_ca_path, sentinel_ssl_ca_data, sentinel_ssl_cert_reqs, \
sentinel_ssl_check_hostname, sentinel_ssl_certfile, sentinel_ssl_keyfile, sentinel_ssl_password
        As those without ``sentinel_``, for sentinels; by default those of the master, if that has TLS.

    Notes
    -----
    Building a store connects to nothing, reads none of the files and never fails because a server is down.
    Thread-safe; a forked child opens connections of its own. Raises ValueError or TypeError that names the
    wrong option, or says what is wrong with the URL, and StoreConfigError where there is no OpenSSL for TLS.
    """

    _set_last: ClassVar[str] = "_state_key"
    _has_connections = True
    _example = "'redis://localhost:6379/0'"
    _takes_hashes: ClassVar[bool] = False
    """Whether identifiers are given as the SHA-256 that their keys hold, by whoever sees no more of them."""

    @checks_arguments(instead=dict.fromkeys(("host", "port", "db", "username", "password"), _IN_THE_URL))
    def __init__(
        self,
        url: str,
        *,
        timeout: float = 0.1,
        prefix: str = "ol",
        hash_tag: bool | Literal["policy", "prefix"] = False,
        hash_identifiers: bool = False,
        lease: float = 0.0,
        lease_in: str | None = None,
        max_stale: float | None = None,
        remember: float = 0.0,
        client_name: str | None = None,
        ssl_ca_certs: str | os.PathLike[str] | None = None,
        ssl_ca_path: str | os.PathLike[str] | None = None,
        ssl_ca_data: str | None = None,
        ssl_cert_reqs: str = "required",
        ssl_check_hostname: bool = True,
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_password: str | None = None,
        sentinel_username: str | None = None,
        sentinel_password: str | None = None,
        sentinel_ssl: bool | None = None,
        sentinel_ssl_ca_certs: str | os.PathLike[str] | None = None,
        sentinel_ssl_ca_path: str | os.PathLike[str] | None = None,
        sentinel_ssl_ca_data: str | None = None,
        sentinel_ssl_cert_reqs: str | None = None,
        sentinel_ssl_check_hostname: bool | None = None,
        sentinel_ssl_certfile: str | os.PathLike[str] | None = None,
        sentinel_ssl_keyfile: str | os.PathLike[str] | None = None,
        sentinel_ssl_password: str | None = None,
    ) -> None:
        arguments = locals()
        keywords: dict[str, Any] = {name: arguments[name] for name in _OPTIONS}
        where = RedisUrl.read(url, _OPTIONS)
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str such as 'ol', not {short_repr(prefix)}")
        check_is_seconds(timeout)
        options = keywords | where.options
        if not is_key_name(options["prefix"]):
            raise ValueError(f"prefix must be {KEY_NAME_RULE}, not {options['prefix']!r}")
        if where.has_tls:
            load_openssl()
        else:
            refuse_tls_options(options)
        named, example = options["client_name"], "'checkout', or None"
        wanted = "printable ASCII without spaces, as Redis demands, such as 'checkout'"
        client = "" if named is None else text_of("client_name", named, _CLIENT_NAME, example, wanted)
        login = sentinel_login(where, options)
        self._where = where
        tls = tls_options(options) if where.has_tls else None
        self._location = where.location(tls, login, client)
        self._arguments = (url, keywords)
        timeout_us = timeout_us_of(options["timeout"])
        remember_us = seconds_us_of("remember", options["remember"], 3600)
        lease_us = seconds_us_of("lease", options["lease"], 10)
        stale = options["max_stale"]
        stale_us = lease_us if stale is None else seconds_us_of("max_stale", stale, 60)
        self._longest_lease, self._longest_stale = lease_us / 1e6, max(lease_us, stale_us) / 1e6
        lease_file = _lease_file(options["lease_in"], lease_us)
        hash_tag_word = hash_tag_of(options["hash_tag"])
        hashes = truth_of("hash_identifiers", options["hash_identifiers"])
        self._shown = {name: _as_given(name, options[name]) for name in _OWN_DEFAULTS}
        self._state_key: Hashable = (str(where), options["prefix"], hash_tag_word, hashes)
        super().__init__(
            self._location,
            {
                "prefix": options["prefix"],
                "hash_tag": hash_tag_word,
                "hash_identifiers": hashes,
                "takes_hashes": self._takes_hashes,
                "timeout_us": timeout_us,
                "max_stale_us": stale_us,
                "lease_us": lease_us,
                "remember_us": remember_us,
                "lease_in": lease_file,
            },
        )
        if lease_us > 0:
            _close_at_end(self)

    @property
    def _why_unleased(self) -> str | None:
        return None if self._longest_lease > 0 else "the store has no lease"

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without credentials and options."""
        return str(self._where)

    def __repr__(self) -> str:
        unusual = {name: value for name, value in self._shown.items() if value != _OWN_DEFAULTS[name]}
        options = [f"{name}={value!r}" for name, value in unusual.items()]
        return f"RedisStore({', '.join([repr(self.endpoint), *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        url, keywords = self._arguments
        return partial(RedisStore, url, **keywords), ()


def _close_at_end(store: RedisStore) -> None:
    """Import what watches ends only where there is something to release."""
    from overlimit.stores.process_ends import close_at_end

    close_at_end(store)


def _lease_file(url: object, lease_us: int) -> tuple[str, int] | None:
    if url is not None and lease_us == 0:
        raise ValueError(
            "lease_in says where leases are, and there are none without lease: give that too, as in "
            "lease=0.1, or leave lease_in out"
        )
    return lease_file_of(url)


def _as_given(name: str, value: Any) -> Any:
    """Return a valid option as a keyword would give it: in a URL all of them are text."""
    if name in _SECONDS and isinstance(value, str):
        return float(value)
    return truth_of(name, value) if name == "hash_identifiers" else value
