"""`antiphon edge|worker|recorder|cleanup`: one service each, as containers run them.

Flags take precedence over `ANTIPHON_*`, which take precedence over `antiphon.toml`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from pydantic import ValidationError

from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging
from antiphon.cli.commands.admin import drain
from antiphon.cli.common import command_group, fail

Flags = dict[str, Any]
"""Settings by name; None if the flag was not given."""

RedisUrl = Annotated[str | None, typer.Option(help="URL of Redis.", show_default=False)]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the recordings in sessions/.")]


def edge(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    redis_url: RedisUrl = None,
) -> None:
    """Run one edge: the WebSockets and HTTP routes that clients use."""
    from antiphon.edge.service import run
    from antiphon.edge.settings import EdgeSettings

    flags: Flags = {"host": host, "port": port, "redis_url": redis_url}
    serve("edge", run, EdgeSettings, flags, fast=True)


def worker(
    context: typer.Context,
    engine: Annotated[str | None, typer.Option(help="local, minicpmo or simulated.")] = None,
    slots: Annotated[int | None, typer.Option(help="Number of concurrent conversations.")] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="The checkpoint of minicpmo, or a GGUF for local.")
    ] = None,
    health_host: Annotated[str | None, typer.Option(help="Address of its health page.")] = None,
    health_port: Annotated[
        int | None, typer.Option(help="Port of its health page; 0 for any free one.")
    ] = None,
    redis_url: RedisUrl = None,
) -> None:
    """Run one inference worker: it claims sessions and answers them."""
    if context.invoked_subcommand is not None:
        return
    from antiphon.inference_worker.engines.types import EngineLoadError
    from antiphon.inference_worker.settings import WorkerSettings
    from antiphon.inference_worker.worker import run

    flags: Flags = {
        "engine": engine,
        "slots": slots,
        "model_path": model_path,
        "health_host": health_host,
        "health_port": health_port,
        "redis_url": redis_url,
    }
    try:
        serve("worker", run, WorkerSettings, flags)
    except EngineLoadError as error:
        fail(str(error))


worker_group = command_group(worker, drain)


def recorder(data_dir: DataDir = None, redis_url: RedisUrl = None) -> None:
    """Run one recorder: it writes every session to disk."""
    from antiphon.recorder_service.service import serve as run
    from antiphon.recorder_service.settings import RecorderSettings

    serve("recorder", run, RecorderSettings, {"data_dir": data_dir, "redis_url": redis_url})


def cleanup(
    data_dir: DataDir = None,
    redis_url: Annotated[
        str | None,
        typer.Option(help="URL of Redis; default: the configured one, or that of `antiphon up`."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Run one sweep, then exit.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would be deleted; implies --once.")
    ] = False,
) -> None:
    """Keep recordings within their age and size limits, as a loop or once."""
    from antiphon.cleanup_job.once import run_once
    from antiphon.cleanup_job.service import run
    from antiphon.cleanup_job.settings import CleanupSettings
    from antiphon.cli.broker_access import broker_settings

    def settings(**given: Any) -> CleanupSettings:
        url = broker_settings(redis_url, data_dir).redis_url
        return CleanupSettings(**given, redis_url=url)

    flags: Flags = {"data_dir": data_dir, "dry_run": dry_run or None}
    if once or dry_run:
        report = serve("cleanup", run_once, settings, flags)
        typer.echo(report.model_dump_json(indent=2))
    else:
        serve("cleanup", run, settings, flags)


def serve(
    service: str,
    run: Callable[[Any], Coroutine[Any, Any, Any]],
    settings: Callable[..., Any],
    flags: Flags,
    *,
    fast: bool = False,
) -> Any:
    """Run a service with the given flags until it ends; `fast` uses uvloop."""
    try:
        chosen = settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        fail(str(error), status=2)
    configure_logging(service)
    try:
        return (uvloop.run if fast else asyncio.run)(run(chosen))
    except (BrokerError, OSError) as error:
        fail(str(error))
