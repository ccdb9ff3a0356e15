"""A unit's result as its client reads it."""

from __future__ import annotations

from antiphon.shared_schemas.duplex_messages import Result
from antiphon.shared_schemas.entries import ResultOut


def result_message(
    entry: ResultOut, now_ms: float, *, timing: bool, transcript: bool = False
) -> Result:
    """`now_ms`: Redis-clock time of sending, which `server_send_ts` gives in seconds."""
    return Result(
        is_listen=entry.is_listen,
        text=entry.text,
        audio_data=entry.audio,
        end_of_turn=entry.end_of_turn,
        current_time=entry.current_time,
        cost_llm_ms=entry.cost_llm_ms,
        cost_tts_prep_ms=entry.cost_tts_prep_ms,
        cost_tts_ms=entry.cost_tts_ms,
        cost_token2wav_ms=entry.cost_token2wav_ms,
        cost_all_ms=entry.cost_all_ms,
        n_tokens=entry.n_tokens,
        n_tts_tokens=entry.n_tts_tokens,
        server_send_ts=round(now_ms / 1000, 3),
        wall_clock_ms=entry.wall_clock_ms,
        kv_cache_length=entry.kv_cache_length,
        vision_slices=entry.vision_slices,
        vision_tokens=entry.vision_tokens,
        simulated=entry.simulated or None,
        timing=hop_times(entry, now_ms) if timing else None,
        user_text=_understood(entry) if transcript else None,
    )


def hop_times(entry: ResultOut, now_ms: float) -> dict[str, float]:
    """Milliseconds from edge to worker, in the engine, and back."""
    return {
        "edge_to_worker_ms": round(entry.read_at - entry.received_at, 3),
        "engine_ms": entry.wall_clock_ms,
        "worker_to_edge_ms": round(now_ms - entry.at, 3),
    }


def _understood(entry: ResultOut) -> str | None:
    """The engine's words for what the user said up to this unit, where it makes any."""
    text = entry.memo.get("user")
    return text if isinstance(text, str) else None
