"""``overlimit shm``: the shared memories of this host."""

from __future__ import annotations

import os
import stat
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from overlimit._messages.texts import percent
from overlimit.command_line.operating.doctor.shared_memory_checks import share_used
from overlimit.command_line.operating.endings import FINE, REFUSED, asks_store, done, message_of
from overlimit.command_line.operating.places import (
    Place,
    SharedMemoryFile,
    held_in,
    lease_file,
    shared_memory_files,
    url_argument,
)
from overlimit.command_line.operating.tables import be, counted, span
from overlimit.command_line.output import print_json, print_rows
from overlimit.errors import StoreConfigError
from overlimit.stores import SharedMemoryStore

_leases_option = click.option(
    "--leases", is_flag=True, help="That with leases (lease_in), where another of this name has counts."
)


@click.group(short_help="List, look at and remove the shared memories of this host.")
def shm() -> None:
    """List, look at and remove the shared memories of this host, which shm:// URLs name."""


@shm.command("list", short_help="List the shared memories of all users.")
@click.argument("pattern", default="*")
@click.option("--own", is_flag=True, help="Those of this user alone.")
@asks_store
def list_files(pattern: str, own: bool, as_json: bool) -> int:
    """List the shared memories in /dev/shm, of all users and versions; with PATTERN, those of such a name.

    Those with leases are listed, too, by the URL that lease_in names. Those at paths of their own, such as
    shm:///run/limits/myapp, are not, nor is what overlimit has not made, whatever its name.
    """
    files = [
        _told(each)
        for each in shared_memory_files()
        if fnmatchcase(each.name, pattern) and (not own or each.user == os.geteuid()) and each.path.exists()
    ]
    if as_json:
        print_json({"status": "ok", "files": files})
        return FINE
    columns = ("url", "holds", "user", "version", "bytes", "mode", "changed", "keys", "processes")
    print_rows(columns, map(_row, files))
    return FINE


def _told(file: SharedMemoryFile) -> dict[str, Any]:
    status = file.path.stat()
    opened = _opened(file) if file.is_current and status.st_uid == os.geteuid() else None
    return {
        "url": f"shm://{file.name}",
        "holds": "leases" if file.has_leases else "counts",
        "path": str(file.path),
        "user": file.user,
        "version": file.version,
        "bytes": status.st_size,
        "mode": f"{stat.S_IMODE(status.st_mode):o}",
        "age": time.time() - status.st_mtime,
        "keys": None if opened is None else len(opened),
        "processes": None if opened is None else _others(opened),
    }


def _opened(file: SharedMemoryFile) -> SharedMemoryStore | None:
    """Return the store of a file; None if it cannot be used, as when it is damaged."""
    store = SharedMemoryStore(file.name)
    return store if _problem_of(store) is None else None


def _problem_of(store: SharedMemoryStore) -> StoreConfigError | None:
    try:
        store.ping()
    except StoreConfigError as error:
        return error
    return None


def _others(store: SharedMemoryStore) -> int:
    """Return how many processes use the file, besides this one."""
    return max(0, store.stats()["processes"]["alive"] - 1)


def _row(file: dict[str, Any]) -> tuple[object, ...]:
    known = ("-" if file[name] is None else f"{file[name]:,}" for name in ("keys", "processes"))
    return (
        *(file["url"], file["holds"], file["user"], file["version"], f"{file['bytes']:,}", file["mode"]),
        *(f"{span(file['age'] * 1e6)} ago", *known),
    )


