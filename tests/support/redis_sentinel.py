"""A real group of Sentinels for tests: a master, its replicas, and the processes that elect a new one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from redis import Redis
from support.redis_server import ADMIN, RedisServer, wait_until
from support.tls import TestAuthority

SERVICE = "mymaster"
_SENTINELS, _QUORUM = 3, 2
DOWN_AFTER_MS = 2000
_PATIENCE_S = 120.0
"""A Sentinel that did not run for two seconds elects nobody for half a minute (its TILT mode)."""


class SentinelProcess(RedisServer):
    """One Sentinel. It keeps what it knows in its file over restarts."""

    def __init__(
        self,
        folder: Path,
        master: RedisServer,
        down_after_ms: int,
        binary: Path | None,
        tls: TestAuthority | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        file = folder / "sentinel.conf"
        file.write_text(
            f"sentinel monitor {SERVICE} 127.0.0.1 {master.services_port} {_QUORUM}\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 6000\n"
        )
        super().__init__(folder, "--sentinel", binary=binary, file=file, tls=tls)
        self.admin = Redis(port=self.port, **ADMIN)

    def sentinel(self, *command: Any) -> Any:
        return self.admin.execute_command("SENTINEL", *command, SERVICE)


class RedisSentinel:
    """Its methods block for seconds: call them with `asyncio.to_thread`."""

    def __init__(self, servers: list[RedisServer], sentinels: list[SentinelProcess]) -> None:
        self.servers = servers
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """Of the ports with TLS, if there are any; its options are missing."""
        ports = [sentinel.services_port for sentinel in self.sentinels]
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"redis+sentinel://{addresses}/{SERVICE}"

    @property
    def master(self) -> RedisServer:
        """The master that the first running Sentinel knows."""
        sentinel = next(process for process in self.sentinels if process.answers)
        return self._master_for(sentinel)

    @property
    def replicas(self) -> list[RedisServer]:
        master = self.master
        return [server for server in self.servers if server.answers and server is not master]

    def elect_after(self, down_after_ms: int) -> None:
        """The Sentinels elect another master when this one has not answered for so long."""
        for process in self.sentinels:
            setting = ("down-after-milliseconds", down_after_ms)
            process.admin.execute_command("SENTINEL", "SET", SERVICE, *setting)

    def wait_until_ok(self) -> None:
        """The running Sentinels agree about a master that runs, and its replicas have its data."""
        wait_until(self._is_ok, within_s=_PATIENCE_S, every_s=0.1)

    def _master_for(self, sentinel: SentinelProcess) -> RedisServer:
        _, port = sentinel.sentinel("GET-MASTER-ADDR-BY-NAME")
        return next(server for server in self.servers if server.services_port == int(port))

    def _is_ok(self) -> bool:
        sentinels = [process for process in self.sentinels if process.answers]
        running = [server for server in self.servers if server.answers]
        try:
            masters = {self._master_for(process) for process in sentinels}
            if len(masters) != 1 or not masters <= set(running):
                return False
            (master,) = masters
            return all(_follows(server, master) for server in running) and all(
                self._sees_everyone(process, len(running)) for process in sentinels
            )
        except RedisError:
            return False

    def _sees_everyone(self, process: SentinelProcess, running: int) -> bool:
        shown = process.sentinel("MASTER")
        seen = dict(zip(shown[::2], shown[1::2], strict=True))
        return (
            seen["flags"] == "master"
            and int(seen["num-other-sentinels"]) == len(self.sentinels) - 1
            and int(seen["num-slaves"]) >= running - 1
        )


def _follows(server: RedisServer, master: RedisServer) -> bool:
    with Redis(port=server.port, **ADMIN) as admin:
        role: Any = admin.execute_command("ROLE")
        if role[0] == "master" and server is not master:  # as a Sentinel does within ten seconds
            admin.replicaof("127.0.0.1", master.services_port)
    if server is master:
        return bool(role[0] == "master")
    return bool(
        role[0] == "slave" and int(role[2]) == master.services_port and role[3] == "connected"
    )


@contextmanager
def redis_sentinel(
    folder: Path,
    *options: str,
    replicas: int = 1,
    binary: Path | None = None,
    tls: TestAuthority | None = None,
) -> Iterator[RedisSentinel]:
    """Starts a master, its replicas and their Sentinels.

    A lost master is replaced after about three seconds. Start it again to make it
    a replica. `options` are those of the master and the replicas.
    With `tls`, only the commands of the test arrive without it.
    """
    servers = [
        RedisServer(
            folder / f"server-{number}",
            *("--repl-diskless-sync-delay", "0"),
            *options,
            binary=binary,
            tls=tls,
        )
        for number in range(1 + replicas)
    ]
    with ExitStack() as closing:
        for server in servers:
            closing.enter_context(server)
        for replica in servers[1:]:
            with Redis(port=replica.port, **ADMIN) as admin:
                admin.replicaof("127.0.0.1", servers[0].services_port)
        processes = [
            SentinelProcess(folder / f"sentinel-{number}", servers[0], DOWN_AFTER_MS, binary, tls)
            for number in range(_SENTINELS)
        ]
        for process in processes:
            closing.enter_context(process)
            closing.callback(process.admin.close)
        group = RedisSentinel(servers, processes)
        group.wait_until_ok()
        yield group
