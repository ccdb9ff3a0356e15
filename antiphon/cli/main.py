"""The `antiphon` command. The module of a command is imported only when that command runs."""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
import typer.main

from antiphon.cli.help import Command, Group, examples
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.visible_text import visible

_COMMANDS = {
    "Start and stop": {
        "up.up": "Run Redis, an edge, a worker, the recorder and the cleanup job, also in the background.",
        "background.down": "Stop the `antiphon up` of this folder, in the foreground or the background.",
        "background.status": "Show the services of this folder's `antiphon up`, its engine, "
        "sessions and address.",
        "background.logs": "Show the logs of the services of this folder's `antiphon up`, or of its last one.",
        "demo.demo": "Start everything, ask two spoken questions in real time, show and save the answers.",
        "models.models": "Download better language models for the engine local; list and remove them.",
        "doctor.doctor": "Check Redis, clock, disk, ports, certificate, GPU and model; "
        "status 1 if a check fails.",
    },
    "Talk and listen": {
        "talk.talk": "Hold a spoken conversation with a running edge and save the reply.",
        "chat.chat": "Ask a running edge in writing; without a question, hold a conversation.",
        "recordings.recordings": "List, show, export and play recorded sessions.",
        "replay.replay": "Send a recorded session to an edge again; compare decisions, words and latency.",
        "bench.bench": "Simulate many users in real time; print latency, lost and late answers, and "
        "resource use.",
        "evaluate.evaluate": "Measure how an edge takes turns, in scripted calls with interruptions, pauses, "
        "noises.",
    },
    "Look inside": {
        "live.queue": "Show waiting sessions; `cancel` removes one.",
        "live.sessions": "Show the sessions that run or wait now.",
        "live.workers": "Show the live workers, the kinds of sessions they serve and their load.",
        "live.edges": "Show the live edges and the number of sessions on each.",
        "live.events": "Show state changes of sessions, oldest first.",
    },
    "Single services": {
        "serve.edge": "Run one edge: the WebSockets and HTTP routes that clients use.",
        "serve.worker": "Run one inference worker; `drain` stops one.",
        "serve.recorder": "Run one recorder: it writes every session to disk.",
        "serve.cleanup": "Keep recordings within their age and size limits, as a loop or once.",
    },
    "Maintenance": {
        "admin.make_secrets": "Create the passwords that a stack needs and that are missing. "
        "Prints none of them.",
    },
}
"""By panel of `antiphon --help`, in its order: functions or groups of `commands`, and the summary of each."""

_EX_CONFIG = 78
"""The same command fails again until the installation or a setting changes."""


_USAGE_ERROR: Any = typer.BadParameter.__base__
"""Of the click that this typer has."""


class LazyCommand(Command):
    """A command of `_COMMANDS`, whose module is imported when it is called."""

    def __init__(self, source: str, summary: str, panel: str) -> None:
        self._module, _, self._function = source.partition(".")
        name = self._function.replace("_", "-")
        super().__init__(name, help=summary, rich_help_panel=panel)

    def loaded(self) -> Any:
        module = import_module(f"antiphon.cli.commands.{self._module}")
        found = getattr(module, self._function)
        group = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
        if group is not found:
            group.command(self.name, cls=Command)(found)
        command = typer.main.get_command(group)
        command.help = command.help or self.help
        command.epilog = examples(str(self.name))
        return command

    def make_context(self, *args: Any, **options: Any) -> Any:
        return self.loaded().make_context(*args, **options)


class LazyGroup(Group):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for panel, commands in _COMMANDS.items():
            for source, summary in commands.items():
                self.add_command(LazyCommand(source, summary, panel))

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _readable_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _readable_errors():
            return super().invoke(ctx)


@contextmanager
def _readable_errors() -> Iterator[None]:
    """typer prints the messages of wrong options itself, and they repeat what was typed."""
    try:
        yield
    except _USAGE_ERROR as error:
        error.message = visible(error.message)
        raise


app = typer.Typer(
    name="antiphon",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    epilog=examples("antiphon"),
)


def _version(asked: bool) -> None:
    if asked:
        from antiphon.cli.terminal import echo

        echo(f"antiphon {version('antiphon')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Full-duplex spoken conversations: run the pipeline, talk to it, inspect it."""


def main() -> None:
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may not have all characters
            stream.reconfigure(errors="replace")
    sys.excepthook = _show_bug
    try:
        try:
            app()
        finally:
            _flush_output()
    except KeyboardInterrupt:  # typer ends commands so; this one came before or after
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("antiphon"):
            raise
        remedy = "run: pip install '.[server]' in Antiphon's checkout"
        if sys.platform == "win32":
            remedy = "the services and their commands run on Linux and macOS only"
        _fail(f"this command needs {error.name}, which is not installed; {remedy}")
    except ValueError as error:
        settings = sys.modules.get("antiphon.broker.settings")  # the client is installed without it
        if settings is None or not isinstance(error, settings.InvalidSettings):
            raise
        _fail(str(error))
    except OSError as error:  # a file or an address, which the text names
        cause = error.strerror or str(error)
        _fail(f"{error.filename}: {cause}" if error.filename else cause, status=1)


def _open_missing_streams() -> None:
    """Python has None for a stream that was closed before the start, as by `2>&-` or a scheduler."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The text of an unexpected error may come from a client as well."""
    sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))


def _flush_output() -> None:
    """Raises OSError. At exit, Python only reports that it ignores the error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        try:
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
            if isinstance(error, BrokenPipeError):  # a reader such as `head` has ended
                sys.exit(1)
            raise


def _fail(reason: str, status: int = _EX_CONFIG) -> NoReturn:
    from antiphon.cli.terminal import echo

    echo(f"antiphon: {reason}", fg="red", err=True)
    sys.exit(status)
