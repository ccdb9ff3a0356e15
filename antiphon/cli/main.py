"""The `antiphon` command. The module of a command is imported only when that command runs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

_COMMANDS = {
    "up": (
        "up:up",
        "Run Redis, an edge, a worker, the recorder and the cleanup job; Ctrl-C stops all of it.",
    ),
    "talk": ("talk:talk", "Hold a spoken conversation with a running edge and save the reply."),
    "demo": (
        "demo:demo",
        "Start everything, ask one spoken question in real time, show and save the answer.",
    ),
    "bench": (
        "bench:bench",
        "Simulate many users in real time; print latency, lost and late answers, and resource use.",
    ),
    "replay": (
        "replay:replay",
        "Play a recorded session again and compare decisions, words and latency.",
    ),
    "edge": ("serve:edge", "Run one edge: the WebSockets and HTTP routes that clients use."),
    "worker": ("serve:worker_group", "Run one inference worker; `drain` stops one."),
    "recorder": ("serve:recorder", "Run one recorder: it writes every session to disk."),
    "cleanup": (
        "serve:cleanup",
        "Keep recordings within their age and size limits, as a loop or once.",
    ),
    "queue": ("live_tables:queue_group", "Show waiting sessions; `cancel` removes one."),
    "sessions": (
        "live_tables:sessions_group",
        "Show live sessions; `show` and `export` recordings.",
    ),
    "workers": (
        "live_tables:workers",
        "Show the live workers, the kinds of sessions they serve and their load.",
    ),
    "edges": ("live_tables:edges", "Show the live edges and the number of sessions on each."),
    "events": ("events:events", "Show state changes of sessions, oldest first."),
    "doctor": (
        "doctor:doctor",
        "Check Redis, clock, disk, ports, certificate, GPU and model; status 1 if a check fails.",
    ),
    "make-secrets": (
        "containers:make_secrets",
        "Create the passwords that a stack needs and that are missing. Prints none of them.",
    ),
    "healthy": (
        "containers:healthy",
        "Exit with status 0 if a service reports that it is healthy.",
    ),
}
"""Name of each command: where its function or group is, and its line in `antiphon --help`."""


class LazyCommand(TyperCommand):
    """A command by name and summary, imported when it is called."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._target = target

    def loaded(self) -> Any:
        module, attribute = self._target.split(":")
        found = getattr(import_module(f"antiphon.cli.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = found
        else:
            group = typer.Typer(add_completion=False)
            group.command(self.name)(found)
        return typer.main.get_command(group)

    def make_context(self, *args: Any, **options: Any) -> Any:
        return self.loaded().make_context(*args, **options)


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, (target, summary) in _COMMANDS.items():
            self.add_command(LazyCommand(name, target, summary))


app = typer.Typer(
    name="antiphon",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    """Full-duplex spoken conversations: run the pipeline, talk to it, inspect it."""


def main() -> None:
    """Entry point of the console script."""
    app()
