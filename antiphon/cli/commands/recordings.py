"""`antiphon recordings`: on this machine's disk, or on an edge over HTTP."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from antiphon.cli.common import (
    ApiKey,
    AsJson,
    CannotLoad,
    DataDir,
    Force,
    RecordingName,
    Row,
    SourceUrl,
    Wide,
    fail,
    given,
    plain_table,
    print_table,
    rows_table,
)
from antiphon.cli.conversation.sound import NoMicrophone, UnusableAudio, check_reply_file, play_wav
from antiphon.cli.help import Command, Group
from antiphon.cli.terminal import echo, echo_json
from antiphon.client.errors import NO_EDGE, ClientError
from antiphon.client.recordings import Recordings
from antiphon.recorder_service.atomic_files import atomic_file
from antiphon.shared_schemas.recording import (
    REPLAY_VIDEO,
    REPLAY_WAV,
    ChunkRecord,
    DuplexRecording,
    Meta,
    RecordingState,
    TurnRecord,
    TurnRecording,
)
from antiphon.shared_schemas.recording_list import RecordingInfo, RecordingPage, RecordingQuery
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.visible_text import visible_line

if TYPE_CHECKING:
    from antiphon.cli.local_recordings import LocalRecordings

_FIRST = 20
_MAX_LISTED = 200
_PROMPT_SHOWN = 200
_WORDS_COLUMNS = 24
"""With the id of the recording, its time and its length, 80 columns."""


def parse_time(text: str) -> datetime:
    """A time without a zone is one of this machine, as the list shows them."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time such as 2026-03-01 or 2026-03-01T14:30"
        ) from None


