"""`antiphon doctor`: checks that this machine has what a running system needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.redis_server.embedded import EmbeddedRedisError, find_redis_server
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli import host_checks
from antiphon.cli.broker_access import broker_settings
from antiphon.cli.common import AsJson, DataDir, Engine, ModelPath, RedisUrl, fail, given
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.checkup import examine_engine
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.findings import Finding, FindingStatus, ok

_COLOURS = {
    FindingStatus.OK: "green",
    FindingStatus.WARNING: "yellow",
    FindingStatus.FAILURE: "bold red",
}


def doctor(
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
    engine: Engine = None,
    model_path: ModelPath = None,
    certificate: Annotated[
        Path | None, typer.Option(help="A TLS certificate (PEM) for a proxy.")
    ] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check Redis, clock, disk, ports, certificate, GPU and model; status 1 if a check fails.

    It changes nothing and loads no model. Values that are not given come from the settings.
    """
    if (certificate is None) != (certificate_key is None):
        fail("--certificate and --certificate-key go together", status=2)
    flags = given(data_dir=data_dir, engine=engine, model_path=model_path)
    try:
        findings = list(_examine(redis_url, flags))
    except ValidationError as error:
        fail(str(error), status=2)
    if certificate is not None and certificate_key is not None:
        findings.append(host_checks.examine_certificate(certificate, certificate_key))
    if as_json:
        typer.echo(orjson.dumps(findings, option=orjson.OPT_INDENT_2))
    else:
        _show(findings)
    if any(finding.verdict is FindingStatus.FAILURE for finding in findings):
        raise typer.Exit(1)


def _examine(redis_url: str | None, flags: dict[str, Any]) -> Iterator[Finding]:
    edge, worker = EdgeSettings(**flags), WorkerSettings(**flags)
    recorder, cleanup = RecorderSettings(**flags), CleanupSettings(**flags)
    status = worker.health_host
    yield host_checks.examine_python()
    yield from _examine_redis(redis_url)
    yield from host_checks.examine_disk(recorder.data_dir, cleanup.max_storage_gb)
    yield from host_checks.examine_ports(
        (
            ("edge", edge.host, edge.port, "ANTIPHON_PORT"),
            ("worker", status, worker.health_port, "ANTIPHON_HEALTH_PORT"),
            ("recorder", status, recorder.recorder_health_port, "ANTIPHON_RECORDER_HEALTH_PORT"),
            ("cleanup", status, cleanup.cleanup_health_port, "ANTIPHON_CLEANUP_HEALTH_PORT"),
        )
    )
    yield from examine_engine(worker.engine, worker.slots, worker.model_path, worker.engine_options)


def _examine_redis(redis_url: str | None) -> list[Finding]:
    """Checks the named or configured Redis, else that of `antiphon up`, else its program."""
    settings = broker_settings(redis_url)
    findings = asyncio.run(examine_redis(settings))
    if len(findings) > 1 or "redis_url" in settings.model_fields_set:
        return findings
    try:
        server = find_redis_server()
    except EmbeddedRedisError:
        return findings
    text = f"none is configured; `antiphon up` starts its own: {server.path} ({server.version})"
    return [ok("redis", text)]


def _show(findings: list[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        line = Text(f"{finding.verdict:>7}  ", style=_COLOURS.get(finding.verdict, "dim"))
        console.print(line.append(f"{finding.about:<{width}}  {finding.found}", style="default"))
        if finding.remedy:
            console.print(f"{'':>7}  {'':<{width}}  → {finding.remedy}", style="cyan", markup=False)
    failed = sum(finding.verdict is FindingStatus.FAILURE for finding in findings)
    warned = sum(finding.verdict is FindingStatus.WARNING for finding in findings)
    console.print(f"\n{len(findings)} checks: {failed} failed, {warned} with a warning")
