"""Builds `recording.json` and `meta.json` from a journal. Pure: the same entries give the same bytes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from antiphon.recorder_service.journal.journal import (
    JournalContents,
    JournalEntry,
    select,
)
from antiphon.recorder_service.journal.state import JournalState, RecordingJob, SessionEnding
from antiphon.recorder_service.journal.steady import without_clock_jumps
from antiphon.recorder_service.manifest.meta import (
    config_of,
    duration_ms,
    events,
    final_meta,
    left_out,
    missing,
    moment,
    since,
)
from antiphon.recorder_service.manifest.turns import turn_recording
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    ResultOut,
    StreamEntry,
    user_transcript,
)
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DiagnosticRecord,
    DuplexRecording,
    Meta,
    TurnRecording,
    UnitRecord,
    UnitTiming,
)

_NOT_EVENTS: frozenset[type[StreamEntry]] = frozenset({ChunkIn, ResultOut, DiagnosticIn})


def build_manifest(
    job: RecordingJob, ending: SessionEnding, recorded: JournalContents
) -> tuple[DuplexRecording | TurnRecording, Meta]:
    """The finished recording of everything the journal holds."""
    contents = without_clock_jumps(recorded)
    state = JournalState.of(job.ticket, contents)
    if state.first_at is None and ending.at is not None:
        state.first_at = float(ending.at)
    build = _duplex_recording if job.kind.is_duplex else turn_recording
    recording = build(
        state,
        contents,
        session_id=job.sid,
        recording_id=job.recording,
        app_type=job.kind,
        worker_id=ending.worker,
        start_ts=moment(state.start_ms),
        config=config_of(state.prepare),
    )
    return recording, final_meta(job, ending, state, recording, recorded, contents)


def _duplex_recording(
    state: JournalState, contents: JournalContents, **session: Any
) -> DuplexRecording:
    start = state.start_ms
    results: dict[int, list[UnitRecord]] = defaultdict(list)
    for result in select(contents.outputs, ResultOut):
        results[result.entry.input_n].append(_unit(result, start))
    skipped = {
        n
        for item in contents.outputs
        if isinstance(item.entry, ResultOut | ErrorOut)
        for n in item.entry.skipped
    }
    chunks = [
        _chunk(item, start, results.pop(item.position.n, []), item.position.n in skipped)
        for item in select(contents.inputs, ChunkIn)
    ]
    orphans = [unit for units in results.values() for unit in units]
    indexes = {chunk.input_n: chunk.index for chunk in chunks}
    return DuplexRecording(
        **session,
        mode="duplex",
        chunks=chunks,
        events=events(contents, start, _NOT_EVENTS, indexes),
        diagnostics=[
            DiagnosticRecord(ts_ms=since(start, item.entry), metrics=item.entry.metrics)
            for item in select(contents.inputs, DiagnosticIn)
        ],
        diagnostics_left_out=left_out(contents, "diagnostics"),
        events_left_out=left_out(contents, "events"),
        orphan_results=orphans or None,
        missing=missing(contents, results),
    )


def _chunk(
    item: JournalEntry[ChunkIn], start: float, results: list[UnitRecord], skipped: bool
) -> ChunkRecord:
    audio = item.media.audio
    frames = [frame.file for frame in item.media.frames if frame.file is not None]
    return ChunkRecord(
        index=item.media.chunk_index or 0,
        input_n=item.position.n,
        receive_ts_ms=since(start, item.entry),
        user_audio=audio.file if audio else None,
        user_audio_duration_ms=duration_ms(audio, INPUT_RATE),
        user_frame=frames[0] if frames else None,
        user_frames=frames if len(frames) > 1 else None,
        force_listen=item.entry.force_listen or None,
        skipped=(skipped and not results) or None,
        unreadable=audio.unreadable if audio else None,
        result=results[0] if results else None,
        repeated_results=results[1:] or None,
    )


def _unit(item: JournalEntry[ResultOut], start: float) -> UnitRecord:
    unit, audio = item.entry, item.media.audio
    speaks = not unit.is_listen
    return UnitRecord(
        mode="SPEAK" if speaks else "LISTEN",
        publish_ts_ms=since(start, unit),
        epoch=item.position.epoch,
        timing=_timing(unit),
        text=unit.text or None,
        user_text=user_transcript(unit),
        ai_audio=audio.file if audio else None,
        ai_audio_duration_ms=duration_ms(audio, OUTPUT_RATE),
        end_of_turn=(speaks and unit.end_of_turn) or None,
        simulated=unit.simulated or None,
        unreadable=audio.unreadable if audio else None,
        usage=unit.usage,
    )


def _timing(unit: ResultOut) -> UnitTiming:
    return UnitTiming(
        prefill_ms=round(unit.prefill_ms, 1),
        llm_ms=round(unit.cost_llm_ms, 1),
        tts_prep_ms=round(unit.cost_tts_prep_ms, 1),
        tts_ms=round(unit.cost_tts_ms, 1),
        token2wav_ms=round(unit.cost_token2wav_ms, 1),
        all_ms=round(unit.cost_all_ms, 1),
        wall_clock_ms=round(unit.wall_clock_ms, 1),
        edge_to_worker_ms=round(unit.read_at - unit.received_at, 1),
        n_tokens=unit.n_tokens,
        n_tts_tokens=unit.n_tts_tokens,
        kv_cache_length=unit.kv_cache_length,
        vision_slices=unit.vision_slices,
        vision_tokens=unit.vision_tokens,
    )