def list_recordings(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Option(help="Part of the words, of the prompt or of an id.")
    ] = None,
    kind: Annotated[
        SessionKind | None,
        typer.Option(metavar="<kind>", help=f"Only this kind: {', '.join(SessionKind)}."),
    ] = None,
    state: Annotated[
        RecordingState | None,
        typer.Option(metavar="<state>", help=f"Only this state: {', '.join(RecordingState)}."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            metavar="<time>", parser=parse_time, help="Begun at this time or later: 2026-03-01."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="<time>", parser=parse_time, help="Begun before this."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of recordings.", min=1, max=_MAX_LISTED)
    ] = _FIRST,
    as_json: AsJson = False,
    wide: Wide = False,
    url: SourceUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """List recordings, newest first. An edge needs the admin token for it."""
    filters = given(text=text, kind=kind, state=state, since=since, until=until)
    try:
        query = RecordingQuery(**filters, limit=limit)
    except ValidationError as error:
        [first, *_] = error.errors()
        fail(f"--{first['loc'][0]}: {first['msg']}", status=2)
    with _source(context, url, api_key, data_dir) as source:
        page = source.list(query)
    if as_json:
        echo_json(page.model_dump_json(indent=2).encode())
    else:
        _print_page(page, wide=wide)


def _print_page(page: RecordingPage, *, wide: bool) -> None:
    if not page.sessions:
        echo("no recording matches")
        return
    one_row = list_row if wide else narrow_row
    print_table(rows_table([one_row(info) for info in page.sessions]))
    if page.total > len(page.sessions):
        more = f"{len(page.sessions)} of {page.total}; --limit shows up to {_MAX_LISTED}"
        echo(more, dim=True, err=True)
    if not page.complete:
        from antiphon.edge.recordings.index import MAX_SEARCHED  # it imports slowly

        searched = f"only the newest {MAX_SEARCHED} were searched; narrow with --since"
        echo(searched, dim=True, err=True)


def show(
    context: typer.Context,
    name: RecordingName,
    as_json: AsJson = False,
    url: SourceUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """Show a recording: its times, its state, and each unit or turn."""
    with _source(context, url, api_key, data_dir) as source:
        meta = source.meta(name)
        timeline = None if meta.state is RecordingState.RECORDING else source.timeline(name)
        local = None if isinstance(source, Recordings) else source
        files = local.files(name) if local else None
        folder = local.folder(name) if local else None
    rows = recording_rows(timeline)
    if as_json:
        document: dict[str, Any] = {"meta": meta.model_dump(mode="json"), "rows": rows}
        document |= given(files=files)
        echo_json(document, indent=True)
        return
    lines = plain_table("", "")
    for label, value in summary(meta):
        lines.add_row(label, Text(value))
    if files is not None:
        lines.add_row("files", f"{len(files)}, {sum(files.values()) / 1e6:.1f} MB in {folder}")
    print_table(lines)
    if rows:
        echo()
        print_table(rows_table(rows, prose=("user_said", "said")))


def export(
    context: typer.Context,
    name: RecordingName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="FILE.zip, or a folder to create; default: ID.zip."),
    ] = None,
    force: Force = False,
    url: SourceUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """Write all files of a recording to a ZIP or a folder."""
    with _source(context, url, api_key, data_dir) as source:
        target = out or Path(f"{source.meta(name).recording_id}.zip")
        if target.exists() and (target.is_dir() or not force):
            remedy = "choose another name" if target.is_dir() else "--force replaces it"
            fail(f"{target} exists; {remedy}", status=2)
        if target.suffix == ".zip":
            _write(target, lambda path: _download(source, name, path))
            echo(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
            return
        with _writing(target):
            count = _write_folder(target, partial(_download, source, name))
    echo(f"{target}: {count} files")


def replay(
    context: typer.Context,
    name: RecordingName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write it to this file; .mp4 takes the video instead."),
    ] = None,
    force: Force = False,
    url: SourceUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """Play both sides of a recorded conversation, or write them to a sound or video file.

    `antiphon replay` sends a recording to an edge again instead, and compares the answers.
    """
    with _source(context, url, api_key, data_dir) as source:
        if out is None:
            with tempfile.TemporaryDirectory() as folder:
                source.save(name, Path(folder) / REPLAY_WAV)
                play_wav(Path(folder) / REPLAY_WAV)
            return
        check_reply_file(out, formats=(".wav", ".mp4"))
        if out.exists() and not force:
            fail(f"{out} exists; --force replaces it", status=2)
        video = out.suffix.lower() == ".mp4"
        _write(out, lambda path: source.save(name, path, REPLAY_VIDEO if video else REPLAY_WAV))
    echo(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


@contextmanager
def _source(
    context: typer.Context, url: str | None, api_key: str | None, data_dir: Path | None
) -> Iterator[LocalRecordings | Recordings]:
    """The edge of the flag, else the disk of the flag, else the edge of the variable, else the disk.

    Its errors end the command.
    """
    source = context.get_parameter_source("url")
    if data_dir is not None and source is not None and source.name == "COMMANDLINE":
        fail("use either --url or --data-dir, not both", status=2)
    try:
        if url is not None and data_dir is None:
            yield Recordings(url, api_key=api_key)
        else:
            yield _on_disk(data_dir)
    except NoMicrophone as error:
        fail(f"{error}; or write it with --out FILE")
    except (CannotLoad, ClientError, UnusableAudio) as error:
        fail(str(error))


def _on_disk(data_dir: Path | None) -> LocalRecordings:
    from antiphon.broker.service.logs import configure_logging  # the client is installed without it
    from antiphon.cli.local_recordings import LocalRecordings

    configure_logging("antiphon")
    return LocalRecordings(data_dir)


def _download(source: LocalRecordings | Recordings, name: str, path: Path) -> None:
    """Raises CannotLoad for what is no ZIP, and the errors of the source."""
    source.download(name, path)
    if not zipfile.is_zipfile(path):
        raise CannotLoad(f"the server sent something else than a ZIP; {NO_EDGE}")


def _write(target: Path, write: Callable[[Path], None]) -> None:
    """Create or replace the file when it is complete."""
    with _writing(target), atomic_file(target, durable=False) as temporary:
        write(temporary)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fail(f"cannot write {target}: {error.strerror}")


def _write_folder(target: Path, write_zip: Callable[[Path], None]) -> int:
    """The number of files. The ZIP is beside the folder, since temporary folders are often small."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".antiphon-", dir=target.parent) as folder:
        archive = Path(folder) / "recording.zip"
        write_zip(archive)
        return _extract(archive, target)


def _extract(archive: Path, folder: Path) -> int:
    """The number of files, which lose the top folder of the archive."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            entry.filename = str(PurePosixPath(*PurePosixPath(entry.filename).parts[1:]))
            opened.extract(entry, folder)
        return len(opened.infolist())


def list_row(info: RecordingInfo) -> Row:
    length = info.duration_s
    return {
        "recording": info.id,
        "begun": f"{info.created_at.astimezone():%m-%d %H:%M}",
        "s": None if length is None else round(length),
        "first words": info.first_words,
        "session": info.session_id,
        "kind": info.app_type,
        "state": info.state,
        "MB": round(info.size_bytes / 1e6, 1),
        "worker": info.worker_id,
    }


def narrow_row(info: RecordingInfo) -> Row:
    """One line of 80 columns. Without words, it has the kind."""
    row = list_row(info)
    words = Text(visible_line(info.first_words or f"({info.app_type})"))
    words.truncate(_WORDS_COLUMNS, overflow="ellipsis")
    return {name: row[name] for name in ("recording", "begun", "s")} | {"first words": words.plain}


def summary(meta: Meta) -> list[tuple[str, str]]:
    """Names and values of the head of `antiphon recordings show`."""
    state = f"{meta.state}, ended by: {meta.reason}" if meta.reason else str(meta.state)
    length = f"{meta.duration_s:.1f} s" if meta.duration_s is not None else "still running"
    lines = [
        ("recording", meta.recording_id),
        ("session", f"{meta.session_id} ({meta.app_type})"),
        ("state", state),
        ("begun", f"{meta.created_at:%Y-%m-%d %H:%M:%S %Z}, {length}"),
        ("worker", meta.worker_id or "none"),
        ("prompt", str(meta.config.get("system_prompt", ""))[:_PROMPT_SHOWN]),
    ]
    lines += [
        ("missing", f"{gap.stream} {gap.first} to {gap.last} could not be read")
        for gap in meta.missing
    ]
    lines += [("degraded", f"{one.at:%H:%M:%S}: {one.error}") for one in meta.degraded]
    return lines


def recording_rows(timeline: DuplexRecording | TurnRecording | None) -> list[Row]:
    """One row per unit or turn; none while the session runs."""
    match timeline:
        case DuplexRecording():
            return [_chunk_row(chunk) for chunk in timeline.chunks]
        case TurnRecording():
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
        "user_said": unit.user_text if unit else None,
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
        "user_said": (turn.input.text or "").strip() or None,
        "said": turn.output.text.strip(),
        "ended": ended,
    }


recordings = typer.Typer(cls=Group, no_args_is_help=True, add_completion=False)
recordings.command("list", cls=Command)(list_recordings)
for _action in (show, export, replay):
    recordings.command(cls=Command)(_action)
