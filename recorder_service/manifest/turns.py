"""`recording.json` of half-duplex and chat sessions: pure, as `manifest` is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antiphon.recorder_service.journal.job import RecordingJob, SessionEnding
from antiphon.recorder_service.journal.journal import Line, Placed
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.journal.turns import TurnAssembly, assemble_turns
from antiphon.recorder_service.manifest.common import (
    config_of,
    duration_ms,
    events,
    gaps,
    moment,
    since,
    text_of,
)
from antiphon.recorder_service.media.audio import answer_name
from antiphon.recorder_service.media.save import USER_AUDIO
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.recording import (
    MessageRecord,
    PartRecord,
    TurnInput,
    TurnOutput,
    TurnRecord,
    TurnRecording,
    TurnTiming,
)
from antiphon.shared_schemas.states import SessionKind

_TOLD_IN_TURNS = frozenset(
    {"chunk", "diagnostic", "generating", "delta", "turn_done"}
    | {"chat", "prefill_done", "chat_done"}
)


def turn_recording(
    job: RecordingJob, ending: SessionEnding, tally: JournalState, inputs: Placed, outputs: Placed
) -> TurnRecording:
    """The turns of what both streams held."""
    start = tally.start_ms
    is_chat = job.kind is SessionKind.CHAT
    turns = _chat_turns(tally, outputs) if is_chat else _spoken_turns(outputs, start)
    answered = {line["input_n"] for _, line in outputs if "input_n" in line}
    return TurnRecording(
        session_id=job.sid,
        recording_id=job.recording,
        mode="chat" if is_chat else "half_duplex",
        app_type=job.kind,
        worker_id=ending.worker,
        start_ts=moment(start),
        config=config_of(tally.prepare),
        turns=turns,
        events=events(inputs, outputs, start, _TOLD_IN_TURNS),
        missing=[*gaps("in", inputs, answered), *gaps("out", outputs)] or None,
    )


def _spoken_turns(outputs: Placed, start: float) -> list[TurnRecord]:
    return [
        _turn(draft, draft.begun or draft.spoken[0], _utterance(draft), start)
        for draft in assemble_turns(outputs)
    ]


def _chat_turns(tally: JournalState, outputs: Placed) -> list[TurnRecord]:
    """The one turn; none where nothing was asked and nothing said."""
    request, start = tally.prepare, tally.start_ms
    draft = next(iter(assemble_turns(outputs)), TurnAssembly(0))
    if request is None and not draft.spoken:
        return []
    if draft.done is None:
        said = {line["type"] for _, line in outputs}
        draft.failed, draft.stopped = "error" in said, "stopped" in said
    if request is None:
        return [_turn(draft, draft.spoken[0], TurnInput(), start)]
    return [_turn(draft, request, _request(request), start)]


def _turn(draft: TurnAssembly, request: Line, asked: TurnInput, start: float) -> TurnRecord:
    return TurnRecord(
        index=draft.index,
        request_ts_ms=since(start, request),
        done_ts_ms=since(start, draft.done) if draft.done else None,
        input=asked,
        output=_answer(draft),
        timing=_timing(draft, float(request["at"])),
        stopped=draft.stopped or None,
        failed=draft.failed or None,
        unfinished=draft.done is None or None,
    )


def _answer(draft: TurnAssembly) -> TurnOutput:
    streamed = draft.text
    text = draft.done["text"] if draft.done else streamed
    pieces = [line for line in draft.spoken if "piece" in line]
    return TurnOutput(
        text=text,
        streamed_text=streamed if streamed and streamed != text else None,
        audio=answer_name(draft.index) if pieces else None,
        audio_duration_ms=duration_ms({"samples": _samples(pieces)}, OUTPUT_RATE)
        if pieces
        else None,
        unreadable=_first(draft.spoken, "unreadable"),
    )


def _timing(draft: TurnAssembly, asked_at: float) -> TurnTiming:
    done, read = draft.done or {}, draft.read or {}
    elapsed = done.get("cost_all_ms", done.get("duration_ms"))
    return TurnTiming(
        elapsed_ms=None if elapsed is None else round(elapsed, 1),
        prefill_ms=round(read["at"] - asked_at, 1) if read else None,
        first_delta_ms=round(draft.deltas[0]["at"] - asked_at, 1) if draft.deltas else None,
        tokens=done.get("n_tokens", done.get("generated_tokens")),
        input_tokens=done.get("input_tokens", read.get("input_tokens")),
        kv_cache_length=done.get("kv_cache_length"),
    )


def _utterance(draft: TurnAssembly) -> TurnInput:
    begun, done = draft.begun or {}, draft.done or {}
    return TurnInput(
        text=done.get("user_text"),
        audio=begun.get(USER_AUDIO),
        audio_duration_ms=duration_ms(begun, INPUT_RATE),
        speech_ms=begun.get("speech_duration_ms"),
        unreadable=begun.get("unreadable"),
    )


def _request(line: Line) -> TurnInput:
    messages = [_message(raw, line["media"]) for raw in line["content"]]
    said = [raw for raw in line["content"] if raw["role"] == "user"]
    parts = [part for message in messages if message.role == "user" for part in message.parts]
    durations = [part.duration_ms for part in parts if part.duration_ms is not None]
    sounds = list(_files(parts, "audio"))
    return TurnInput(
        text=(text_of(said[-1]["parts"]) if said else "") or None,
        audio=sounds[0] if sounds else None,
        audios=sounds if len(sounds) > 1 else None,
        audio_duration_ms=sum(durations) if durations else None,
        images=list(_files(parts, "image")) or None,
        videos=list(_files(parts, "video")) or None,
        messages=messages,
    )


def _message(raw: dict[str, Any], media: list[Line]) -> MessageRecord:
    return MessageRecord(role=raw["role"], parts=[_part(part, media) for part in raw["parts"]])


def _part(raw: dict[str, Any], media: list[Line]) -> PartRecord:
    saved = media[raw["blob"]] if "blob" in raw else {}
    return PartRecord(
        type=raw["type"],
        text=raw.get("text"),
        file=saved.get("file"),
        duration_ms=duration_ms(saved, INPUT_RATE),
        stack_frames=raw.get("stack_frames"),
        unreadable=saved.get("unreadable"),
    )


def _files(parts: list[PartRecord], kind: str) -> Iterator[str]:
    return (part.file for part in parts if part.type == kind and part.file is not None)


def _samples(lines: list[Line]) -> int:
    return sum(line["samples"] for line in lines)


def _first(lines: list[Line], name: str) -> str | None:
    return next((line[name] for line in lines if name in line), None)
