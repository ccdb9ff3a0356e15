"""From a journal to `recording.json` and `meta.json`: pure, so that the same entries give the same bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import Line, Placed, in_order
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.manifest.common import (
    config_of,
    duration_ms,
    events,
    explained,
    gaps,
    moment,
    since,
)
from antiphon.recorder_service.manifest.meta import final_meta
from antiphon.recorder_service.manifest.turns import turn_recording
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DiagnosticRecord,
    DuplexRecording,
    Meta,
    TurnRecording,
    UnitRecord,
    UnitTiming,
)
from antiphon.shared_schemas.stream_position import StreamPosition

_COSTS = ("llm_ms", "tts_prep_ms", "tts_ms", "token2wav_ms", "all_ms")
_COUNTS = ("n_tokens", "n_tts_tokens", "kv_cache_length", "vision_slices", "vision_tokens")
_NO_EVENT = frozenset({"chunk", "result", "diagnostic"})


def build(
    job: RecordingJob, ending: SessionEnding, lines: Sequence[Line]
) -> tuple[DuplexRecording | TurnRecording, Meta]:
    """The finished recording of everything the journal holds."""
    placed = in_order(lines)
    tally = JournalState.of(job.ticket, placed)
    if tally.first_at is None and ending.at is not None:
        tally.first_at = float(ending.at)
    make = _recording if job.kind.is_duplex else turn_recording
    recording = make(job, ending, tally, placed["in"], placed["out"])
    if recording.missing:
        missing = explained(recording.missing, lines)
        recording = recording.model_copy(update={"missing": missing})
    return recording, final_meta(job, ending, tally, recording, placed, lines)


def _recording(
    job: RecordingJob, ending: SessionEnding, tally: JournalState, inputs: Placed, outputs: Placed
) -> DuplexRecording:
    start = tally.start_ms
    results: dict[int, list[UnitRecord]] = defaultdict(list)
    for position, line in outputs:
        if line["type"] == "result":
            results[line["input_n"]].append(_unit(position, line, start))
    skipped = {n for _, line in outputs for n in line.get("skipped", ())}
    chunks = [
        _chunk(position.n, line, start, results.pop(position.n, []), position.n in skipped)
        for position, line in inputs
        if line["type"] == "chunk"
    ]
    places = {chunk.input_n: chunk.index for chunk in chunks}
    orphans = [unit for units in results.values() for unit in units]
    return DuplexRecording(
        session_id=job.sid,
        recording_id=job.recording,
        mode="duplex",
        app_type=job.kind,
        worker_id=ending.worker,
        start_ts=moment(start),
        config=config_of(tally.prepare),
        chunks=chunks,
        events=events(inputs, outputs, start, _NO_EVENT, places),
        diagnostics=_diagnostics(inputs, start),
        orphan_results=orphans or None,
        missing=[*gaps("in", inputs, results), *gaps("out", outputs)] or None,
    )


def _chunk(
    n: int, line: Line, start: float, results: list[UnitRecord], skipped: bool
) -> ChunkRecord:
    frames = line["user_frames"]
    return ChunkRecord(
        index=line["index"],
        input_n=n,
        receive_ts_ms=since(start, line),
        user_audio=line.get("user_audio"),
        user_audio_duration_ms=duration_ms(line, INPUT_RATE),
        user_frame=frames[0] if frames else None,
        user_frames=frames if len(frames) > 1 else None,
        force_listen=line["force_listen"] or None,
        skipped=(skipped and not results) or None,
        unreadable=line.get("unreadable"),
        result=results[0] if results else None,
        repeated_results=results[1:] or None,
    )


def _unit(position: StreamPosition, line: Line, start: float) -> UnitRecord:
    speaks = not line["is_listen"]
    return UnitRecord(
        mode="SPEAK" if speaks else "LISTEN",
        publish_ts_ms=since(start, line),
        epoch=position.epoch,
        timing=_timing(line),
        text=line["text"] or None,
        user_text=line.get("user_text"),
        ai_audio=line.get("ai_audio"),
        ai_audio_duration_ms=duration_ms(line, OUTPUT_RATE),
        end_of_turn=(speaks and line["end_of_turn"]) or None,
        simulated=line["simulated"] or None,
        unreadable=line.get("unreadable"),
    )


def _timing(line: Line) -> UnitTiming:
    return UnitTiming(
        prefill_ms=round(line["prefill_ms"], 1),
        wall_clock_ms=round(line["wall_clock_ms"], 1),
        edge_to_worker_ms=round(line["read_at"] - line["received_at"], 1),
        **{name: round(line[f"cost_{name}"], 1) for name in _COSTS},
        **{name: line[name] for name in _COUNTS},
    )


def _diagnostics(inputs: Placed, start: float) -> list[DiagnosticRecord]:
    return [
        DiagnosticRecord(ts_ms=since(start, line), metrics=line["metrics"])
        for _, line in inputs
        if line["type"] == "diagnostic"
    ]
