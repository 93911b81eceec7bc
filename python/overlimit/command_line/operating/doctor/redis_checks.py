"""What the doctor looks at on a server of Redis or Valkey."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, islice
from typing import Literal

from overlimit.command_line.operating.doctor.findings import Finding, broken, ok, unknown, warning
from overlimit.command_line.operating.endings import is_forbidden, said_in
from overlimit.command_line.operating.key_names import KeyNames
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import Command, Server
from overlimit.command_line.operating.tables import be, counted, span
from overlimit.command_line.operating.values import Value, decoded
from overlimit.command_line.operating.walking import values_of
from overlimit.errors import StoreError

_OLDEST = {"redis": (6, 2), "valkey": (7, 2)}
_SLOTS = 16_384
_FAR_APART = 1_000_000
_NEARLY_FULL = 0.9
_LATE_REPLICA = 10
_HARMLESS_POLICIES = {"noeviction", "volatile-ttl"}
_LATELY = 3600
_FUTURE = 1_000_000
_STEPS, _KEYS_A_STEP = 10, 100
_LASTING = 2 * 3600
_DAYS_TO_RENEW = 14
_MEASURED = 20


class Info(dict[str, str]):
    """What a server says of itself."""

    @classmethod
    def read(cls, text: bytes) -> Info:
        """Read the reply to INFO."""
        pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
        return cls((name, value) for name, colon, value in pairs if colon)

    def number(self, name: str) -> int:
        """Return a number; 0 if there is none."""
        text = self.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else 0


def findings_at(server: Server, place: Place) -> Iterator[Finding]:
    """Examine a server."""
    yield from permissions(server, place)
    yield from certificate(server.raw.certificate_left())
    yield from clock(server)
    told, options = server.answer("INFO"), place.redis._shown
    if isinstance(told, Exception):
        yield unknown(
            "server",
            f"INFO cannot be asked ({said_in(told)}): version, memory, persistence and replication are "
            "unknown.",
            "Examine the server as a user who may run INFO.",
        )
    else:
        info = Info.read(told)
        for look in (version, role, eviction, clients):
            yield from look(info)
        yield from undeclared_cluster(info, place)
        yield from slow_commands(server, options["timeout"])
    yield from cluster(server, place)
    keys, names = _some_keys(server, place), KeyNames(place)
    own = [key for key in keys or () if names.read(key)]
    now = server.now()
    values = [decoded(each) for each in values_of(server, own[:_MEASURED]) if isinstance(each, bytes)]
    found = [each for each in values if each is not None]
    if not isinstance(told, Exception):
        yield from persistence(info, options["remember"], longest_in(found, now))
    if keys is None:
        yield unknown("memory", "This user may not run SCAN, so no key was looked at.")
        return
    yield from other_names(keys, place)
    yield from future_values(found, now)
    yield from memory_per_key(server, own)


def permissions(server: Server, place: Place) -> Iterator[Finding]:
    """Try every command that a store sends."""
    needed, seldom = _commands(place)
    refusals = dict(zip(map(_name, needed), map(_refusal, server.answers(needed)), strict=True))
    lacking = {name for name, refusal in refusals.items() if refusal == "command"}
    refused = zip(seldom, map(_refusal, server.answers(seldom)), strict=True)
    lacking_seldom = {_name(words) for words, refusal in refused if refusal == "command"}
    lacks_keys = "keys" in refusals.values()
    user = place.redis._where.username or "default"
    if lacks_keys:
        pattern = f"~{KeyNames(place).pattern(None)}"
        yield broken(
            "permissions",
            f"The user {user} may not use the keys of this store: the pattern {pattern} is missing.",
            f"Grant {pattern} by ACL SETUSER, or give the URL the prefix and hash_tag that are granted.",
        )
    if lacking:
        yield broken(
            "permissions",
            f"The user {user} may not run {', '.join(sorted(lacking))} on the keys of this store, or the "
            "server does not know these commands.",
            "Grant them, as the page Operating overlimit lists them, and undo rename-command.",
        )
    elif lacking_seldom and not lacks_keys:
        yield warning(
            "permissions",
            f"The user {user} may run what a decision takes, but not {', '.join(sorted(lacking_seldom))}.",
            "Grant SCAN and UNLINK for reset_all, SCAN for `overlimit top`, and PING for the probes.",
        )
    elif not lacks_keys:
        yield ok("permissions", f"The user {user} may run all commands that a store sends.")


def _commands(place: Place) -> tuple[list[Command], list[Command]]:
    """Return commands that change nothing: those of decisions, and those of some calls or of probes."""
    key = KeyNames(place).key("overlimit-doctor", "nobody")
    needed: list[Command] = [
        ("TIME",),
        ("GET", key),
        ("SET", key, "", "XX", "PX", "1"),
        ("DEL", key),
        ("EVALSHA", "0" * 40, "1", key),
        ("EVAL", "return 1", "1", key),
    ]
    if place.redis._where.layout == "sentinel":
        needed.append(("ROLE",))
    if place.is_cluster:
        needed += [("CLUSTER", "SLOTS"), ("ASKING",)]
    return needed, [("PING",), ("SCAN", "0", "MATCH", key, "COUNT", "1"), ("UNLINK", key)]


def _name(command: Command) -> str:
    return " ".join(map(str, command[: 2 if command[0] == "CLUSTER" else 1]))


def _refusal(answer: object) -> Literal["command", "keys"] | None:
    """Return what of a command is not permitted, or not known; None: it was run."""
    if not isinstance(answer, StoreError):
        return None
    text = said_in(answer).lower()
    if is_forbidden(answer) and "permissions to access" in text:
        return "keys"
    return "command" if is_forbidden(answer) or "unknown command" in text else None


def certificate(left: timedelta | None) -> Iterator[Finding]:
    """Look how long the server's certificate is valid, if there is one."""
    if left is None:
        return
    told = f"The server's certificate is valid for another {counted(left.days, 'day')}"
    if left.days < _DAYS_TO_RENEW:
        yield warning(
            "certificate",
            f"{told}: after that, no process can connect.",
            "Renew it now, and find out why nothing has renewed it.",
        )
    else:
        yield ok("certificate", f"{told}.")


