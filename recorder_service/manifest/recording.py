"""Builds `recording.json` and `meta.json` from a journal. Pure: the same entries give the same bytes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from antiphon.recorder_service.journal.clock_jumps import without_clock_jumps
from antiphon.recorder_service.journal.journal import (
    JournalContents,
    JournalEntries,
    JournalEntry,
    SavedFile,
    is_entry,
    select,
)
from antiphon.recorder_service.journal.state import JournalState, RecordingJob, SessionEnding
from antiphon.recorder_service.journal.turns import TurnAssembly, assemble_turns
from antiphon.recorder_service.manifest.losses import left_out, missing, moment
from antiphon.recorder_service.manifest.meta import config_of, final_meta, text_of
from antiphon.recorder_service.media import answer_name
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    DiagnosticIn,
    ErrorOut,
    GeneratingOut,
    PrefillDoneOut,
    ResultOut,
    StoppedOut,
    StreamEntry,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DiagnosticRecord,
    DuplexRecording,
    EventRecord,
    MessageRecord,
    Meta,
    PartRecord,
    TurnInput,
    TurnOutput,
    TurnRecord,
    TurnRecording,
    TurnTiming,
    UnitRecord,
    UnitTiming,
)
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import user_transcript, word_times

_NOT_DUPLEX_EVENTS: frozenset[type[StreamEntry]] = frozenset({ChunkIn, ResultOut, DiagnosticIn})
_NOT_TURN_EVENTS: frozenset[type[StreamEntry]] = frozenset(
    {
        *(ChunkIn, DiagnosticIn, GeneratingOut, DeltaOut, TurnDoneOut),
        *(ChatIn, PrefillDoneOut, ChatDoneOut),
    }
)


_EVENT_FIELDS = frozenset(EventRecord.model_fields) - {"ts_ms", "chunk", "type"}


def build_manifest(
    job: RecordingJob, ending: SessionEnding, recorded: JournalContents
) -> tuple[DuplexRecording | TurnRecording, Meta]:
    """The finished recording of everything the journal holds."""
    contents = without_clock_jumps(recorded)
    state = JournalState.of(job.ticket, contents)
    if state.first_at is None and ending.at is not None:
        state.first_at = float(ending.at)
    build = _duplex_recording if job.kind.is_duplex else _turn_recording
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


def _since(start: float, entry: StreamEntry) -> float:
    return round(entry.at - start, 1)


def _duration_ms(audio: SavedFile | None, rate: int) -> int | None:
    """The length of an entry's sound, None when it has none."""
    if audio is None or audio.samples is None:
        return None
    return round(audio.samples / rate * 1000)


def _without_interim(entries: Sequence[StreamEntry]) -> list[StreamEntry]:
    """Speech that continues is no event: each change of its interim transcript is an entry."""
    kept: list[StreamEntry] = []
    voice: tuple[bool, str] | None = None
    for entry in entries:
        if isinstance(entry, VadOut):
            before, voice = voice, (entry.speaking, entry.item_id)
            if voice == before:
                continue
        kept.append(entry)
    return kept


def _events(
    contents: JournalContents,
    start: float,
    excluded: Collection[type[StreamEntry]],
    chunks: Mapping[int, int] | None = None,
) -> list[EventRecord]:
    """Both streams' entries by time, except those of `excluded` types. At equal times inputs come first.

    `chunks`: the chunk index of each input number.
    """
    entries = [
        item.entry
        for item in (*contents.inputs, *contents.outputs)
        if type(item.entry) not in excluded
    ]
    entries.sort(key=lambda entry: entry.at)
    entries = _without_interim(entries)
    return [
        EventRecord(
            ts_ms=_since(start, entry),
            type=entry.tag,
            chunk=(chunks or {}).get(getattr(entry, "input_n", 0)),
            **{name: getattr(entry, name, None) for name in _EVENT_FIELDS},
        )
        for entry in entries
    ]


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
        events=_events(contents, start, _NOT_DUPLEX_EVENTS, indexes),
        diagnostics=[
            DiagnosticRecord(ts_ms=_since(start, item.entry), metrics=item.entry.metrics)
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
        receive_ts_ms=_since(start, item.entry),
        user_audio=audio.file if audio else None,
        user_audio_duration_ms=_duration_ms(audio, INPUT_RATE),
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
        publish_ts_ms=_since(start, unit),
        epoch=item.position.epoch,
        timing=_unit_timing(unit),
        text=unit.text or None,
        words=word_times(unit),
        user_text=user_transcript(unit),
        ai_audio=audio.file if audio else None,
        ai_audio_duration_ms=_duration_ms(audio, OUTPUT_RATE),
        end_of_turn=(speaks and unit.end_of_turn) or None,
        simulated=unit.simulated or None,
        unreadable=audio.unreadable if audio else None,
        usage=unit.usage,
    )


def _unit_timing(unit: ResultOut) -> UnitTiming:
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


def _turn_recording(
    state: JournalState, contents: JournalContents, *, app_type: SessionKind, **session: Any
) -> TurnRecording:
    start, outputs = state.start_ms, contents.outputs
    is_chat = app_type is SessionKind.CHAT
    turns = _chat_turns(state, outputs) if is_chat else _spoken_turns(outputs, start)
    answered = {getattr(item.entry, "input_n", 0) for item in outputs}
    return TurnRecording(
        **session,
        app_type=app_type,
        mode="chat" if is_chat else "half_duplex",
        turns=turns,
        events=_events(contents, start, _NOT_TURN_EVENTS),
        events_left_out=left_out(contents, "events"),
        missing=missing(contents, answered),
    )


