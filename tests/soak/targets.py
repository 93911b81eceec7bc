"""What is called, and the ways in which it fails and gets well again."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack

from servers.fault_proxy import FaultProxy
from servers.redis_server import RedisServer
from servers.sentinels import Sentinels

Fault = Callable[[], object]

MENDING = 60.0
"""Seconds that servers may take to be well again after a fault that did not come off."""


class Target(ABC):
    """A store that fails. A fault lasts until it returns; those of ``losing`` may lose keys."""

    name: str
    url: str
    seconds_per_fault: float
    """At most, from the beginning of one to that of the next, on average and on a busy machine."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.servers = ExitStack()

    @property
    @abstractmethod
    def faults(self) -> dict[str, Fault]:
        """The faults by name."""

    @property
    @abstractmethod
    def losing(self) -> frozenset[str]:
        """The names of those that may lose keys."""

    @property
    @abstractmethod
    def counting_url(self) -> str:
        """Where to ask directly what was counted."""

    @abstractmethod
    def mend(self) -> None:
        """Have all servers answer again, after a fault that ended with an error."""

    def lasting(self, most: float) -> None:
        """Let a fault last for a while, up to ``most`` seconds."""
        time.sleep(self.random.uniform(0.02, most))

    def stop(self) -> None:
        self.servers.close()


class ProxiedServer(Target):
    """One server, called through a network that fails, too."""

    name = "server"
    losing = frozenset({"killed"})
    seconds_per_fault = 5.0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server = RedisServer()
        self.servers.callback(self.server.stop)
        self.proxy = FaultProxy(self.server.port)
        self.servers.callback(self.proxy.stop)
        self.url = self.proxy.url

    @property
    def counting_url(self) -> str:
        return self.server.unix_url()

    @property
    def faults(self) -> dict[str, Fault]:
        return {
            "killed": self._killed,
            "stopped": self._stopped,
            "paused": lambda: self.server.ask("CLIENT", "PAUSE", self.random.randint(10, 500), "ALL"),
            "scripts forgotten": lambda: self.server.ask("SCRIPT", "FLUSH"),
            "replies swallowed": lambda: self._for_a_while(self.proxy.hold_replies),
            "black hole": lambda: self._for_a_while(self.proxy.hold_all),
            "slow": lambda: self._for_a_while(lambda: self.proxy.delay(requests=0.02, replies=0.02)),
            "too slow": lambda: self._for_a_while(lambda: self.proxy.delay(replies=0.5)),
            "crumbs": lambda: self._for_a_while(self.proxy.dribble),
            "cut": lambda: self._for_a_while(
                lambda: self.proxy.cut_replies_after(self.random.randint(0, 500))
            ),
            "reset": self.proxy.reset,
            "refused": lambda: self._for_a_while(self.proxy.refuse),
        }

    def mend(self) -> None:
        self.proxy.restore()
        if self.server.is_running():
            self.server.resume()
        else:
            self.server.restart()

    def _for_a_while(self, begin: Fault) -> None:
        begin()
        self.lasting(1.5)
        self.proxy.restore()

    def _killed(self) -> None:
        self.server.kill()
        self.lasting(1.0)
        self.server.restart()

    def _stopped(self) -> None:
        self.server.pause()
        self.lasting(1.5)
        self.server.resume()


class WatchedMaster(Target):
    """A master with a replica and sentinels that replace it."""

    name = "sentinels"
    losing = frozenset({"killed", "handed over", "stopped for long"})
    seconds_per_fault = 15.0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sentinels = Sentinels(sentinels=3, down_after_ms=500)
        self.servers.callback(self.sentinels.stop)
        self.url = self.sentinels.url

    @property
    def counting_url(self) -> str:
        return self.sentinels.master.unix_url()

    @property
    def faults(self) -> dict[str, Fault]:
        return {
            "killed": self._killed,
            "handed over": self._handed_over,
            "stopped for long": self._stopped_for_long,
            "stopped": self._stopped,
            "a sentinel lost": self._sentinel_lost,
        }

    def mend(self) -> None:
        self.sentinels.mend(within=MENDING)

    def _killed(self) -> None:
        old = self.sentinels.master
        old.kill()
        self.sentinels.await_failover()
        old.restart()
        self.sentinels.await_replicas()

    def _handed_over(self) -> None:
        self.sentinels.fail_over()
        # Until the sentinels demote it, the old master counts for those that are connected to it.
        self.sentinels.await_replicas()

    def _stopped_for_long(self) -> None:
        old = self.sentinels.master
        old.pause()
        self.sentinels.await_failover()
        self.lasting(1.0)
        old.resume()
        self.sentinels.await_replicas()

    def _stopped(self) -> None:
        self.sentinels.master.pause()
        self.lasting(0.2)
        self.sentinels.master.resume()

    def _sentinel_lost(self) -> None:
        lost = self.random.choice(self.sentinels.sentinels)
        lost.kill()
        self.lasting(1.0)
        lost.restart()