@shm.command("show", short_help="Look at one of them.")
@url_argument
@_leases_option
@asks_store
def show_file(place: Place, leases: bool, as_json: bool) -> int:
    """Show how a shared memory is doing: its size, keys and processes, and whether it is full or damaged.

    It is full when the share used is 100 %: of the keys, or of the bytes for them. Then identifiers share
    counts, and crowded says in how many decisions they did. Of a file with leases it shows where it is, its
    size and its mode: who leases what, only the processes know.
    """
    with_leases = _lease_file(place, leases)
    if with_leases is not None:
        return _print_told(_told_of_leases(with_leases), as_json)
    store = _shared_memory(place)
    stats, used = store.stats(), store._usage()
    told = {
        "path": store.path,
        "bytes": os.stat(store.path).st_size,
        "keys": len(store),
        "max_keys": used["max_keys"],
        "key_bytes": used["bytes"],
        "max_bytes": used["max_bytes"],
        "used_share": share_used(store),
        "processes": _others(store),
        "died": stats["processes"]["attached"] - stats["processes"]["alive"],
        "crowded": stats["crowded"],
        "damaged": stats["damaged"],
    }
    return _print_told(told, as_json)


def _told_of_leases(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"path": str(path), "bytes": status.st_size, "mode": f"{stat.S_IMODE(status.st_mode):o}"}


def _print_told(told: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_json({"status": "ok", **told})
    else:
        rows = ((name.replace("_", " "), _shown(value)) for name, value in told.items())
        print_rows(("what", "value"), rows, texts=2)
    return FINE


@shm.command("remove", short_help="Remove one of them.")
@url_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@_leases_option
@asks_store
def remove_file(place: Place, yes: bool, leases: bool, as_json: bool) -> int:
    """Remove a shared memory, with all counts and locks in it.

    Processes that use it keep it, while new ones make another, so that together they admit more: restart all
    of them. With leases that does no harm: those that use the file go on leasing as one, new ones as another,
    and limits hold.
    """
    if as_json and not yes:
        raise click.UsageError("--json asks nothing, and so needs --yes")
    with_leases = _lease_file(place, leases)
    if with_leases is not None:
        return _remove_leases(with_leases, yes, as_json)
    store = _to_remove(place)
    problem = _problem_of(store)
    others = _others(store) if problem is None else 0
    if not yes and not _is_confirmed(f"{_what_is_lost(store, others, problem)} Remove it?"):
        return _nothing_removed()
    store.unlink()
    message = f"{store.path} is removed."
    if others:
        users = "process that uses" if others == 1 else f"{others:,} processes that use"
        message += f" Restart the {users} it: until then, limits do not hold."
    return done(message, as_json, processes=others)


def _to_remove(place: Place) -> SharedMemoryStore:
    """Return the store of a file that overlimit has made, whether or not it can be used."""
    store = _named(place)
    if held_in(Path(store.path)) != "counts":
        place.require()
    return store


def _what_is_lost(store: SharedMemoryStore, others: int, problem: StoreConfigError | None) -> str:
    if problem is not None:
        return f"{message_of(problem).partition(': ')[0]}; who uses it is not known."
    users = f"{counted(others, 'process')} {be(others, 'uses', 'use')} it"
    return f"{store.path} has {counted(len(store), 'key')}, and {users}."


def _remove_leases(path: Path, yes: bool, as_json: bool) -> int:
    if not yes and not _is_confirmed(f"Remove the leases in {path}?"):
        return _nothing_removed()
    path.unlink(missing_ok=True)
    return done(f"{path} is removed.", as_json)


def _nothing_removed() -> int:
    click.echo("Nothing is removed.")
    return REFUSED


def _shown(value: object) -> str:
    if isinstance(value, float):
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise click.UsageError("nobody is there to answer: --yes removes it without a question") from None


def _shared_memory(place: Place) -> SharedMemoryStore:
    store = _named(place)
    place.require()
    return store


def _lease_file(place: Place, is_asked_for: bool) -> Path | None:
    """Return the file with leases if that is meant: unless it is asked for, one with counts goes first."""
    store = _named(place)
    path = lease_file(store._arguments[0])
    if is_asked_for and path is None:
        raise StoreConfigError(f"this user has no file with leases that lease_in='{store.endpoint}' names")
    return path if is_asked_for or path == Path(store.path) or not store.is_created else None


def _named(place: Place) -> SharedMemoryStore:
    if place.shared_memory is None:
        raise click.UsageError("this command is about shared memory, whose URL begins with shm://")
    return place.shared_memory
