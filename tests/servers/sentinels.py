"""A master, its replicas, and sentinels that watch over them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import redis

from .patience import PATIENCE, eventually
from .redis_server import RedisServer

SERVICE = "limits"

FAILOVER = 60.0
"""Seconds that sentinels may take to agree on a new master: after a failed vote they wait for a while."""

_FASTER = {"info-period": 200, "ping-period": 100, "ask-period": 100, "publish-period": 200}


class Sentinel(RedisServer):
    """A sentinel; it keeps its configuration in a file that it rewrites."""

    def __init__(
        self,
        master: RedisServer,
        *,
        quorum: int,
        down_after_ms: int,
        password: str | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        self._watched, self._quorum, self._down_after_ms = master, quorum, down_after_ms
        self._lines = lines if password is None else [f"requirepass {password}", *lines]
        super().__init__(password=password)
        self._hasten()

    def restart(self, **options: Any) -> None:
        super().restart(**options)
        self._hasten()

    def _hasten(self) -> None:
        """Have it look more often than it does by default; a Redis 6.2 can't."""
        if not any(line.startswith(b"DEBUG") for line in self.ask("SENTINEL", "HELP")):
            return
        for period, milliseconds in _FASTER.items():
            self.ask("SENTINEL", "DEBUG", period, milliseconds)

    def _arguments(self) -> list[str]:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"unixsocket {self.socket_path}",
            f"dir {self.directory}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._watched.port} {self._quorum}",
            f"sentinel down-after-milliseconds {SERVICE} {self._down_after_ms}",
            f"sentinel failover-timeout {SERVICE} 1000",
            *self._lines,
        ]
        if self._watched.password is not None:
            lines.append(f"sentinel auth-pass {SERVICE} {self._watched.password}")
        configuration = self.directory / "sentinel.conf"
        if not configuration.exists():
            configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [str(configuration), "--sentinel"]

    def begins_failover(self) -> bool:
        """Ask it to promote a replica, the master being well; False while it cannot."""
        try:
            return bool(self.ask("SENTINEL", "FAILOVER", SERVICE))
        except redis.ResponseError as error:
            if not str(error).startswith(("INPROG", "NOGOODSLAVE")):
                raise
            return False

    def master_port(self) -> int:
        """Return the port of the server that it holds for the master."""
        return int(self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])

    def knows(self, *, replicas: int, sentinels: int) -> bool:
        """Whether it has heard of so many replicas that are in step, and of so many other sentinels."""
        seen = self.ask("SENTINEL", "REPLICAS", SERVICE)
        in_step = [each for each in seen if each[each.index(b"master-link-status") + 1] == b"ok"]
        return (len(in_step), len(self.ask("SENTINEL", "SENTINELS", SERVICE))) == (replicas, sentinels)


class Sentinels:
    """``replicas`` of a master, and ``sentinels`` that fail over once it was silent for ``down_after_ms``.

    By default that is so long that none does because a server had no turn on a busy machine. Sentinels want
    their ``sentinel_password``, if any, and have ``sentinel_lines`` in their configuration.
    """

    def __init__(
        self,
        *,
        replicas: int = 1,
        sentinels: int = 1,
        down_after_ms: int = 10_000,
        password: str | None = None,
        sentinel_password: str | None = None,
        sentinel_lines: Sequence[str] = (),
    ) -> None:
        self._servers = ExitStack()
        try:
            self.master = self._start(password=password)
            self.replicas = [self._replica() for _ in range(replicas)]
            eventually(self._all_follow)
            self.sentinels = [
                self._sentinel(
                    quorum=sentinels // 2 + 1,
                    down_after_ms=down_after_ms,
                    password=sentinel_password,
                    lines=sentinel_lines,
                )
                for _ in range(sentinels)
            ]
            eventually(self._all_know_all)
        except BaseException:
            self.stop()
            raise

    def _start(self, **options: Any) -> RedisServer:
        server = RedisServer(**options)
        self._servers.callback(server.stop)
        return server

    def _replica(self) -> RedisServer:
        return self._start(password=self.master.password, replica_of=self.master)

    def _sentinel(self, **options: Any) -> Sentinel:
        sentinel = Sentinel(self.master, **options)
        self._servers.callback(sentinel.stop)
        return sentinel

    def _all_follow(self) -> bool:
        return all(each.ask("ROLE")[3] == b"connected" for each in self.replicas)

    def _all_know_all(self) -> bool:
        replicas, others = len(self.replicas), len(self.sentinels) - 1
        return all(each.knows(replicas=replicas, sentinels=others) for each in self.sentinels)

    @property
    def url(self) -> str:
        named = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{self.master.credentials}{named}/{SERVICE}"

    def await_failover(self) -> RedisServer:
        """Wait until every sentinel that runs names the same other master, and return that one."""
        eventually(lambda: self._successor() is not None, within=FAILOVER)
        self._follow(self._successor() or self.master)
        return self.master

    def _successor(self) -> RedisServer | None:
        """Return the replica that all sentinels that run take for the master, and that is one."""
        named = {each.master_port() for each in self.sentinels if each.is_running()}
        for replica in self.replicas:
            if named == {replica.port} and replica.ask("ROLE")[0] == b"master":
                return replica
        return None

    def _follow(self, master: RedisServer) -> None:
        servers = [self.master, *self.replicas]
        self.master = master
        self.replicas = [each for each in servers if each is not master]

    def await_replicas(self, *, within: float = PATIENCE * 2) -> None:
        """Wait until the sentinels know each replica, in step with the master."""
        eventually(self._all_know_all, within=within)

    def mend(self, *, within: float) -> None:
        """Let all go on that were stopped or killed, and wait until they agree on the master."""
        for server in (self.master, *self.replicas, *self.sentinels):
            if server.is_running():
                server.resume()
            else:
                server.restart()
        eventually(self._agree, within=within)
        self._follow(self._successor() or self.master)
        self.await_replicas(within=within)

    def _agree(self) -> bool:
        named = {each.master_port() for each in self.sentinels}
        return self._successor() is not None or named == {self.master.port}

    def fail_over(self) -> RedisServer:
        """Have the first sentinel promote a replica now, the master being well, and wait for it."""
        self.await_replicas()
        first = self.sentinels[0]

        def is_promoted() -> bool:
            if first.master_port() == self.master.port:
                first.begins_failover()  # again, if it gave one up
            return self._successor() is not None

        eventually(is_promoted, within=FAILOVER)
        return self.await_failover()

    def stop(self) -> None:
        self._servers.close()
