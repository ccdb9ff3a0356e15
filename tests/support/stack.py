"""The real stack in real processes: Redis, edge, workers and recorder."""

import asyncio
import http.client
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.broker.client import open_broker
from antiphon.broker.settings import BrokerSettings
from support.constants import variables
from support.fork_server import ForkedProcess, fork_server
from support.ports import free_port
from support.redis_server import RedisServer

_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 3.0
"""A session whose client or edge is gone would keep its worker for the rest of its lease or its grace."""

_PATIENT = {"ping_timeout_s": 300, "contended_silence_timeout_s": 600}
"""A busy machine may stop a client for long, and a test waits for processes while its client is connected."""


@dataclass
class Service:
    name: str
    process: ForkedProcess
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def status_url(self) -> str:
        """The address of the status port of a service whose log names it."""
        found = re.search(r'"status": ?"(127[^"]+)"', self.log)
        assert found, self.log
        return f"http://{found[1]}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=_STOP_TIMEOUT_S)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=_STOP_TIMEOUT_S)


@dataclass
class Stack:
    """Starts services against one Redis and stops those that still run at the end.

    `redis_url` is that of a cluster, or of Sentinels; `redis` is one of the servers then.
    """

    folder: Path
    redis: RedisServer
    redis_url: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    expected: str = "no such event"
    """An event whose log lines may hold a traceback."""
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")
    edge_port: int = field(default_factory=free_port)

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.edge_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.edge_port}"

    @property
    def settings(self) -> BrokerSettings:
        url = self.redis_url or self.redis.url
        return BrokerSettings(redis_url=url, key_prefix=self.prefix)

    def start(self, module: str, *, main: str = "", **settings: object) -> Service:
        """Starts `antiphon.<module>` with ANTIPHON_* settings and returns at once.

        `main`: the name of a module whose `main` is called in its place.
        """
        values = {
            "redis_url": self.redis_url or self.redis.url,
            "key_prefix": self.prefix,
            "data_dir": self.data_dir,
            "health_port": 0,
            "edge_health_port": 0,
            "recorder_health_port": 0,
            "cleanup_health_port": 0,
            "port": self.edge_port,
            **_PATIENT,
            **settings,
        }
        environment = variables(values)
        log_path = self.folder / f"{module}-{len(self.services)}.log"
        log_path.write_bytes(b"")
        process = fork_server().start(
            main or f"antiphon.{module}.__main__",
            folder=self.folder,
            environment={**os.environ, **self.environment, **environment},
            output=log_path,
        )
        service = Service(module, process, log_path)
        self.services.append(service)
        return service

    def edge(self, **settings: object) -> Service:
        service = self.start("edge", **settings)
        port = int(str(settings.get("port", self.edge_port)))
        self._await(service, lambda: _answers(port))
        return service

    def worker(self, engine: str = "simulated", **settings: object) -> Service:
        """A worker whose engine is loaded."""
        service = self.start("inference_worker", engine=engine, **settings)
        self._await(service, lambda: "worker_ready" in service.log)
        return service

    def poisoned_worker(self, **settings: object) -> Service:
        """A worker that one client can crash; see `support.poisoned_worker`."""
        main = "support.poisoned_worker"
        service = self.start("inference_worker", main=main, engine="simulated", **settings)
        self._await(service, lambda: "worker_ready" in service.log)
        return service

    def recorder(self, **settings: object) -> Service:
        return self.start("recorder_service", **settings)

    def _await(self, service: Service, ready: object) -> None:
        assert callable(ready)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not ready():
            if service.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{service.name} did not start:\n{service.log[-4000:]}")
            time.sleep(0.05)

    async def no_session_left(self) -> None:
        """Waits until no session runs or waits, so that all slots are free. Raises TimeoutError."""
        async with open_broker(self.settings) as broker:

            async def is_free() -> bool:
                snapshot = await broker.queue.snapshot()
                return not snapshot.running and not snapshot.waiting

            await until(is_free)

    def close(self, *, within_s: float = _CLOSE_TIMEOUT_S) -> None:
        for service in self.services:
            if service.process.poll() is None:
                service.process.send_signal(signal.SIGCONT)
                service.process.terminate()
        deadline = time.monotonic() + within_s
        for service in self.services:
            try:
                service.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                service.kill()

    def tracebacks(self) -> list[str]:
        """Log lines that indicate a defect."""
        return [
            f"{service.name}: {line}"
            for service in self.services
            for line in service.log.splitlines()
            if ("Traceback" in line and self.expected not in line)
            or "Task exception was never retrieved" in line
        ]


@contextmanager
def new_stack(folder: Path, *, aof: bool = False) -> Iterator[Stack]:
    """Starts only Redis, with persistence if `aof`. At the end no log may hold a traceback."""
    with RedisServer(folder / "redis", aof=aof) as redis:
        running = Stack(folder, redis)
        try:
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def until(condition: object, *, within_s: float = 90.0, every_s: float = 0.02) -> None:
    """Wait for something that happens in another process. Raises TimeoutError.

    `within_s` counts the pauses between two looks: a busy machine makes them longer, as it does with
    the work of the other process.
    """
    assert callable(condition)
    for _ in range(round(within_s / every_s)):
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return
        await asyncio.sleep(every_s)
    raise TimeoutError(f"not within {within_s:g} s")
