"""`antiphon doctor`: checks Python, disk, ports, calls, a TLS certificate, Redis and the engine."""

import asyncio
import os
import platform
import resource
import shlex
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.redis_server.embedded import EmbeddedRedisError, find_redis_server, is_private
from antiphon.broker.service.disk import GIB
from antiphon.broker.service.listening import CannotListen
from antiphon.broker.settings import SESSIONS_FOLDER, InvalidSettings
from antiphon.cli.broker_access import broker_settings
from antiphon.cli.common import AsJson, DataDir, RedisUrl, command, fail, given, print_table
from antiphon.cli.local_recordings import file_sizes
from antiphon.cli.settings import (
    Engine,
    Language,
    LlmKeyFile,
    LlmModel,
    LlmUrl,
    ModelPath,
    Quantize,
    Slots,
)
from antiphon.cli.stack.stack import StackPlan, StackSettings, configured_redis, serves_http
from antiphon.cli.stack.stack_file import StackFile
from antiphon.cli.stack.usage import listening_at, processes_of
from antiphon.cli.terminal import echo, echo_json
from antiphon.edge.access.guards import AccessPolicy
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.webrtc.checkup import examine_calls
from antiphon.inference_worker.engines.factory import examine_engine
from antiphon.inference_worker.engines.local.dependencies import examine_recogniser
from antiphon.shared_schemas.findings import Finding, FindingStatus, failure, ok, warning

_SOON_DAYS = 14
_DAY_S = 86_400
_FEW_OPEN_FILES = 4096
_NEWEST_PYTHON = (3, 14)
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
    slots: Slots = None,
    quantize: Quantize = None,
    language: Language = None,
    card: Annotated[
        str | None,
        typer.Option(
            help="The engine minicpmo: check for a GPU that is not present, such as h200."
        ),
    ] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_file: LlmKeyFile = None,
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
    flags = given(data_dir=data_dir, engine=engine, model_path=model_path, quantize=quantize)
    flags |= given(llm_url=llm_url, llm_model=llm_model, llm_key_file=llm_key_file)
    flags |= given(slots=slots, language=language)
    findings = list(_examine(redis_url, flags, card))
    if certificate is not None and certificate_key is not None:
        findings.append(examine_certificate(certificate, certificate_key))
    if as_json:
        echo_json(findings, indent=True)
    else:
        show_findings(findings)
    if any(finding.verdict is FindingStatus.FAILURE for finding in findings):
        raise typer.Exit(1)


def _examine(redis_url: str | None, flags: dict[str, Any], card: str | None) -> Iterator[Finding]:
    settings = StackSettings.of(**flags, **given(redis_url=redis_url))
    edge, worker, recorder, cleanup = settings
    yield examine_python()
    yield from _examine_redis(redis_url, flags.get("data_dir"))
    yield from examine_disk(recorder.data_dir, cleanup.max_storage_gb, recorder.min_free_disk_gb)
    yield examine_privacy(recorder.data_dir)
    plan = StackPlan.of(settings, redis_url=configured_redis(edge))
    yield from examine_ports(plan)
    yield examine_access(edge)
    yield from examine_calls(edge)
    yield examine_open_files()
    if (stack := StackFile.readable(recorder.data_dir)) is not None:
        yield ok("antiphon up", f"runs in this folder at {stack.edge_url} (process {stack.pid})")
    if worker.transcribe:
        yield examine_recogniser()
    options = worker.all_engine_options
    yield from examine_engine(
        worker.engine, worker.slots, worker.engine_model_path, options, card=card
    )


def _examine_redis(redis_url: str | None, data_dir: Path | None) -> list[Finding]:
    """Checks the named or configured Redis, else that of `antiphon up`, else its program."""
    try:
        settings = broker_settings(redis_url, data_dir)
    except PermissionError as error:
        remedy = "run doctor as that user, or name another folder: --data-dir"
        return [failure("redis", f"{error.filename}: {error.strerror}", remedy)]
    findings = asyncio.run(examine_redis(settings))
    if len(findings) > 1 or "redis_url" in settings.model_fields_set:
        return findings
    try:
        server = find_redis_server()
    except EmbeddedRedisError:
        return findings
    text = f"none is configured; `antiphon up` starts its own: {server.path} ({server})"
    return [ok("redis", text)]