def undeclared_cluster(info: Info, place: Place) -> Iterator[Finding]:
    """Look whether it is a node of a cluster, and the URL says that it is a server by itself."""
    if info.get("cluster_enabled") == "1" and not place.is_cluster:
        yield broken(
            "cluster",
            "It is a node of a cluster, and the URL names it as a server by itself: identifiers whose slots "
            "other nodes have get no answer.",
            "Begin the URL with redis+cluster://, or rediss+cluster:// with TLS.",
        )


def clock(server: Server) -> Iterator[Finding]:
    """Compare the server's clock with that of this machine."""
    before = time.time_ns() // 1000
    answer = server.answer("TIME")
    if isinstance(answer, Exception):
        return
    after = time.time_ns() // 1000
    apart = int(answer[0]) * 1_000_000 + int(answer[1]) - (before + after) // 2
    side = "ahead of" if apart > 0 else "behind"
    told = f"The server's clock is {abs(apart) / 1e6:.3f} s {side} this machine's"
    if abs(apart) - (after - before) <= _FAR_APART:
        yield ok("clock", f"{told}.")
        return
    yield warning(
        "clock",
        f"{told}; the server's decides.",
        "Have both follow NTP. Slew the server's clock, do not set it: what was counted would lie ahead.",
    )


def version(info: Info) -> Iterator[Finding]:
    """Compare the version with the oldest that is supported."""
    kind = "valkey" if "valkey_version" in info else "redis"
    text = info.get(f"{kind}_version", "")
    oldest = _OLDEST[kind]
    numbers = tuple(map(int, re.findall(r"\d+", text)[:2]))
    needed = ".".join(map(str, oldest))
    if numbers >= oldest:
        yield ok("version", f"It is {kind.title()} {text}.")
    else:
        yield broken(
            "version",
            f"It is {kind.title()} {text or 'of an unknown version'}, and overlimit needs {needed}.",
            f"Upgrade it to {kind.title()} {needed} or newer.",
        )


