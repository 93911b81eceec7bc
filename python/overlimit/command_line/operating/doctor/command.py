"""``overlimit doctor``: examines a store, and prints what it finds."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import click

from overlimit.command_line.operating.doctor import golden, redis_checks, shared_memory_checks
from overlimit.command_line.operating.doctor.findings import Finding, broken, ok, status_of, warning
from overlimit.command_line.operating.endings import (
    FINE,
    REFUSED,
    NoAnswer,
    asks_store,
    has_answered,
    message_of,
)
from overlimit.command_line.operating.endings import status_of as kind_of
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.servers import Server, servers_of
from overlimit.command_line.output import print_json, print_rows
from overlimit.errors import StoreError

_PINGS = 100
_ADVISES = "; "
"""What the errors of a store have between what went wrong and what to do."""
_REPLACE = "Bring it back, or have a replica take its place."
_LOOK_UP = "Look the error up in the table of failures, on the page Operating overlimit."
_EXAMPLES = """
\b
Examples:
  overlimit doctor redis://localhost:6379/0
  overlimit doctor env:REDIS_URL --json | jq .status
"""


@click.command(epilog=_EXAMPLES, short_help="Find out whether a store is well, and what to do.")
@url_argument
@click.option(
    "--ignore-unknown", is_flag=True, help="Take what this user may not ask for healthy: exit code 0 then."
)
@asks_store
def doctor(place: Place, ignore_unknown: bool, as_json: bool) -> int:
    """Find out whether the store at URL is well, and what to do where it is not.

    It looks at reach, latency, TLS, permissions, version, clock, replication, eviction, persistence, the
    slots of a cluster and the memory of a key, or at the file of shared memory. Then it makes calls with
    known answers, under policies whose names begin with overlimit-doctor, and forgets them; beside shared
    memory, they are made in a file of their own, as their times lie ahead.

    The exit code is 0 if the store is healthy, 1 if there are warnings, or something that this user may not
    ask, and 2 if it is broken or unreachable.
    """
    examination = _Examination(place)
    findings = list(examination.findings())
    status = status_of(findings, unknown_is_fine=ignore_unknown)
    first = next((each for each in findings if each.severity == "broken"), None)
    if as_json:
        told = [each.told() for each in findings]
        print_json({"status": status, "reachable": examination.is_reachable, "findings": told})
    else:
        rows = [(each.severity, each.check, each.message) for each in findings]
        print_rows(("severity", "check", "finding"), rows, texts=3)
        for each in findings:
            if each.severity != "ok" and each.advice and each is not first:  # which ends the command
                click.echo(f"\n{each.check}: {each.advice}")
        click.echo(f"\n{place.store.endpoint}: {status}")
    if first is not None:
        kind = (
            "missing" if examination.is_missing else "broken" if examination.is_reachable else "unreachable"
        )
        raise NoAnswer(kind, f"{first.message} {first.advice}".rstrip())
    return REFUSED if status == "warnings" else FINE


class _Examination:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._lost = 0
        self.is_reachable = True
        self.is_missing = False

    def findings(self) -> Iterator[Finding]:
        if self._place.is_redis:
            yield from self._of_redis()
        else:
            yield from self._of_values() if self._place.values is not None else self._of_shared_memory()

    def _of_values(self) -> Iterator[Finding]:
        """Examine a store in a database, by calls alone: what else is to be known, its own tools tell."""
        try:
            self._place.require()
            yield _latency(self._place)
            yield self._played()
        except StoreError as error:
            yield self._failing(error)

    def _of_shared_memory(self) -> Iterator[Finding]:
        store = self._place.shared_memory
        assert store is not None
        try:
            self._place.require()
            yield ok("reach", f"{store.path} can be used.")
            yield from shared_memory_checks.findings_in(store)
            yield shared_memory_checks.live_call(store)
            with shared_memory_checks.beside(store) as own:
                yield golden.play(own)
        except StoreError as error:
            self.is_missing = kind_of(error) == "missing"
            what, _, advice = message_of(error).partition(": ")
            yield broken(
                "reach",
                f"{what}.",
                _sentence(advice) or "`overlimit shm list` shows which there are.",
            )

    def _of_redis(self) -> Iterator[Finding]:
        serves = is_connected = True
        try:
            yield _latency(self._place)
        except StoreError as error:
            serves, is_connected = False, has_answered(error)
            yield self._failing(error)
        if is_connected:
            yield from _tls(self._place)
        found = []
        try:
            found = list(self._of_servers())
            yield from found
        except StoreError as error:
            if serves:
                yield self._failing(error)
            return
        # Of calls that some nodes refuse, keys might be left that lie in the future.
        has_all_slots = not any(each.severity == "broken" and each.check == "cluster" for each in found)
        if serves and self._lost == 0 and has_all_slots:
            yield self._played()

    def _of_servers(self) -> Iterator[Finding]:
        servers = servers_of(self._place)
        self._lost = 0
        for server in servers:
            for finding in self._of_server(server):
                yield finding.at(server.name) if len(servers) > 1 else finding
        self.is_reachable = self._lost == 0  # whatever keeps it from serving calls
        if len(servers) > 1 and self._place.hash_tag == "none":
            yield ok(
                "hash tags",
                "Keys have no hash tag: a call of several identifiers or policies asks several servers.",
                'Set hash_tag="policy" to have the identifiers of a call decided at once, "prefix" '
                "for several policies, and where shadow limits are used.",
            )

    def _of_server(self, server: Server) -> Iterator[Finding]:
        """Examine a server; of several, one that is down does not keep the others from being examined."""
        try:
            found = list(redis_checks.findings_at(server, self._place))
        except StoreError as error:
            if kind_of(error) != "unreachable" or not self._place.is_cluster:
                raise
            self._lost += 1
            yield broken("reach", f"{message_of(error).rstrip('.')}.", _REPLACE)
        else:
            yield from found

    def _failing(self, error: StoreError) -> Finding:
        self.is_reachable = kind_of(error) != "unreachable"
        self.is_missing = kind_of(error) == "missing"
        what, _, advice = message_of(error).partition(_ADVISES)
        instead = _LOOK_UP if self._place.is_redis else ""
        return broken("reach", f"{what.rstrip('.')}.", _sentence(advice) or instead)

    def _played(self) -> Finding:
        try:
            return golden.play(self._place.without_remember)
        except StoreError as error:
            return broken("vectors", f"A call failed: {message_of(error)}.", "See the other findings.")


def _sentence(advice: str) -> str:
    return f"{advice[:1].upper()}{advice[1:]}." if advice else ""


def _latency(place: Place) -> Finding:
    first = place.store.ping()
    took = sorted(place.store.ping() for _ in range(_PINGS))
    half, most = took[_PINGS // 2], took[-1]
    late = took[int(0.99 * _PINGS) - 1]
    values = place.values
    timeout = float(place.redis._shown["timeout"]) if values is None else values.timeout
    what = "write" if values is None else "read"
    told = (
        f"A {what} takes {half * 1e3:.2f} ms in the median, {late * 1e3:.2f} ms at the 99th percentile, "
        f"{most * 1e3:.2f} ms at most; the first answer took {first * 1e3:.2f} ms with connecting."
    )
    if late < timeout / 4:
        return ok("reach", told)
    return warning(
        "reach",
        f"{told} Calls have {timeout * 1e3:.0f} ms.",
        "Find what blocks the server or the network, or raise the timeout: late calls are charged, too.",
    )


def _tls(place: Place) -> Iterator[Finding]:
    where = place.redis._where
    if where.has_tls and where.options.get("ssl_cert_reqs") == "none":
        yield warning("TLS", "Any certificate is trusted, for any host.", "Take ssl_cert_reqs=none out.")
    elif where.has_tls:
        yield ok("TLS", "The connection has TLS, and the certificate is verified.")
    elif where.layout == "unix" or all(_is_own(host) for host, _ in where.hosts):
        yield ok("TLS", "The connection has no TLS and does not leave this machine.")
    else:
        yield warning(
            "TLS",
            "The connection has no TLS and leaves this machine: the password can be read on the way.",
            "Use rediss://, unless the network is trusted.",
        )


def _is_own(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
