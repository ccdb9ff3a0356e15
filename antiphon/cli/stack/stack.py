"""The whole pipeline on one machine: Redis, one edge, one worker, the recorder, the cleanup job."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.request import ProxyHandler, Request, build_opener

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.redis_server.embedded import EmbeddedRedis, EmbeddedRedisError
from antiphon.broker.service.listening import check_bind
from antiphon.broker.service.logs import LogSettings
from antiphon.broker.service.tracing import TracingSettings
from antiphon.broker.settings import CONFIG_STATUS, PRIVATE_FOLDER, BrokerSettings, InvalidSettings
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.stack.processes import (
    LineSink,
    Service,
    ServiceFailed,
    ServiceMisconfigured,
    ServiceSpec,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.factory import check_engine
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.ids import process_id_prefix
from antiphon.shared_schemas.registry import WorkerRow
from antiphon.shared_schemas.states import WorkerState

T = TypeVar("T")

DRAIN_S = 2.0
"""Default. It is short because a single machine has no other worker for a session."""

STOP_ORDER = ("edge", "worker", "recorder", "cleanup")
READY_TIMEOUT_S = 180.0
"""While the worker loads its engine, it starts again: gigabytes of weights may take longer."""
_WATCH_REDIS_S = 0.5
_RELEASE_S = 5.0
_READY_POLL_S = 0.1
_NOT_YET = (WorkerState.LOADING, WorkerState.ERROR, WorkerState.OFFLINE, WorkerState.DRAINING)

ReportProgress = Callable[[str, str], None]
"""Called with (service, its stage) whenever the stage changes."""


class NotReady(Exception):
    """The stack did not start; the message says what is missing."""


START_ERRORS = (EmbeddedRedisError, EngineLoadError, NotReady, ServiceFailed, InvalidSettings)
"""Reasons why a stack does not start or does not stay up."""


def exit_status(error: Exception) -> int:
    """The exit status after an error: CONFIG_STATUS if only other settings can help."""
    permanent = isinstance(error, EngineLoadError | InvalidSettings | ServiceMisconfigured)
    return CONFIG_STATUS if permanent else 1


class Address(NamedTuple):
    """Where a service listens, and the settings that choose it."""

    service: str
    settings: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def check(self) -> None:
        """Raises CannotListen if no service can listen there."""
        check_bind(f"the {self.service} ({self.settings})", self.host, self.port)


class StackSettings(NamedTuple):
    """The settings of each service."""

    edge: EdgeSettings
    worker: WorkerSettings
    recorder: RecorderSettings
    cleanup: CleanupSettings

    @classmethod
    def of(cls, **flags: Any) -> Self:
        """Flags, then `ANTIPHON_*`, then `antiphon.toml`. Raises InvalidSettings."""
        return cls(
            EdgeSettings(**flags),
            WorkerSettings(**flags),
            RecorderSettings(**flags),
            CleanupSettings(**flags),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What to start and where. `redis_url` None means a private Redis, on a Unix socket.

    Port 0 means any free port; `redis_port` 0 means none.

    `drain_s` is the time that sessions have to end during a stop, at the edge and then at the worker.
    After `stop_grace_s`, by default 8 s more, the worker is killed.
    """

    data_dir: Path
    host: str
    port: int
    engine: str = "local"
    slots: int | None = None
    model_path: Path | None = None
    health_host: str = "127.0.0.1"
    health_port: int = 0
    edge_health_port: int = 0
    recorder_health_port: int = 0
    cleanup_health_port: int = 0
    redis_url: str | None = None
    redis_port: int = 0
    redis_dir: Path | None = None
    drain_s: float = DRAIN_S
    stop_grace_s: float | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: StackSettings, *, redis_url: str | None, redis_port: int = 0) -> Self:
        """The stack of `antiphon up` with these settings of its services, but for their Redis."""
        edge, worker, recorder, cleanup = settings
        any_port = worker.health_port == 0
        return cls(
            data_dir=recorder.data_dir.resolve(),
            host=edge.host,
            port=edge.port,
            engine=worker.engine,
            slots=worker.slots,
            model_path=worker.engine_model_path,
            health_host=worker.health_host,
            health_port=worker.health_port,
            edge_health_port=0 if any_port else edge.edge_health_port,
            recorder_health_port=0 if any_port else recorder.recorder_health_port,
            cleanup_health_port=0 if any_port else cleanup.cleanup_health_port,
            redis_url=redis_url,
            redis_port=redis_port,
            drain_s=worker.drain_s if "drain_s" in worker.model_fields_set else DRAIN_S,
            stop_grace_s=worker.stop_grace_s,
            engine_options=worker.all_engine_options,
        )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the services listen."""
        host, any_free = self.health_host, "; 0: any free ports"
        return (
            Address("edge", "--host, --port", self.host, self.port),
            self._health_page("edge", self.edge_health_port),
            Address("worker's health page", f"--health-port{any_free}", host, self.health_port),
            self._health_page("recorder", self.recorder_health_port),
            self._health_page("cleanup", self.cleanup_health_port),
        )

    def _health_page(self, service: str, port: int) -> Address:
        variable = f"ANTIPHON_{service.upper()}_HEALTH_PORT"
        return Address(f"{service}'s health page", variable, self.health_host, port)

    @property
    def edge_url(self) -> str:
        """The URL for clients; a wildcard host becomes the loopback address."""
        host = _LOOPBACK.get(self.host, self.host)
        return f"ws://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def http_url(self) -> str:
        return "http" + self.edge_url.removeprefix("ws")

    @property
    def worker_grace_s(self) -> float:
        """The time between SIGTERM and SIGKILL of the worker."""
        return self.drain_s + 8 if self.stop_grace_s is None else self.stop_grace_s

    def env(self, redis_url: str) -> dict[str, str]:
        """Environment variables for the services."""
        settings = {name: getattr(self, name) for name in self.__slots__ if name not in _OWN}
        settings |= {"redis_url": redis_url, "engine_options": json.dumps(self.engine_options)}
        settings["stop_grace_s"] = self.worker_grace_s
        settings["log_format"] = "json"  # this process reads the lines, and shows them as text
        return {
            f"ANTIPHON_{name.upper()}": str(value)
            for name, value in settings.items()
            if value not in (None, "{}")
        }


_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""By wildcard host. An edge on `::` takes no connections over IPv4."""