def role(info: Info) -> Iterator[Finding]:
    """Look whether it is a master, and how far its replicas are behind."""
    if info.get("role") == "slave":
        takes_writes = info.get("slave_read_only") == "0"
        yield broken(
            "replication",
            "It is a replica that takes writes (replica-read-only is no): its master does not know what it "
            "counts, so each of the two admits a limit, and the next full synchronization forgets it."
            if takes_writes
            else "It is a replica, which refuses every charge.",
            "Point the URL at the master, or use redis+sentinel://.",
        )
        return
    replicas = {name: text for name, text in info.items() if re.fullmatch(r"slave\d+", name)}
    late = [text for text in replicas.values() if _lag(text) > _LATE_REPLICA or "state=online" not in text]
    if late:
        yield warning(
            "replication",
            f"{len(late)} of {counted(len(replicas), 'replica')} {be(len(late), 'is', 'are')} more than "
            f"{_LATE_REPLICA} s behind, or not online.",
            "Look at the replicas and the network: a failover to one of them would lose the last counts.",
        )
    else:
        yield ok("replication", f"It is a master with {counted(len(replicas), 'replica')}.")


def _lag(replica: str) -> int:
    found = re.search(r"lag=(\d+)", replica)
    return int(found[1]) if found else 0


def eviction(info: Info) -> Iterator[Finding]:
    """Look whether counts may be evicted, and whether memory is running out."""
    most, used = info.number("maxmemory"), info.number("used_memory")
    policy, evicted = info.get("maxmemory_policy", "noeviction"), info.number("evicted_keys")
    so_far = f" ({counted(evicted, 'key')} {be(evicted)} evicted so far)"
    if most and policy not in _HARMLESS_POLICIES:
        yield warning(
            "eviction",
            f"maxmemory-policy is {policy}: once {most:,} bytes are full, counts and locks are evicted, and "
            f"those identifiers begin anew{so_far}.",
            "Set maxmemory-policy to noeviction on a server of its own, or to volatile-ttl.",
        )
    elif most and used > _NEARLY_FULL * most:
        yield warning(
            "eviction",
            f"{used:,} of {most:,} bytes are in use, and maxmemory-policy is {policy}"
            f"{so_far if evicted else ''}.",
            "Raise maxmemory: once it is full, calls fail or counts are evicted.",
        )
    else:
        told = f"{used:,} of {most:,} bytes are" if most else f"No maxmemory is set; {used:,} bytes are"
        yield ok("eviction", f"{told} in use; maxmemory-policy is {policy}.")


def longest_in(values: list[Value], now: int) -> float:
    """Return for how many seconds more the longest of some states counts."""
    left = (record.expires_at - now for value in values for record in value.records if value.counts(now))
    return max(left, default=0) / 1e6


def persistence(info: Info, remember: float = 0.0, longest: float = 0.0) -> Iterator[Finding]:
    """Look whether the server can save, and what a restart would lose that nobody brings back.

    ``longest`` is for how many seconds more some of what it keeps counts.
    """
    failing = [
        name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name) == "err"
    ]
    if info.get("loading", "0") != "0":
        yield broken("persistence", "It is loading its data.", "Wait until it has.")
    elif failing:
        yield warning(
            "persistence",
            f"It could not save ({', '.join(failing)}): it may refuse writes with MISCONF.",
            "Look for a full disk, or for permissions, and at the log of the server.",
        )
    elif info.get("aof_enabled") == "1":
        yield ok("persistence", "It appends to a file: a crash loses about a second of counts.")
    elif remember:
        yield ok(
            "persistence",
            "It has no append-only file: a restart loses counts. Processes with remember bring back those "
            f"that they were told of within {remember:g} s, of at most 4,096 keys each.",
        )
    elif longest > _LASTING:
        yield warning(
            "persistence",
            f"It has no append-only file, and keeps counts or locks for another {span(longest * 1e6)}: a "
            "restart loses them, and those quotas begin anew.",
            "Set appendonly yes with appendfsync everysec, or add ?remember=600 to the URL of the processes.",
        )
    else:
        yield ok(
            "persistence",
            "It has no append-only file, and none of the keys that were looked at counts for longer than two "
            "hours: a restart loses counts of seconds and minutes.",
        )


def clients(info: Info) -> Iterator[Finding]:
    """Look whether connections are running out."""
    most, connected = info.number("maxclients"), info.number("connected_clients")
    rejected = info.number("rejected_connections")
    if most and (connected > _NEARLY_FULL * most or rejected):
        yield warning(
            "connections",
            f"{connected:,} of {most:,} connections are open, and {rejected:,} were rejected so far.",
            "Raise maxclients: each process opens up to three.",
        )


