"""A Redis Cluster of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from .patience import PATIENCE, eventually
from .redis_server import Options, RedisServer

SLOTS = 16_384


class Node(RedisServer):
    """A server of a cluster."""

    def __init__(self, *, options: Options, **more: Any) -> None:
        cluster = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": "1000",
            "cluster-replica-validity-factor": "0",
        }
        super().__init__(options=cluster | dict(options), **more)
        self.id = str(self.ask("CLUSTER", "MYID"), "ascii")

    def state(self) -> str:
        """Return ``"ok"`` or ``"fail"``, as it sees the cluster."""
        return self._cluster_info()["cluster_state"]

    def known_slots(self) -> int:
        """Return of how many slots it knows who serves them."""
        return int(self._cluster_info()["cluster_slots_assigned"])

    def latest_epoch(self) -> str:
        """Return the latest epoch that it knows of, after which comes its own when it is given a slot."""
        return self._cluster_info()["cluster_current_epoch"]

    def forgets(self, slot: int) -> bool:
        """Forget who serves a slot; whether that was known."""
        is_known = any(first <= slot <= last for first, last, *_ in self.ask("CLUSTER", "SLOTS"))
        if is_known:
            self.ask("CLUSTER", "DELSLOTS", slot)
        return is_known

    def serve(self, slot: int) -> None:
        """Take a slot that nobody serves, and tell the others in the course of time."""
        self.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id)

    def times_asked(self, command: str) -> int:
        """Return how often it was sent this command (``"cluster|slots"``), executed or refused.

        Before Redis 7 the commands of CLUSTER are counted together.
        """
        known = self.ask("INFO", "commandstats").decode()
        name = command if "cmdstat_cluster|" in known else command.partition("|")[0]
        found = re.search(rf"cmdstat_{re.escape(name)}:calls=(\d+),.*rejected_calls=(\d+)", known)
        return int(found[1]) + int(found[2]) if found else 0

    def _cluster_info(self) -> dict[str, str]:
        return dict(line.split(":") for line in self.ask("CLUSTER", "INFO").decode().split())

    def role(self) -> str:
        return str(self.ask("ROLE")[0], "ascii")


class Cluster:
    """``masters`` servers with the slots shared evenly among them, and ``replicas`` of each.

    A node that doesn't answer for a second counts as down. ``full_coverage``: whether the others then stop
    too, as Redis does by default. ``introduced``: whether to wait until all nodes know each other and all
    slots; else each knows but its own until ``introduce()``, for a cluster that has no replicas.
    """

    def __init__(
        self,
        *,
        masters: int = 3,
        replicas: int = 0,
        password: str | None = None,
        full_coverage: bool = False,
        introduced: bool = True,
    ) -> None:
        self._servers = ExitStack()
        options = {"cluster-require-full-coverage": "yes" if full_coverage else "no"}
        try:
            self.nodes = [
                self._start(password=password, options=options) for _ in range(masters * (1 + replicas))
            ]
            self.masters = self.nodes[:masters]
            self._share_slots()
            if introduced:
                self.introduce()
                self._follow(replicas)
                eventually(self.is_ready)
        except BaseException:
            self.stop()
            raise

    def _start(self, **options: Any) -> Node:
        node = Node(**options)
        self._servers.callback(node.stop)
        return node

    def introduce(self) -> None:
        # Distinct epochs from the start: a tie would be broken only after a while, by moving slots about.
        for epoch, node in enumerate(self.nodes, start=1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        eventually(self._all_know_all)

    def _all_know_all(self) -> bool:
        views = [node.ask("CLUSTER", "NODES") for node in self.nodes]
        return all(view.count(b"\n") == len(self.nodes) and b"handshake" not in view for view in views)

    def _share_slots(self) -> None:
        bounds = [SLOTS * i // len(self.masters) for i in range(len(self.masters) + 1)]
        for node, first, end in zip(self.masters, bounds, bounds[1:], strict=False):
            node.ask("CLUSTER", "ADDSLOTS", *range(first, end))

    def _follow(self, replicas: int) -> None:
        for index, node in enumerate(self.nodes[len(self.masters) :]):
            node.ask("CLUSTER", "REPLICATE", self.masters[index // replicas].id)

    def is_ready(self) -> bool:
        """Whether every node sees all slots served and knows the latest epoch, and every replica follows."""
        return (
            all(node.state() == "ok" and node.known_slots() == SLOTS for node in self.nodes)
            and self._agree_on_epoch()
            and all(node.ask("ROLE")[3] == b"connected" for node in self.nodes if node not in self.masters)
        )

    def _agree_on_epoch(self) -> bool:
        """Whether two that are given slots one after the other will have different epochs.

        Else each may say in the end that the other serves them.
        """
        return len({node.latest_epoch() for node in self.nodes if node.is_running()}) == 1

    def url(self, *, nodes: Sequence[Node] | None = None) -> str:
        """Return the URL that names these nodes, by default all masters."""
        named = ",".join(f"127.0.0.1:{node.port}" for node in nodes or self.masters)
        return f"redis+cluster://{self.masters[0].credentials}{named}"

    def slot_of(self, key: str) -> int:
        return int(self.nodes[0].ask("CLUSTER", "KEYSLOT", key))

    def owner_of(self, slot: int) -> Node:
        """Return the master that says it serves the slot itself, as for a moment after a move none may do."""
        found: list[Node] = []
        eventually(lambda: found.extend(node for node in self.nodes if self._serves(node, slot)) or found)
        return found[0]

    def _serves(self, node: Node, slot: int) -> bool:
        return node.is_running() and any(
            first <= slot <= last and any(at[1] == node.port for at in serving[:1])
            for first, last, *serving in node.ask("CLUSTER", "SLOTS")
        )

    @contextmanager
    def unserved(self, slot: int) -> Iterator[Node]:
        """Make all nodes forget who serves a slot, and yield who did; it serves it again afterwards."""
        owner = self.owner_of(slot)
        owner.ask("CLUSTER", "DELSLOTS", slot)
        # What the owner said before may still be on its way to the others.
        eventually(lambda: not any(node.forgets(slot) for node in self.nodes))
        yield owner
        if not self._serves(owner, slot):
            owner.serve(slot)
        eventually(self.is_ready)

    @contextmanager
    def migrating(self, slot: int, target: Node) -> Iterator[None]:
        """Move a slot to another master: its keys inside the block, by ``move_key``; the slot at its end."""
        source = self.owner_of(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        yield
        for key in source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            self.move_key(key, source, target)
        for node in (target, source, *(each for each in self.masters if each not in (target, source))):
            if node.is_running():
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        eventually(self._agree_on_epoch)

    def move_key(self, key: str | bytes, source: Node, target: Node) -> None:
        words = ["MIGRATE", "127.0.0.1", target.port, key, 0, int(PATIENCE * 1000)]
        source.ask(*words, *([] if target.password is None else ["AUTH", target.password]))

    def await_failover(self, killed: Node) -> Node:
        """Wait until a replica of the master that was killed serves its slots, and return it."""
        new: list[Node] = []

        def has_taken_over() -> bool:
            others = [node for node in self.nodes if node.is_running() and node not in self.masters]
            new.extend(node for node in others if node.role() == "master")
            return bool(new)

        eventually(has_taken_over, within=PATIENCE * 2)
        self.masters[self.masters.index(killed)] = new[0]
        return new[0]

    def stop(self) -> None:
        self._servers.close()