_OWN = ("redis_port", "redis_dir")
"""Fields of the plan that are no settings of a service."""


def configured_redis(settings: BrokerSettings) -> str | None:
    """The Redis that the user has configured, which other stacks may use too."""
    return settings.redis_url if "redis_url" in settings.model_fields_set else None


def specs(drain_s: float, worker_grace_s: float) -> tuple[ServiceSpec, ...]:
    """The services in the order of their start; the edge is last."""
    services = (
        ("recorder", "recorder_service", 10.0),
        ("cleanup", "cleanup_job", 5.0),
        ("worker", "inference_worker", worker_grace_s),
        ("edge", "edge", drain_s + 6),
    )
    return tuple(
        ServiceSpec(name, (sys.executable, "-P", "-m", f"antiphon.{module}"), grace_s)
        for name, module, grace_s in services
    )


def make_data_folder(folder: Path) -> None:
    """Create the folder for recordings and logs. Raises InvalidSettings."""
    try:
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        cause = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        is_file = isinstance(error, FileExistsError) and folder.is_file()
        cause = "it is a file" if is_file else str(error.strerror)
    if cause:
        raise InvalidSettings(
            f"the data folder {folder} cannot be used ({cause}); choose another with --data-dir"
        )


@contextmanager
def open_stack(plan: StackPlan, sink: LineSink) -> "Iterator[Stack]":
    """A stack that is not started yet, with its Redis until the block ends.

    Raises EmbeddedRedisError, EngineLoadError for a worker that could not start, and InvalidSettings for
    services that could not even log why they end.
    """
    LogSettings()
    TracingSettings()
    check_engine(
        plan.engine,
        slots=plan.slots or WorkerSettings().slots,
        model_path=plan.model_path,
        options=plan.engine_options,
    )
    if plan.redis_url is not None:
        yield Stack(plan, None, sink)
        return
    folder = plan.redis_dir or plan.data_dir / "redis"
    with EmbeddedRedis(folder, port=plan.redis_port) as redis:
        yield Stack(plan, redis, sink)


