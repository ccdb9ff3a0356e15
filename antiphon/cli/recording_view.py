"""A recorded session as lines and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from antiphon.cli.stored import Stored
from antiphon.cli.tables import plain_table, print_table, rows_table
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    Recording,
    TurnRecord,
    TurnRecording,
)

Row = dict[str, Any]
Facts = list[tuple[str, str]]

_PROMPT_SHOWN = 200


def facts(stored: Stored) -> Facts:
    """What one wants to know first: name → value."""
    meta = stored.meta
    state = f"{meta.state}, ended by: {meta.reason}" if meta.reason else str(meta.state)
    length = f"{meta.duration_s:.1f} s" if meta.duration_s is not None else "goes on"
    files = files_of(stored.folder)
    told = [
        ("recording", meta.recording_id),
        ("session", f"{meta.session_id} ({meta.app_type})"),
        ("state", state),
        ("begun", f"{meta.created_at:%Y-%m-%d %H:%M:%S %Z}, {length}"),
        ("worker", meta.worker_id or "none"),
        ("prompt", str(meta.config.get("system_prompt", ""))[:_PROMPT_SHOWN]),
        ("files", f"{len(files)}, {sum(files.values()) / 1e6:.1f} MB in {stored.folder}"),
    ]
    told += [
        ("missing", f"{gap.stream} {gap.first} to {gap.last} could not be read")
        for gap in meta.missing
    ]
    told += [("degraded", f"{one.at:%H:%M:%S}: {one.error}") for one in meta.degraded]
    return told


def files_of(folder: Path) -> dict[str, int]:
    """Every file but the hidden ones, with its size in bytes."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def as_rows(stored: Stored) -> list[Row]:
    """A row per unit or turn; none while the session goes on."""
    match stored.recording:
        case Recording() as recording:
            return [_chunk_row(chunk) for chunk in recording.chunks]
        case TurnRecording() as recording:
            return [_turn_row(turn) for turn in recording.turns]
    return []


def print_recording(told: Facts, rows: list[Row]) -> None:
    """On the terminal."""
    lines = plain_table("", "")
    for name, value in told:
        lines.add_row(name, Text(value))
    print_table(lines)
    if rows:
        Console().print()
        print_table(rows_table(rows))


def _chunk_row(chunk: ChunkRecord) -> Row:
    unit = chunk.result
    doing = "skipped" if chunk.skipped else "unanswered"
    return {
        "s": round(chunk.receive_ts_ms / 1000, 1),
        "unit": chunk.index,
        "did": {"SPEAK": "speaking", "LISTEN": "listening"}[unit.mode] if unit else doing,
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
