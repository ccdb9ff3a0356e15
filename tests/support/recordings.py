"""Recordings on disk for the tests of their readers, made by the recorder's code."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import PreparedOut, PrepareIn, StreamPosition
from antiphon.shared_schemas.ids import new_recording_id
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import Script, chunk, record_undisturbed, result

T0 = 1_700_000_000_000.0


def script(units: int, ticket: int, *, prompt: str = "Be brief.", at: float = T0) -> Script:
    config = DuplexConfig(force_listen_count=1)
    first = StreamPosition(ticket, 1, 1)
    entries: Script = [
        ("in", first, PrepareIn(at=at, system_prompt=prompt, config=config)),
        ("out", first, PreparedOut(at=at + 50, input_n=1, prompt_length=3)),
    ]
    for i in range(units):
        position, when = StreamPosition(ticket, 1, i + 2), at + 1000 * (i + 1)
        entries.append(("in", position, chunk(i, frames=i % 2, at=when)))
        spoken = result(i + 2, speak=i % 2 == 1, end_of_turn=i % 2 == 1, at=when + 80.5)
        entries.append(("out", position, spoken))
    return entries


def recorded(
    root: Path,
    *,
    units: int = 4,
    sid: str = "omni_1",
    kind: SessionKind = SessionKind.OMNI_DUPLEX,
    prompt: str = "Be brief.",
    at: datetime | None = None,
    worker: str = "w1",
) -> str:
    """A finished recording below `root`; returns its id."""
    recording, ticket = new_recording_id(), 7
    job = RecordingJob(sid=sid, ticket=ticket, kind=kind, recording=recording)
    begun = T0 if at is None else at.astimezone(UTC).timestamp() * 1000
    ending = SessionEnding(
        at=int(begun) + 1000 * units + 2000, reason=EndReason.STOPPED, worker=worker
    )
    record_undisturbed(root, job, script(units, ticket, prompt=prompt, at=begun), ending)
    return recording


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads(path.read_bytes())
    return content


def change_meta(folder: Path, recording: str, **values: object) -> None:
    """Replaces the metadata of an active or failed recorder at once, as a recorder does."""
    path = folder / recording / "meta.json"
    new = path.with_name(".meta.json")
    new.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | values))
    new.replace(path)