class Stack:
    """The running services over one Redis."""

    def __init__(self, plan: StackPlan, redis: EmbeddedRedis | None, sink: LineSink) -> None:
        self.plan = plan
        self._redis = redis
        self._sink = sink
        self.redis_url = redis.url if redis else str(plan.redis_url)
        env = plan.env(self.redis_url)
        services = specs(plan.drain_s, plan.worker_grace_s)
        failures = {"worker": self._release_sessions}
        self._services = {
            spec.name: Service(spec, env, sink, failures.get(spec.name)) for spec in services
        }

    @property
    def pids(self) -> dict[str, int | None]:
        """Process ids by service; None for one that does not run, or is not of this stack."""
        pids = {name: service.pid for name, service in self._services.items()}
        return {"redis": self._redis.pid if self._redis else None, **pids}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run all services until the block ends, then stop them in order.

        Yields a task that never returns and raises ServiceFailed if a service fails too often.
        Raises EmbeddedRedisError if the stack's own Redis has keys of a version that cannot be used.
        """
        if self._redis:
            try:
                async with open_broker(BrokerSettings(redis_url=self.redis_url)):
                    pass  # it has checked the version of the keys
            except BrokerError as error:
                raise EmbeddedRedisError(str(error)) from error
        tasks = [asyncio.create_task(s.run(), name=s.name) for s in self._services.values()]
        if self._redis:
            tasks.append(asyncio.create_task(self._keep_redis(self._redis), name="redis"))
        guard = asyncio.create_task(_first_failure(tasks), name="guard")
        try:
            yield guard
        finally:
            try:
                for name in STOP_ORDER:
                    await self._services[name].stop()
            finally:
                self.kill()
                for task in (guard, *tasks):
                    task.cancel()
                await asyncio.wait([guard, *tasks])

    async def run(self, work: Callable[[WorkerRow], Coroutine[Any, Any, T]]) -> T:
        """Run all services during the work, which begins once this stack's worker is ready.

        Raises what `running` and `wait_until_ready` raise.
        """
        async with self.running() as guard:
            worker = await run_guarded(guard, self.wait_until_ready())
            return await run_guarded(guard, work(worker))

    def kill(self) -> None:
        for service in self._services.values():
            service.kill()

    async def wait_until_ready(self, report: ReportProgress | None = None) -> WorkerRow:
        """Return this stack's worker once it and the edge accept sessions. Raises NotReady."""
        report = report or (lambda _service, _stage: None)
        try:
            async with asyncio.timeout(READY_TIMEOUT_S) as limit, self._open_broker() as broker:
                row = await self._worker_ready(broker, report, limit)
                while True:
                    if await asyncio.to_thread(serves_http, f"{self.plan.http_url}/health"):
                        break
                    await asyncio.sleep(_READY_POLL_S)
                report("edge", f"ready: {self.plan.edge_url}")
                return row
        except TimeoutError:
            raise NotReady(f"the stack was not ready after {READY_TIMEOUT_S:.0f} s") from None
        except BrokerError as error:
            remedy = error.remedy or "--redis-url or ANTIPHON_REDIS_URL names the server"
            remedy = "" if self._redis else f"; {remedy}"
            raise NotReady(f"{error}{remedy}") from error

    async def _worker_ready(
        self, broker: Broker, report: ReportProgress, limit: asyncio.Timeout
    ) -> WorkerRow:
        shown, began = "", time.monotonic()
        while True:
            row = await self._own_worker(broker)
            if row is not None and row.state not in _NOT_YET:
                report("worker", f"ready after {time.monotonic() - began:.1f} s: {row.model}")
                return row
            stage = ": ".join(filter(None, (row.state, row.detail))) if row else "starting"
            if stage != shown:
                report("worker", stage)
                shown = stage
            if row is not None and row.state is WorkerState.LOADING:
                limit.reschedule(asyncio.get_running_loop().time() + READY_TIMEOUT_S)
            await asyncio.sleep(_READY_POLL_S)

    async def _own_worker(self, broker: Broker) -> WorkerRow | None:
        """The worker of this stack; a shared Redis may have others."""
        pid = self._services["worker"].pid
        return None if pid is None else await _worker_of(pid, broker)

    async def _release_sessions(self, pid: int) -> None:
        """Requeue the sessions of the worker that has ended, before their leases expire."""
        try:
            async with asyncio.timeout(_RELEASE_S), self._open_broker() as broker:
                if row := await _worker_of(pid, broker):
                    await broker.registry.worker_gone(row.id)
        except (BrokerError, TimeoutError) as error:
            self._sink("worker", f"its sessions wait until their leases expire: {error!r}")

    def _open_broker(self) -> AbstractAsyncContextManager[Broker]:
        return open_broker(BrokerSettings(redis_url=self.redis_url))

    async def _keep_redis(self, redis: EmbeddedRedis) -> None:
        """Restart Redis with its data if it dies or loses its socket; let it serve when its disk is full.

        Raises ServiceFailed if it cannot start again.
        """
        while True:
            await asyncio.sleep(_WATCH_REDIS_S)
            if redis.pid is None:
                self._sink("redis", "ended unexpectedly; starting it again with its data")
                try:
                    redis.spawn()  # on this thread: Redis is killed when its parent thread ends
                    await asyncio.to_thread(redis.wait_ready)
                except EmbeddedRedisError as error:
                    raise ServiceFailed(str(error)) from error
            elif await asyncio.to_thread(redis.end_without_socket):
                self._sink("redis", f"its socket was deleted: {redis.socket_path}")
            elif changed := await asyncio.to_thread(redis.keep_serving):
                self._sink("redis", changed)


async def _worker_of(pid: int, broker: Broker) -> WorkerRow | None:
    """The worker with this process id on this host."""
    rows = (await broker.queue.snapshot()).workers
    return next((row for row in rows if row.id.startswith(process_id_prefix("worker", pid))), None)


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


def serves_http(url: str) -> bool:
    """True if a GET of this address on this machine succeeds (without a proxy)."""
    try:
        with build_opener(ProxyHandler({})).open(Request(url), timeout=2.0) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (OSError, HTTPException):
        return False