def show_findings(findings: list[Finding]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        verdict = Text(str(finding.verdict), style=_COLOURS.get(finding.verdict, "dim"))
        table.add_row(verdict, Text(finding.about), Text(finding.found))
        if finding.remedy:
            table.add_row("", "", Text(f"→ {finding.remedy}", style="cyan"))
    print_table(table)
    failed = sum(finding.verdict is FindingStatus.FAILURE for finding in findings)
    warned = sum(finding.verdict is FindingStatus.WARNING for finding in findings)
    echo(f"\n{len(findings)} checks: {failed} failed, {warned} with a warning")


def examine_python() -> Finding:
    found, version = platform.python_version(), sys.version_info[:2]
    if version > _NEWEST_PYTHON:
        return warning("python", f"{found}, which is not tested", "use Python 3.11 to 3.14")
    return ok("python", found)


def examine_disk(
    data_dir: Path, max_storage_gb: float, min_free_gb: float = 1.0
) -> Iterator[Finding]:
    """Whether recordings can be written, and the disk holds as many as cleanup keeps."""
    sessions = data_dir / SESSIONS_FOLDER
    place = next(path for path in (sessions, *sessions.resolve().parents) if _can_be_seen(path))
    yield _writable(place, sessions)
    free, kept = shutil.disk_usage(place).free / GIB, max(0.0, max_storage_gb)
    found = f"{free:.1f} GiB free for {sessions}"
    if free < min_free_gb:
        text = f"{found}: recording waits below {min_free_gb:g} GiB"
        yield failure("disk space", text, "make room, or name another disk: ANTIPHON_DATA_DIR")
    elif free < kept and free + _size_gib(sessions) < kept:
        remedy = "lower ANTIPHON_MAX_STORAGE_GB, so that cleanup acts before the disk is full"
        yield warning("disk space", f"{found}, but cleanup keeps up to {kept:g} GiB", remedy)
    else:
        yield ok("disk space", found)


def _can_be_seen(path: Path) -> bool:
    """True if it exists, and no folder above it is closed to this user."""
    with suppress(PermissionError):
        return path.exists()
    return False


def _size_gib(folder: Path) -> float:
    return sum(size for _, size in file_sizes(folder)) / GIB


def examine_privacy(data_dir: Path) -> Finding:
    """Whether other users of this machine can read recordings, or the data of `antiphon up`."""
    about = "privacy of the data"
    if not (_can_be_seen(data_dir) and data_dir.is_dir()) or is_private(data_dir):
        return ok(about, f"{data_dir}")
    kept = (data_dir / SESSIONS_FOLDER, data_dir / "redis")
    open_ones = [str(path) for path in kept if path.is_dir() and not is_private(path)]
    if not open_ones:
        present = ", ".join(str(path) for path in kept if path.is_dir())
        return ok(about, present or f"nothing in {data_dir} yet")
    found = f"other users can read {' and '.join(open_ones)}"
    return warning(about, found, f"chmod -R go-rwx {shlex.join(open_ones)}")


def _writable(place: Path, sessions: Path) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        remedy = f"chown it to user {os.getuid()}, or name another folder: ANTIPHON_DATA_DIR"
        return failure("recordings", f"cannot write in {place}: {error.strerror}", remedy)
    made = "" if sessions.is_dir() else " (to be made)"
    return ok("recordings", f"{sessions}{made}")


def examine_ports(plan: StackPlan) -> Iterator[Finding]:
    """Whether `antiphon up` can listen on its ports, or its services already do."""
    if (stack := StackFile.readable(plan.data_dir)) is not None:
        yield from examine_running_ports(stack, plan.data_dir)
        return
    for address in plan.addresses:
        about = f"port of the {address.service}"
        try:
            address.check()
        except CannotListen as error:
            answers = serves_http(f"http://{address}/health")
            if answers and plan.redis_url is not None:  # services may run without `antiphon up`
                remedy = "nothing if it is a service of this system, else choose another port"
                yield warning(about, f"a service answers already: {error}", remedy)
            else:
                yield failure(
                    about, str(error), "stop the program that listens there, or choose another port"
                )
        else:
            yield ok(about, f"{address} is free" if address.port else "any free one")


def examine_running_ports(stack: StackFile, data_dir: Path) -> Iterator[Finding]:
    """Whether each service of a running stack answers at the address with which it started."""
    pids = processes_of(stack.pid)
    for service in ("edge", "worker", "recorder", "cleanup"):
        about = f"port of the {service}"
        places = listening_at(pids[service]) if service in pids else []
        answering = [place for place in places if serves_http(f"http://{place}/health")]
        if answering:
            yield ok(about, f"{', '.join(answering)}, where the stack of this folder answers")
        elif not stack.ready:
            yield warning(about, "the stack of this folder starts", "wait until it is ready")
        else:
            found = f"{', '.join(places)} does not answer" if places else "nothing listens"
            remedy = f"see why: {command(f'logs {service}', data_dir)}"
            yield failure(about, f"{found}, although the stack of this folder runs", remedy)


def examine_access(edge: EdgeSettings) -> Finding:
    """Whether the settings of the edge let everyone connect."""
    about = "access"
    try:
        access = AccessPolicy(edge, edge.host)
    except InvalidSettings as error:
        return failure(about, str(error), "correct it: the edge does not start")
    if access.open_to_everyone:
        remedy = "set ANTIPHON_API_KEYS_FILE or ANTIPHON_API_KEYS, or listen on 127.0.0.1"
        return warning(about, f"everyone who reaches {edge.host} may connect without a key", remedy)
    keys = "clients need a key" if access.digests[0] else "only this machine can connect"
    return ok(about, keys)


def examine_open_files() -> Finding:
    """How many files a service may open: it raises its soft limit to the hard one."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return ok("open files", "not limited")
    found = f"at most {allowed} per process; an edge needs one per client"
    if allowed < _FEW_OPEN_FILES:
        return warning("open files", found, "raise the hard limit (ulimit -Hn)")
    return ok("open files", found)


def examine_certificate(certificate: Path, key: Path) -> Finding:
    """Check a PEM certificate and its private key as a proxy would use them."""
    about = f"certificate {certificate}"
    try:
        shown = _handshake(certificate, key)
    except ssl.SSLCertVerificationError as error:
        return failure(about, error.verify_message, "renew it")
    except (ssl.SSLError, OSError) as error:
        remedy = "name a PEM file, leaf first, and the private key that belongs to it"
        return failure(about, f"not usable with {key}: {error}", remedy)
    days = (ssl.cert_time_to_seconds(shown["notAfter"]) - time.time()) / _DAY_S
    names = ", ".join(value for _, value in shown.get("subjectAltName", ()))
    found = f"{names or 'no names'}; valid for {days:.0f} days"
    if days < _SOON_DAYS:
        return warning(about, found, "renew it now")
    return ok(about, found)


def _handshake(certificate: Path, key: Path) -> dict[str, Any]:
    """The certificate as a client that trusts it sees it; an in-memory handshake, without a socket."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificate, key)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the leaf itself is trusted
    client_context.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return dict(client.getpeercert() or {})
