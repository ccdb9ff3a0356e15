"""`antiphon edge|worker|recorder|cleanup`: one service each, as containers run them.

Flags take precedence over `ANTIPHON_*`, which take precedence over `antiphon.toml`.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn

import typer

from antiphon.broker.service.process import run_service
from antiphon.cli.commands.admin import drain
from antiphon.cli.common import DataDir, RedisUrl, command_group, given
from antiphon.cli.settings import (
    EdgeHealthPort,
    Engine,
    HealthHost,
    HealthPort,
    Host,
    Language,
    LlmKeyFile,
    LlmModel,
    LlmUrl,
    ModelPath,
    Port,
    Quantize,
    ServiceRedisUrl,
    Slots,
    Voice,
    check_client_key,
    check_setting_names,
)
from antiphon.cli.terminal import echo_json


def edge(
    host: Host = None,
    port: Port = None,
    health_host: HealthHost = None,
    edge_health_port: EdgeHealthPort = None,
    redis_url: ServiceRedisUrl = None,
) -> None:
    from antiphon.edge.service import run
    from antiphon.edge.settings import EdgeSettings

    flags = given(host=host, port=port, redis_url=redis_url)
    flags |= given(health_host=health_host, edge_health_port=edge_health_port)
    serve("edge", run, EdgeSettings, flags)


def run_worker(
    context: typer.Context,
    engine: Engine = None,
    slots: Slots = None,
    model_path: ModelPath = None,
    quantize: Quantize = None,
    language: Language = None,
    voice: Voice = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_file: LlmKeyFile = None,
    health_host: HealthHost = None,
    health_port: HealthPort = None,
    redis_url: ServiceRedisUrl = None,
) -> None:
    if context.invoked_subcommand is not None:
        return
    from antiphon.inference_worker.engines.types import EngineLoadError
    from antiphon.inference_worker.settings import WorkerSettings
    from antiphon.inference_worker.worker import run

    where = given(health_host=health_host, health_port=health_port, redis_url=redis_url)
    what = given(engine=engine, slots=slots, model_path=model_path, quantize=quantize)
    what |= given(language=language, voice=voice) | given(
        llm_url=llm_url, llm_model=llm_model, llm_key_file=llm_key_file
    )
    serve("worker", run, WorkerSettings, where | what, permanent=(EngineLoadError,))


worker = command_group(run_worker, drain)


def recorder(data_dir: DataDir = None, redis_url: ServiceRedisUrl = None) -> None:
    from antiphon.recorder_service.service import serve as run
    from antiphon.recorder_service.settings import RecorderSettings

    serve("recorder", run, RecorderSettings, given(data_dir=data_dir, redis_url=redis_url))


def cleanup(
    data_dir: DataDir = None,
    redis_url: RedisUrl = None,
    once: Annotated[bool, typer.Option("--once", help="Run one sweep, then exit.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only report what would be deleted; the flag, not the variable, implies --once. "
            r"\[env: ANTIPHON_DRY_RUN]",
        ),
    ] = False,
) -> None:
    from antiphon.cleanup_job.service import run, run_once
    from antiphon.cleanup_job.settings import CleanupSettings
    from antiphon.cli.broker_access import broker_settings

    url = broker_settings(redis_url, data_dir).redis_url
    flags = given(data_dir=data_dir, dry_run=dry_run or None, redis_url=url)

    async def sweep(settings: CleanupSettings) -> None:
        try:
            report = await run_once(settings)
        except OSError as error:
            text = f"the data folder {settings.data_dir} cannot be used: {error.strerror}"
            raise OSError(f"{text}; choose another with --data-dir") from error
        echo_json(report.model_dump_json(indent=2).encode())

    serve("cleanup", sweep if once or dry_run else run, CleanupSettings, flags)


def serve(
    service: str,
    run: Callable[[Any], Coroutine[Any, Any, None]],
    settings: Callable[..., Any],
    flags: dict[str, Any],
    *,
    permanent: tuple[type[Exception], ...] = (),
) -> NoReturn:
    """Run a service with the given flags until it ends, then exit."""

    async def start() -> None:
        check_setting_names()
        chosen = settings(**flags)
        if service == "edge":
            check_client_key(chosen)
        await run(chosen)

    raise typer.Exit(run_service(service, start, permanent=permanent))
