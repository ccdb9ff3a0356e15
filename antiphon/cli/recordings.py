"""`antiphon sessions show|export`: one recorded session, on the terminal or as a ZIP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.inspection import Json
from antiphon.cli.talk import fail

SessionArgument = Annotated[
    str,
    typer.Argument(help="A recording's id (32 hexadecimal digits), or its folder."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Recordings lie in sessions/ below it; by default the recorder's."),
]


def show(session: SessionArgument, as_json: Json = False, data_dir: DataDir = None) -> None:
    """What was recorded of a session: when, how, and every unit or turn of it."""
    import orjson

    from antiphon.cli.recording_view import as_rows, facts, files_of, print_recording
    from antiphon.cli.stored import NotStored, find, load

    try:
        stored = load(find(session, data_dir))
    except NotStored as error:
        fail(str(error))
    if as_json:
        told = {
            "meta": stored.meta.model_dump(mode="json"),
            "files": files_of(stored.folder),
            "rows": as_rows(stored),
        }
        typer.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2))
    else:
        print_recording(facts(stored), as_rows(stored))


def export(
    session: Annotated[str, typer.Argument(help="A recording's id (32 hexadecimal digits).")],
    out: Annotated[Path | None, typer.Argument(help="The ZIP to write; by default ID.zip.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Put a recorded session into one ZIP, as `/api/sessions/ID/download` does."""
    from antiphon.cli.stored import sessions_folder
    from antiphon.cli.zip_file import write_pieces
    from antiphon.edge.recordings.download import zip_blocks
    from antiphon.edge.recordings.store import (
        InvalidName,
        RecordingNotFound,
        RecordingStore,
        StoreUnavailable,
    )

    target = out or Path(f"{session}.zip")
    if target.exists() and not force:
        fail(f"{target} exists; --force writes over it", status=2)
    store = RecordingStore(sessions_folder(data_dir))
    try:
        size = write_pieces(target, zip_blocks(store, session, session))
    except (InvalidName, RecordingNotFound, StoreUnavailable) as error:
        fail(f"{error}; searched in {store.root}")
    except OSError as error:
        fail(f"cannot write {target}: {error.strerror}")
    typer.echo(f"{target}: {size / 1e6:.1f} MB")