def _spoken_turns(outputs: JournalEntries, start: float) -> list[TurnRecord]:
    return [
        _turn(turn, (turn.begun or turn.spoken[0]).entry, _utterance(turn), start)
        for turn in assemble_turns(outputs)
    ]


def _chat_turns(state: JournalState, outputs: JournalEntries) -> list[TurnRecord]:
    """The one turn; none when the streams hold neither a request nor an answer."""
    start = state.start_ms
    request = state.prepare if state.prepare and is_entry(state.prepare, ChatIn) else None
    turn = next(iter(assemble_turns(outputs)), TurnAssembly(0))
    if request is None and not turn.spoken:
        return []
    if turn.done is None:
        turn.failed = any(isinstance(item.entry, ErrorOut) for item in outputs)
        turn.stopped = any(isinstance(item.entry, StoppedOut) for item in outputs)
    if request is None:
        return [_turn(turn, turn.spoken[0].entry, TurnInput(), start)]
    return [_turn(turn, request.entry, _request(request), start)]


def _turn(turn: TurnAssembly, request: StreamEntry, asked: TurnInput, start: float) -> TurnRecord:
    return TurnRecord(
        index=turn.index,
        request_ts_ms=_since(start, request),
        done_ts_ms=_since(start, turn.done.entry) if turn.done else None,
        input=asked,
        output=_answer(turn),
        timing=_turn_timing(turn, request.at),
        stopped=turn.stopped or None,
        failed=turn.failed or None,
        unfinished=turn.done is None or None,
        usage=turn.done.entry.usage if turn.done else None,
    )


def _answer(turn: TurnAssembly) -> TurnOutput:
    streamed = turn.text
    text = turn.done.entry.text if turn.done else streamed
    sounds = [item.media.audio for item in turn.spoken if item.media.audio is not None]
    samples = [sound.samples for sound in sounds if sound.samples is not None]
    calls = getattr(turn.done.entry, "tool_calls", None) if turn.done else None
    joined = SavedFile(file=answer_name(turn.index), samples=sum(samples)) if samples else None
    return TurnOutput(
        text=text,
        streamed_text=streamed if streamed and streamed != text else None,
        audio=joined.file if joined else None,
        audio_duration_ms=_duration_ms(joined, OUTPUT_RATE),
        unreadable=next((sound.unreadable for sound in sounds if sound.unreadable), None),
        tool_calls=calls or None,
    )


def _turn_timing(turn: TurnAssembly, asked_at: float) -> TurnTiming:
    read = turn.prefilled.entry if turn.prefilled else None
    timing = TurnTiming(
        prefill_ms=round(read.at - asked_at, 1) if read else None,
        first_delta_ms=round(turn.deltas[0].entry.at - asked_at, 1) if turn.deltas else None,
        input_tokens=read.input_tokens if read else None,
    )
    match turn.done.entry if turn.done else None:
        case TurnDoneOut() as done:
            costs: dict[str, Any] = {
                "elapsed_ms": round(done.cost_all_ms, 1),
                "tokens": done.n_tokens,
                "kv_cache_length": done.kv_cache_length,
            }
        case ChatDoneOut() as done:
            costs = {
                "elapsed_ms": round(done.duration_ms, 1),
                "tokens": done.generated_tokens,
                "input_tokens": done.input_tokens,
            }
        case _:
            costs = {}
    return timing.model_copy(update=costs)


def _utterance(turn: TurnAssembly) -> TurnInput:
    audio = turn.begun.media.audio if turn.begun else None
    done = turn.done.entry if turn.done else None
    return TurnInput(
        text=user_transcript(done) if isinstance(done, TurnDoneOut) else None,
        audio=audio.file if audio else None,
        audio_duration_ms=_duration_ms(audio, INPUT_RATE),
        speech_ms=(turn.begun.entry.speech_duration_ms or None) if turn.begun else None,
        unreadable=audio.unreadable if audio else None,
    )


def _request(request: JournalEntry[ChatIn]) -> TurnInput:
    content, media = request.entry.content, request.media.parts
    messages = [
        MessageRecord(
            role=raw["role"],
            parts=[_part(part, media) for part in raw["parts"]],
            tool_calls=raw.get("tool_calls"),
            tool_call_id=raw.get("tool_call_id"),
        )
        for raw in content
    ]
    user = [raw for raw in content if raw["role"] == "user"]
    parts = [part for message in messages if message.role == "user" for part in message.parts]
    durations = [part.duration_ms for part in parts if part.duration_ms is not None]
    sounds = list(_files(parts, "audio"))
    return TurnInput(
        text=(text_of(user[-1]["parts"]) if user else "") or None,
        audio=sounds[0] if sounds else None,
        audios=sounds if len(sounds) > 1 else None,
        audio_duration_ms=sum(durations) if durations else None,
        images=list(_files(parts, "image")) or None,
        videos=list(_files(parts, "video")) or None,
        messages=messages,
    )


def _part(raw: dict[str, Any], media: tuple[SavedFile, ...]) -> PartRecord:
    saved = media[raw["blob"]] if "blob" in raw else SavedFile()
    return PartRecord(
        type=raw["type"],
        text=raw.get("text"),
        file=saved.file,
        duration_ms=_duration_ms(saved, INPUT_RATE),
        stack_frames=raw.get("stack_frames"),
        unreadable=saved.unreadable,
    )


def _files(parts: list[PartRecord], kind: str) -> Iterator[str]:
    return (part.file for part in parts if part.type == kind and part.file is not None)
