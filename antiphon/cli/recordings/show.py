"""A recording as the terminal shows it."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from antiphon.cli.common import Row
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DuplexRecording,
    Meta,
    TurnRecord,
    TurnRecording,
)
from antiphon.shared_schemas.recording_list import RecordingInfo

_PROMPT_SHOWN = 200
_WORDS_COLUMNS = 24
"""With the id of the recording, its time and its length, 80 columns."""


def list_row(info: RecordingInfo) -> Row:
    """One line of the list."""
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
    words = Text(info.first_words or f"({info.app_type})")
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


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file that is not hidden."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


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
