"""What containers need beside the services: secrets made once, and a health check without curl."""

from __future__ import annotations

import os
import secrets
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.talk import fail

SECRETS = ("redis_password", "admin_token", "grafana_admin")
OWNER = 10001
"""The user and group that the images run as (Dockerfile)."""

_READ_BY_OTHERS = {"grafana_admin": 472}
"""Grafana's image has a user of its own, who need not see the rest."""

_HEALTH_TIMEOUT_S = 3.0


def make_secrets(
    folder: Annotated[Path, typer.Argument(help="Where they are to lie, a file each.")],
    owner: Annotated[int, typer.Option(help="User and group that may read them.")] = OWNER,
    give: Annotated[
        list[Path] | None, typer.Option(help="A folder that this user is to own as well.")
    ] = None,
) -> None:
    """Make the passwords that a stack needs, those that are missing; print none of them."""
    for given in give or []:
        os.chown(given, owner, owner)
    for name in SECRETS:
        path = folder / name
        if path.exists():
            typer.echo(f"{path} is there already")
            continue
        try:
            _write(path, secrets.token_urlsafe(32), _reader(name, owner))
        except OSError as error:
            fail(f"cannot make {path}: {error.strerror}")
        typer.echo(f"made {path}")


def _reader(name: str, owner: int) -> int:
    """Only root can give a file to someone else."""
    return _READ_BY_OTHERS.get(name, owner) if os.geteuid() == 0 else owner


def _write(path: Path, secret: str, owner: int) -> None:
    """Whole or not at all, and at no moment readable by others."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(descriptor, owner, owner)
        file.write(secret + "\n")
    unfinished.rename(path)


def healthy(url: Annotated[str, typer.Argument(help="A service's /health.")]) -> None:
    """Exit 0 if a service answers that it is well."""
    if not url.startswith(("http://", "https://")):
        fail(f"{url!r} is no http:// address", status=2)
    try:
        with urllib.request.urlopen(url, timeout=_HEALTH_TIMEOUT_S) as answer:  # noqa: S310
            typer.echo(answer.read().decode())
    except OSError as error:
        fail(f"{url}: {error}")
