"""`antiphon queue cancel`, `worker drain`, and `make-secrets` for containers."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from antiphon.broker.client import Broker
from antiphon.cli.broker_access import call_broker, command_there
from antiphon.cli.common import RedisUrl, StackDir, fail
from antiphon.cli.terminal import echo
from antiphon.recorder_service.atomic_files import atomic_file
from antiphon.shared_schemas.registry import WorkerCommand

_LEAVING_POLL_S = 0.2

SECRETS = ("redis_password", "admin_token", "grafana_admin", "api_key")
OWNER = 10001
"""The user and group of the images (Dockerfile)."""

_LAST_ID = 2**32 - 2
"""Of users and groups; the number after it means none."""

_OWNERS = {"grafana_admin": 472}
"""Grafana's image has its own user, which must not read the other secrets."""


def cancel(
    context: typer.Context,
    session: Annotated[
        str, typer.Argument(help="Id, or ticket number as `antiphon queue --wide` shows.")
    ],
    redis_url: RedisUrl = None,
    data_dir: StackDir = None,
) -> None:
    """Remove a waiting session from the queue and notify its client. Does not stop a running one."""
    redis_url, data_dir = _target(context, redis_url, data_dir)
    if not call_broker(lambda broker: cancel_waiting(broker, session), redis_url, data_dir):
        listing = command_there("queue", redis_url, data_dir)
        fail(f"no session {session} waits; `{listing}` lists the waiting ones")
    echo(f"{session} is out of the queue")


def drain(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Id, as `antiphon workers` shows it.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return only after it has left.")] = False,
    redis_url: RedisUrl = None,
    data_dir: StackDir = None,
) -> None:
    """Let a worker refuse new sessions, finish or hand over the current ones, and exit.

    It has the same effect as SIGTERM, from any machine. A service manager then starts a new worker.
    """
    redis_url, data_dir = _target(context, redis_url, data_dir)
    known = call_broker(lambda broker: ask_to_drain(broker, worker, wait=wait), redis_url, data_dir)
    if known is not None:
        fail(f"there is no worker {worker}; alive are: {', '.join(known) or 'none'}")
    echo(f"{worker} has left" if wait else f"{worker} drains")


async def cancel_waiting(broker: Broker, session: str) -> bool:
    """False if no waiting session has this id or ticket number."""
    for row in (await broker.queue.snapshot()).waiting:
        if session in (row.sid, str(row.ticket)):
            return await broker.sessions.cancel(row.sid, row.ticket)
    return False


async def ask_to_drain(broker: Broker, worker: str, *, wait: bool) -> list[str] | None:
    """None if the worker was asked (and, with `wait`, has left), else the ids of live workers."""
    if not await broker.registry.command_worker(worker, WorkerCommand.DRAIN):
        return await _alive(broker)
    while wait:
        if worker not in await _alive(broker):
            break
        await asyncio.sleep(_LEAVING_POLL_S)
    return None


async def _alive(broker: Broker) -> list[str]:
    return [row.id for row in (await broker.queue.snapshot()).workers]


def _target(
    context: typer.Context, redis_url: str | None, data_dir: Path | None
) -> tuple[str | None, Path | None]:
    """The flags may precede the action: `antiphon queue --redis-url URL cancel ID`."""
    if redis_url is not None or data_dir is not None or context.parent is None:
        return redis_url, data_dir
    before = context.parent.params
    return before.get("redis_url"), before.get("data_dir")


def make_secrets(
    folder: Annotated[Path, typer.Argument(help="Folder for the secrets, one file each.")],
    owner: Annotated[
        int, typer.Option(help="User and group that may read them.", min=0, max=_LAST_ID)
    ] = OWNER,
    give: Annotated[
        list[Path] | None,
        typer.Option(metavar="<path>", help="A folder to give to this user as well."),
    ] = None,
    api_keys: Annotated[
        Path | None,
        typer.Option(help="A file with clients' keys to copy. If it has none: api_key."),
    ] = None,
) -> None:
    for given in give or []:
        os.chown(given, owner, owner)
    for name in SECRETS:
        path = folder / name
        if path.exists():
            echo(f"{path} is there already")
            continue
        # Only root can give files.
        reader = _OWNERS.get(name, owner) if os.geteuid() == 0 else owner
        try:
            _write(path, secrets.token_urlsafe(32), reader)
        except OSError as error:
            cause = error.strerror if folder.is_dir() else f"there is no folder {folder}"
            fail(f"cannot make {path}: {cause}")
        echo(f"made {path}")
    if api_keys is not None:
        _copy_keys(api_keys, folder / "api_key", folder / "api_keys", owner)


def _copy_keys(source: Path, made: Path, path: Path, owner: int) -> None:
    """Edges run as `owner`, who may not be able to read the file of the host."""
    try:
        keys = source.read_text().rstrip()
        if all(not line or line.startswith("#") for line in keys.splitlines()):
            source, keys = made, made.read_text().rstrip()
        _write(path, keys, owner)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot copy {source} to {path}: {error}")
    echo(f"copied the clients' keys to {path}")


def _write(path: Path, secret: str, owner: int) -> None:
    """Write atomically; other users can read the file at no moment."""
    with atomic_file(path) as unfinished:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(descriptor, "w") as file:
            os.fchown(descriptor, owner, owner)
            file.write(secret + "\n")
