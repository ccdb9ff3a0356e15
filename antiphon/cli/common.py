"""What several commands share: options, failing with a message, tables on the terminal."""

import shlex
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.table import Table
from rich.text import Text

from antiphon.cli.help import Command, Group
from antiphon.cli.terminal import Terminal, echo
from antiphon.shared_schemas.visible_text import visible_line

DEFAULT_URL = "ws://127.0.0.1:8006"
PATIENCE_S = 20.0
ERROR_PREFIX = "antiphon: "
BUNDLED_QUESTION = Path(__file__).parent / "assets" / "question.wav"
SECOND_QUESTION = BUNDLED_QUESTION.with_name("time.wav")


def _expanded(path: Path | None) -> Path | None:
    """The path with the home folder instead of `~`, which a shell leaves behind `=`."""
    try:
        return path.expanduser() if path else path
    except RuntimeError:
        raise typer.BadParameter(f"the home folder of {path} is unknown") from None


ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        "-k",
        envvar="ANTIPHON_API_KEY",
        show_envvar=False,
        help="Key of the edge, if it needs one. Other users of this machine can see command lines. "
        r"\[env: ANTIPHON_API_KEY]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        help="URL of Redis; default: the configured one, or that of `antiphon up`. "
        r"\[env: ANTIPHON_REDIS_URL]"
    ),
]
StackDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help=r"Data folder of the `antiphon up` to ask. \[default: data] \[env: ANTIPHON_DATA_DIR]",
        callback=_expanded,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the recordings in sessions/, and the data of `antiphon up`. "
        r"\[default: data] \[env: ANTIPHON_DATA_DIR]",
        callback=_expanded,
    ),
]
EdgeUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        envvar="ANTIPHON_URL",
        show_envvar=False,
        help=f"URL of the edge; default: of `antiphon up` in this folder, else {DEFAULT_URL}. "
        r"\[env: ANTIPHON_URL]",
        show_default=False,
    ),
]
Patience = Annotated[
    float, typer.Option(help="Seconds to wait for an answer before giving up.", min=1)
]
SourceUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        envvar="ANTIPHON_URL",
        show_envvar=False,
        help="Edge that has the recordings; default: the disk of this machine. "
        r"\[env: ANTIPHON_URL]",
        show_default=False,
    ),
]
RecordingName = Annotated[
    str, typer.Argument(help="Id of a recording or of its session, or a recording's folder.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Wide = Annotated[bool, typer.Option("--wide", help="Show all columns.")]

Row = dict[str, Any]

UNLIMITED_WIDTH = 1000


def fail(reason: str, status: int = 1) -> NoReturn:
    """Print the reason on stderr and exit with this status."""
    echo(f"{ERROR_PREFIX}{reason}", fg="red", err=True)
    raise typer.Exit(status)


def in_utf8(text: str) -> str:
    """A text of the command line or the terminal, without half surrogates: no message can have them."""
    return text.encode(errors="replace").decode()


def make_report_folder(out: Path) -> None:
    """The folder of `--out`; where it cannot be made, the command ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cause = "it is a file" if out.is_file() else error.strerror
        fail(f"cannot write to {out}: {cause}; choose another folder with --out")


def program() -> str:
    """What the user types for `antiphon`: a path if PATH does not have that of this environment."""
    own, found = Path(sys.executable).with_name("antiphon"), shutil.which("antiphon")
    if not own.exists() or (found is not None and own.samefile(found)):
        return "antiphon"
    inside = own.is_relative_to(Path.cwd())
    return shlex.quote(str(own.relative_to(Path.cwd()) if inside else own))


def command(words: str, data_dir: Path | None = None) -> str:
    """A command line for a message, which works as it is printed; `data_dir`: the stack that it is about."""
    line = f"{program()} {words}"
    if data_dir is None or data_dir.resolve() == _configured_data_dir():
        return line
    return f"{line} --data-dir {shlex.quote(str(data_dir))}"


def _configured_data_dir() -> Path | None:
    try:
        from antiphon.recorder_service.settings import RecorderSettings
    except ModuleNotFoundError:  # without the services
        return None
    return RecorderSettings().data_dir.resolve()


def given(**flags: Any) -> dict[str, Any]:
    """The flags that have a value."""
    return {name: value for name, value in flags.items() if value is not None}


def command_group(listing: Any, *actions: Any) -> typer.Typer:
    """A command with sub-commands; without one, `listing` runs."""
    group = typer.Typer(cls=Group, invoke_without_command=True, add_completion=False)
    group.callback()(listing)
    for action in actions:
        group.command(cls=Command)(action)
    return group


def plain_table(*columns: str, prose: Collection[str] = ()) -> Table:
    """A table without lines. On a terminal, the columns in `prose` are folded to its width."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), show_header=any(columns))
    for name in columns:
        table.add_column(name, no_wrap=bool(prose) and name not in prose)
    return table


def rows_table(rows: list[Row], only: Collection[str] = (), prose: Collection[str] = ()) -> Table:
    """One line per row. Omits dicts, columns not in `only`, and those that are empty in every row."""
    first = [name for name in rows[0] if not only or name in only]
    columns = [name for name in first if any(_cell(row[name]) for row in rows)]
    shown = plain_table(*columns, prose=prose)
    for row in rows:
        shown.add_row(*(Text(_cell(row[name])) for name in columns))  # never as markup
    return shown


def _cell(value: Any) -> str:
    if value is None or isinstance(value, dict):
        return ""
    return visible_line(", ".join(value) if isinstance(value, list) else str(value))


def print_table(table: Table) -> None:
    """Print at the natural width, so that other programs read whole lines and a terminal wraps them.

    A table with columns that must not be folded folds the others to the width of a terminal.
    """
    console = Terminal()
    if not console.is_terminal or not any(column.no_wrap for column in table.columns):
        console = Terminal(width=UNLIMITED_WIDTH)
    console.print(table)


class CannotLoad(Exception):
    """The recording or one of its files does not exist or cannot be read; the message names it."""
