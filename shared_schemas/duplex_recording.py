"""`recording.json` of a full-duplex session: what happened to every chunk."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime

from antiphon.shared_schemas.recording_parts import EventRecord, Gap, Record
from antiphon.shared_schemas.states import SessionKind


class Timing(Record):
    """What one unit cost. `all_ms` is the engine's share, `wall_clock_ms` the worker's.

    `edge_to_worker_ms`: from the edge's stamp on the chunk to the worker's reading it.
    """

    prefill_ms: float
    llm_ms: float
    tts_prep_ms: float
    tts_ms: float
    token2wav_ms: float
    all_ms: float
    wall_clock_ms: float
    edge_to_worker_ms: float
    n_tokens: int
    n_tts_tokens: int
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int


class UnitRecord(Record):
    """One result. `user_text` is the engine's transcript of what it heard, if it makes one."""

    mode: Literal["LISTEN", "SPEAK"]
    publish_ts_ms: float
    epoch: int
    timing: Timing
    text: str | None = None
    user_text: str | None = None
    ai_audio: str | None = None
    ai_audio_duration_ms: int | None = None
    end_of_turn: bool | None = None
    simulated: bool | None = None
    unreadable: str | None = None


class ChunkRecord(Record):
    """One chunk of user audio. `input_n` is its number in the input stream.

    `user_frame` is the first frame, `user_frames` lists all where there are several. `skipped`: the
    worker dropped it under backpressure. `repeated_results`: further results the client received
    for the same chunk, after a change of workers, in order.
    """

    index: int
    input_n: int
    receive_ts_ms: float
    user_audio: str | None = None
    user_audio_duration_ms: int | None = None
    user_frame: str | None = None
    user_frames: list[str] | None = None
    force_listen: bool | None = None
    skipped: bool | None = None
    unreadable: str | None = None
    result: UnitRecord | None = None
    repeated_results: list[UnitRecord] | None = None


class DiagnosticRecord(Record):
    """Figures that the client measured."""

    ts_ms: float
    metrics: dict[str, Any]


class Recording(Record):
    """`recording.json` of a duplex session. `orphan_results`: results whose chunk is missing.

    `merged_replay`, `merged_replay_video`: the replay's files, once there are any.
    """

    session_id: str
    recording_id: str
    mode: Literal["duplex"]
    app_type: SessionKind
    worker_id: str
    start_ts: AwareDatetime
    config: dict[str, Any]
    chunks: list[ChunkRecord]
    events: list[EventRecord]
    diagnostics: list[DiagnosticRecord]
    orphan_results: list[UnitRecord] | None = None
    missing: list[Gap] | None = None
    merged_replay: str | None = None
    merged_replay_video: str | None = None
