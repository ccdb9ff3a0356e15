"""The `antiphon` command. Modules with weight are imported by the commands that use them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from ops import demo, inspection, services, talk, up

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
    services.edge,
    services.worker,
    services.recorder,
    services.cleanup,
    inspection.queue,
    inspection.sessions,
    inspection.workers,
):
    app.command()(command)


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


if __name__ == "__main__":
    main()
