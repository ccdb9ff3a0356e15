"""`antiphon sessions show|export`: one recorded session, on the terminal or as a ZIP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.text import Text

from antiphon.cli.common import (
    AsJson,
    DataDir,
    RecordingName,
    Row,
    fail,
    plain_table,
    print_table,
    rows_table,
)
from antiphon.cli.replay.load import (
    CannotLoad,
    LoadedRecording,
    find_recording,
    load_recording,
    sessions_folder,
)
from antiphon.edge.recordings.download import zip_blocks
from antiphon.edge.recordings.store import (
    InvalidName,
    RecordingNotFound,
    RecordingStore,
    StoreUnavailable,
)
from antiphon.recorder_service.journal.files import atomic_file
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DuplexRecording,
    TurnRecord,
    TurnRecording,
)

_PROMPT_SHOWN = 200


def show(session: RecordingName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show the recording of a session: its times, its state, and each unit or turn."""
    try:
        recording = load_recording(find_recording(session, data_dir))
    except CannotLoad as error:
        fail(str(error))
    rows = recording_rows(recording)
    if as_json:
        document = {
            "meta": recording.meta.model_dump(mode="json"),
            "files": file_sizes(recording.folder),
            "rows": rows,
        }
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    lines = plain_table("", "")
    for name, value in summary(recording):
        lines.add_row(name, Text(value))
    print_table(lines)
    if rows:
        Console().print()
        print_table(rows_table(rows))


def export(
    session: Annotated[str, typer.Argument(help="Id of a recording (32 hexadecimal digits).")],
    out: Annotated[Path | None, typer.Argument(help="The ZIP to write; default: ID.zip.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Write a recorded session to one ZIP, as `/api/sessions/ID/download` does."""
    target = out or Path(f"{session}.zip")
    if target.exists() and not force:
        fail(f"{target} exists; --force writes over it", status=2)
    store = RecordingStore(sessions_folder(data_dir))
    try:
        with atomic_file(target, durable=False) as temporary, temporary.open("xb") as file:
            size = sum(map(file.write, zip_blocks(store, session, store.files(session), session)))
    except (InvalidName, RecordingNotFound, StoreUnavailable) as error:
        fail(f"{error}; sought in {store.root}")
    except OSError as error:
        fail(f"cannot write {target}: {error.strerror}")
    typer.echo(f"{target}: {size / 1e6:.1f} MB")


def summary(recording: LoadedRecording) -> list[tuple[str, str]]:
    """Names and values of the head of `antiphon sessions show`."""
    meta = recording.meta
    state = f"{meta.state}, ended by: {meta.reason}" if meta.reason else str(meta.state)
    length = f"{meta.duration_s:.1f} s" if meta.duration_s is not None else "still running"
    files = file_sizes(recording.folder)
    lines = [
        ("recording", meta.recording_id),
        ("session", f"{meta.session_id} ({meta.app_type})"),
        ("state", state),
        ("begun", f"{meta.created_at:%Y-%m-%d %H:%M:%S %Z}, {length}"),
        ("worker", meta.worker_id or "none"),
        ("prompt", str(meta.config.get("system_prompt", ""))[:_PROMPT_SHOWN]),
        ("files", f"{len(files)}, {sum(files.values()) / 1e6:.1f} MB in {recording.folder}"),
    ]
    lines += [
        ("missing", f"{gap.stream} {gap.first} to {gap.last} could not be read")
        for gap in meta.missing
    ]
    lines += [("degraded", f"{one.at:%H:%M:%S}: {one.error}") for one in meta.degraded]
    return lines


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file that is not hidden."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def recording_rows(recording: LoadedRecording) -> list[Row]:
    """One row per unit or turn; none while the session runs."""
    match recording.timeline:
        case DuplexRecording() as timeline:
            return [_chunk_row(chunk) for chunk in timeline.chunks]
        case TurnRecording() as timeline:
            return [_turn_row(turn) for turn in timeline.turns]
    return []


def _chunk_row(chunk: ChunkRecord) -> Row:
    unit = chunk.result
    unanswered = "skipped" if chunk.skipped else "unanswered"
    return {
        "s": round(chunk.receive_ts_ms / 1000, 1),
        "unit": chunk.index,
        "did": {"SPEAK": "speaking", "LISTEN": "listening"}[unit.mode] if unit else unanswered,
        "ms": unit.timing.wall_clock_ms if unit else None,
        "heard": unit.user_text if unit else None,
        "said": (unit.text or "").strip() if unit else None,
        "end": "end of turn" if unit and unit.end_of_turn else None,
        "frames": len(chunk.user_frames or ([chunk.user_frame] if chunk.user_frame else []))
        or None,
    }


def _turn_row(turn: TurnRecord) -> Row:
    ended = [name for name in ("stopped", "failed", "unfinished") if getattr(turn, name)]
    return {
        "s": round(turn.request_ts_ms / 1000, 1),
        "turn": turn.index,
        "ms": turn.timing.elapsed_ms,
        "first_ms": turn.timing.first_delta_ms,
        "heard": (turn.input.text or "").strip() or None,
        "said": turn.output.text.strip(),
        "ended": ended,
    }
