"""What a redis-server is told, and what scripts tell it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple


class Commands(NamedTuple):
    """Commands as lists of words: those of clients, and those of the scripts they ran."""

    of_clients: list[list[str]]
    of_scripts: list[list[str]]

    @property
    def declared_keys(self) -> set[str]:
        """The keys that scripts were given."""
        return {key for command in self.of_clients for key in command[3 : 3 + int(command[2])]}

    @property
    def touched_keys(self) -> set[str]:
        """The keys that scripts used."""
        return {command[1] for command in self.of_scripts if command[0] != "TIME"}


def commands_during(server: Any, action: Callable[[], object]) -> Commands:
    """Return the scripts that ran on a server during an action, and what these did."""
    seen = Commands([], [])
    with closing(server.client()) as client, client.monitor() as monitor:
        action()
        client.echo("end of action")
        for each in monitor.listen():
            words = each["command"].split(" ")
            if words[0] == "ECHO":
                return seen
            if each["client_type"] == "lua":
                seen.of_scripts.append(words)
            elif words[0] == "EVALSHA":
                seen.of_clients.append(words)
    raise AssertionError("the monitor's connection ended")
