"""The `antiphon` command. Modules with weight are imported by the commands that use them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from antiphon.cli import (
    bench,
    containers,
    demo,
    doctor,
    events,
    inspection,
    operations,
    recordings,
    replay,
    services,
    talk,
    up,
)

app = typer.Typer(
    name="antiphon",
    help="Full-duplex spoken conversations: run the pipeline, talk to it, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (
    up.up,
    talk.talk,
    demo.demo,
    bench.bench,
    replay.replay,
    services.edge,
    services.recorder,
    services.cleanup,
    inspection.workers,
    inspection.edges,
    events.events,
    doctor.doctor,
    containers.make_secrets,
    containers.healthy,
):
    app.command()(command)

for listing, actions in (
    (services.worker, (operations.drain,)),
    (inspection.queue, (operations.cancel,)),
    (inspection.sessions, (recordings.show, recordings.export)),
):
    group = typer.Typer(invoke_without_command=True)
    group.callback()(listing)
    for action in actions:
        group.command()(action)
    app.add_typer(group, name=listing.__name__)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"antiphon {version('antiphon')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Full-duplex spoken conversations: run the pipeline, talk to it, look inside."""


def main() -> None:
    """Entry point of the console script."""
    app()