def cluster(server: Server, place: Place) -> Iterator[Finding]:
    """Look whether all slots are served, and what may be in one call."""
    if not place.is_cluster:
        return
    answer = server.answer("CLUSTER", "INFO")
    if isinstance(answer, Exception):
        yield unknown("cluster", f"This user may not ask CLUSTER INFO ({said_in(answer)}).", "")
        return
    told = Info.read(answer)
    served = int(told.get("cluster_slots_ok", "0"))
    if told.get("cluster_state") != "ok" or served < _SLOTS:
        yield broken(
            "cluster",
            f"The cluster's state is {told.get('cluster_state')}; {served:,} of {_SLOTS:,} slots are served.",
            "Bring the missing nodes back, or assign their slots.",
        )
    else:
        yield ok("cluster", f"All {_SLOTS:,} slots are served.")


def slow_commands(server: Server, timeout: float) -> Iterator[Finding]:
    """Look for commands that kept all others waiting for a good part of a call's timeout."""
    answer = server.answer("SLOWLOG", "GET", "128")
    if isinstance(answer, Exception):
        yield unknown("slow commands", f"SLOWLOG cannot be asked ({said_in(answer)}).")
        return
    since = server.now() // 1_000_000 - _LATELY
    slow = [each for each in answer if each[1] >= since and each[2] > timeout / 4 * 1e6]
    if slow:
        worst = max(slow, key=lambda each: int(each[2]))
        # Its arguments are not told: there may be a password among them.
        name = worst[3][0].decode("utf-8", "replace").upper()
        yield warning(
            "slow commands",
            f"{counted(len(slow), 'command')} of the last hour kept all others waiting for more than "
            f"{timeout / 4 * 1e3:.0f} ms, the longest of them {name} for {worst[2] / 1e3:,.0f} ms.",
            "SLOWLOG GET shows who sent them: have that program do less at once, or use another server.",
        )


def _some_keys(server: Server, place: Place) -> list[bytes] | None:
    """Return some keys that are named like those of this prefix, with whatever hash tag; None: may not."""
    pages = server.pages(KeyNames(place).pattern_of_all_tags, _KEYS_A_STEP)
    try:
        return list(chain.from_iterable(islice(pages, _STEPS)))
    except StoreError as error:
        if not said_in(error):
            raise
        return None


def other_names(keys: list[bytes], place: Place) -> Iterator[Finding]:
    """Look for keys of processes whose hash_tag is another one."""
    names = [(tag, KeyNames(place, tag)) for tag in ("none", "policy", "prefix") if tag != place.hash_tag]
    counts = {tag: sum(each.read(key) is not None for key in keys) for tag, each in names}
    if any(counts.values()):
        told = " and ".join(f'{count} with hash_tag="{tag}"' for tag, count in counts.items() if count)
        yield warning(
            "hash tags",
            f"Of {counted(len(keys), 'key')}, {told} are or were counted apart from those of this URL.",
            "Give all processes the same hash_tag. Keys of an old one expire by themselves.",
        )


def future_values(values: list[Value], now: int) -> Iterator[Finding]:
    """Look for counts that a clock has left in the future."""
    ahead = [value.created_at - now for value in values if value.created_at - now > _FUTURE]
    if ahead:
        yield warning(
            "times",
            f"{len(ahead)} of {counted(len(values), 'key')} {be(len(ahead))} made up to "
            f"{max(ahead) / 1e6:,.0f} s in the future: "
            "the clock was set back, and whoever had used up a limit stays refused for so much longer.",
            "Forget them with `overlimit reset`, one by one or with --all. Slew the clock, do not set it.",
        )


def memory_per_key(server: Server, keys: list[bytes]) -> Iterator[Finding]:
    """Measure some keys of the store."""
    measured = []
    for key in keys[:_MEASURED]:
        size = server.answer("MEMORY", "USAGE", key)
        if isinstance(size, Exception):
            break  # or the server would log a refusal for each of them
        measured += [size] if isinstance(size, int) else []
    if measured:
        mean = sum(measured) / len(measured)
        yield ok("memory", f"A key takes {mean:,.0f} bytes, as the mean of {len(measured)} of them.")
    else:
        why = "there is none" if not keys else "this user may not run MEMORY USAGE"
        yield Finding("ok" if not keys else "unknown", "memory", f"No key was measured: {why}.")
