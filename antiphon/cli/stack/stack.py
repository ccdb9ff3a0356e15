"""The whole pipeline on one machine: Redis, one edge, one worker, the recorder, the cleanup job."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from antiphon.broker.redis_server.embedded import EmbeddedRedis, EmbeddedRedisError
from antiphon.cli.stack.processes import LineSink, Service, ServiceFailed, ServiceSpec

T = TypeVar("T")

_WATCH_REDIS_S = 0.5
DRAIN_S = 2.0
"""Default. It is short because a single machine has no other worker for a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What to start and where. `redis_url` None means a private Redis; port 0 means any free port.

    `drain_s` is the time that sessions have to end during a stop, at the edge and then at the worker.
    """

    data_dir: Path
    host: str
    port: int
    engine: str = "local"
    slots: int | None = None
    model_path: Path | None = None
    health_port: int = 0
    recorder_health_port: int = 0
    cleanup_health_port: int = 0
    redis_url: str | None = None
    redis_port: int = 0
    redis_dir: Path | None = None
    drain_s: float = DRAIN_S
    engine_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edge_url(self) -> str:
        """The URL for clients; a wildcard host becomes the loopback address."""
        host = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host  # noqa: S104
        return f"ws://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def http_url(self) -> str:
        return "http" + self.edge_url.removeprefix("ws")

    def env(self, redis_url: str) -> dict[str, str]:
        """Environment variables for the services."""
        settings = {
            "REDIS_URL": redis_url,
            "DATA_DIR": self.data_dir,
            "HOST": self.host,
            "PORT": self.port,
            "ENGINE": self.engine,
            "SLOTS": self.slots,
            "MODEL_PATH": self.model_path,
            "ENGINE_OPTIONS": json.dumps(self.engine_options) if self.engine_options else None,
            "HEALTH_PORT": self.health_port,
            "RECORDER_HEALTH_PORT": self.recorder_health_port,
            "CLEANUP_HEALTH_PORT": self.cleanup_health_port,
            "DRAIN_S": self.drain_s,
        }
        return {f"ANTIPHON_{name}": str(v) for name, v in settings.items() if v is not None}


def specs(drain_s: float) -> tuple[ServiceSpec, ...]:
    """The services in the order of their start; the edge is last."""
    graces_s = {"recorder": 10.0, "cleanup": 5.0, "worker": drain_s + 8, "edge": drain_s + 6}
    modules = {"recorder": "recorder_service", "cleanup": "cleanup_job"}
    modules |= {"worker": "inference_worker", "edge": "edge"}
    return tuple(
        ServiceSpec(name, (sys.executable, "-m", f"antiphon.{modules[name]}"), grace_s)
        for name, grace_s in graces_s.items()
    )


STOP_ORDER = ("edge", "worker", "recorder", "cleanup")


class Stack:
    """The running services over one Redis."""

    def __init__(self, plan: StackPlan, redis: EmbeddedRedis | None, sink: LineSink) -> None:
        self.plan = plan
        self._redis = redis
        self._sink = sink
        self.redis_url = redis.url if redis else str(plan.redis_url)
        env = plan.env(self.redis_url)
        self.services = {spec.name: Service(spec, env, sink) for spec in specs(plan.drain_s)}

    @property
    def redis_pid(self) -> int | None:
        return self._redis.pid if self._redis else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run all services until the block ends, then stop them in order.

        Yields a task that never returns and raises ServiceFailed if a service fails too often.
        """
        tasks = [asyncio.create_task(s.run(), name=s.name) for s in self.services.values()]
        if self._redis:
            tasks.append(asyncio.create_task(self._keep_redis(self._redis), name="redis"))
        guard = asyncio.create_task(_first_failure(tasks), name="guard")
        try:
            yield guard
        finally:
            try:
                await self._stop()
            finally:
                self.kill()
                for task in (guard, *tasks):
                    task.cancel()
                await asyncio.wait([guard, *tasks])

    def kill(self) -> None:
        for service in self.services.values():
            service.kill()

    async def _stop(self) -> None:
        for name in STOP_ORDER:
            await self.services[name].stop()

    async def _keep_redis(self, redis: EmbeddedRedis) -> None:
        """Restart Redis with its data if it dies."""
        while True:
            await asyncio.sleep(_WATCH_REDIS_S)
            if redis.pid is None:
                self._sink("redis", "ended unexpectedly; starting it again with its data")
                try:
                    redis.spawn()  # on this thread: Redis is killed when its parent thread ends
                    await asyncio.to_thread(redis.wait_ready)
                except EmbeddedRedisError as error:
                    raise ServiceFailed(str(error)) from error


async def _first_failure(tasks: list[asyncio.Task[None]]) -> None:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def run_guarded(guard: asyncio.Task[None], work: Coroutine[Any, Any, T]) -> T:
    """Run the work, but cancel it as soon as the guard of a running stack raises."""
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({guard, working}, return_when=asyncio.FIRST_COMPLETED)
        if guard.done():
            guard.result()
        return await working
    finally:
        working.cancel()
        await asyncio.wait([working])


@contextmanager
def private_redis(plan: StackPlan) -> Iterator[EmbeddedRedis | None]:
    """A private Redis that runs until the block ends; None if the plan names another one.

    Raises EmbeddedRedisError.
    """
    if plan.redis_url is not None:
        yield None
        return
    folder = plan.redis_dir or plan.data_dir / "redis"
    with EmbeddedRedis(folder, port=plan.redis_port) as redis:
        yield redis
