"""`antiphon doctor`: is everything here that a running system needs, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.talk import fail

if TYPE_CHECKING:
    from antiphon.shared_schemas.findings import Finding


def doctor(
    redis_url: Annotated[str | None, typer.Option(help="Where Redis is.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where recordings are to go.")] = None,
    engine: Annotated[str | None, typer.Option(help="local, minicpmo or simulated.")] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="The checkpoint of minicpmo, or a GGUF for local.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="A TLS certificate (PEM) that a proxy is to use.")
    ] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Examine Redis, clock, disk, ports, certificate, GPU and model; status 1 when something fails.

    Nothing is changed, and nothing big is loaded. What is not named comes from the settings.
    """
    if (certificate is None) != (certificate_key is None):
        fail("--certificate and --certificate-key go together", status=2)
    import orjson
    from pydantic import ValidationError

    from antiphon.shared_schemas.findings import Verdict

    flags = {"data_dir": data_dir, "engine": engine, "model_path": model_path}
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        findings = [*_examine(redis_url, given), *_tls(certificate, certificate_key)]
    except ValidationError as error:
        fail(str(error), status=2)
    if as_json:
        typer.echo(orjson.dumps(findings, option=orjson.OPT_INDENT_2))
    else:
        _show(findings)
    if any(finding.verdict is Verdict.FAILURE for finding in findings):
        raise typer.Exit(1)


def _examine(redis_url: str | None, given: dict[str, Any]) -> Iterator[Finding]:
    from antiphon.cleanup_job.settings import CleanupSettings
    from antiphon.cli.host_checks import examine_disk, examine_ports, examine_python
    from antiphon.edge.settings import EdgeSettings
    from antiphon.inference_worker.engines.checkup import examine_engine
    from antiphon.inference_worker.settings import WorkerSettings
    from antiphon.recorder_service.settings import RecorderSettings

    edge, worker = EdgeSettings(**given), WorkerSettings(**given)
    recorder, cleanup = RecorderSettings(**given), CleanupSettings(**given)
    status = worker.health_host
    yield examine_python()
    yield from _redis(redis_url)
    yield from examine_disk(recorder.data_dir, cleanup.max_storage_gb)
    yield from examine_ports(
        (
            ("edge", edge.host, edge.port, "ANTIPHON_PORT"),
            ("worker", status, worker.health_port, "ANTIPHON_HEALTH_PORT"),
            ("recorder", status, recorder.recorder_health_port, "ANTIPHON_RECORDER_HEALTH_PORT"),
            ("cleanup", status, cleanup.cleanup_health_port, "ANTIPHON_CLEANUP_HEALTH_PORT"),
        )
    )
    yield from examine_engine(worker.engine, worker.slots, worker.model_path, worker.engine_options)


def _redis(redis_url: str | None) -> list[Finding]:
    """The one that is named or configured, else that of `antiphon up`, else the one it would start."""
    import asyncio

    from antiphon.broker.checkup import examine_redis
    from antiphon.broker.embedded import EmbeddedRedisError, find_redis_server
    from antiphon.cli.live_rows import broker_settings
    from antiphon.shared_schemas.findings import ok

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


def _tls(certificate: Path | None, key: Path | None) -> Iterator[Finding]:
    from antiphon.cli.certificates import examine_certificate

    if certificate is not None and key is not None:
        yield examine_certificate(certificate, key)


def _show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    from antiphon.shared_schemas.findings import Verdict

    colours = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILURE: "bold red"}
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        line = Text(f"{finding.verdict:>7}  ", style=colours.get(finding.verdict, "dim"))
        console.print(line.append(f"{finding.about:<{width}}  {finding.found}", style="default"))
        if finding.remedy:
            console.print(f"{'':>7}  {'':<{width}}  → {finding.remedy}", style="cyan", markup=False)
    failed = sum(finding.verdict is Verdict.FAILURE for finding in findings)
    warned = sum(finding.verdict is Verdict.WARNING for finding in findings)
    console.print(f"\n{len(findings)} checks: {failed} failed, {warned} with a warning")
