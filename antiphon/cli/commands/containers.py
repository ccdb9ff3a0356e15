"""The command `make-secrets`, for containers."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.common import fail

SECRETS = ("redis_password", "admin_token", "grafana_admin", "api_key")
OWNER = 10001
"""The user and group of the images (Dockerfile)."""

_OWNERS = {"grafana_admin": 472}
"""Grafana's image has its own user, which must not read the other secrets."""


def make_secrets(
    folder: Annotated[Path, typer.Argument(help="Folder for the secrets, one file each.")],
    owner: Annotated[int, typer.Option(help="User and group that may read them.")] = OWNER,
    give: Annotated[
        list[Path] | None, typer.Option(help="A folder to give to this user as well.")
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
            typer.echo(f"{path} is there already")
            continue
        reader = (
            _OWNERS.get(name, owner) if os.geteuid() == 0 else owner
        )  # only root can give files
        try:
            _write(path, secrets.token_urlsafe(32), reader)
        except OSError as error:
            cause = error.strerror if folder.is_dir() else f"there is no folder {folder}"
            fail(f"cannot make {path}: {cause}")
        typer.echo(f"made {path}")
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
    typer.echo(f"copied the clients' keys to {path}")


def _write(path: Path, secret: str, owner: int) -> None:
    """Write atomically; other users can read the file at no moment."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(descriptor, owner, owner)
        file.write(secret + "\n")
    unfinished.rename(path)
