"""What this server can do, for clients that ask."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat
from antiphon.shared_schemas.binary_frames import BINARY_PROTOCOL
from antiphon.shared_schemas.duplex_messages import MAX_FRAMES
from antiphon.shared_schemas.realtime_messages import CONTEXT_TOKENS

PROTOCOL_VERSION = 1
"""Raised when something that a client may rely on changes."""


def capabilities(settings: EdgeSettings) -> dict[str, Any]:
    """The `capabilities` object; sizes in bytes, times in seconds."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "server_version": version("antiphon"),
        "features": [
            "binary",
            "notices",
            "playback_ack",
            "progress",
            "resume",
            "timing",
            "transcript",
        ],
        "subprotocols": [BINARY_PROTOCOL],
        "pcm_formats": [str(form) for form in PcmFormat],
        "input_sample_rate": INPUT_RATE,
        "output_sample_rate": OUTPUT_RATE,
        "limits": {
            "message_bytes": settings.max_message_bytes,
            "chat_request_bytes": settings.max_chat_bytes,
            "chunk_s": settings.max_chunk_s,
            "audio_ahead_s": settings.input_ahead_s,
            "messages_per_s": settings.input_messages_per_s,
            "bytes_per_s": settings.input_bytes_per_s,
            "reference_audio_s": settings.max_reference_s,
            "frames_per_chunk": MAX_FRAMES,
            "frame_bytes": settings.max_frame_bytes,
            "pause_s": settings.max_pause_timeout_s,
            "realtime_video_s": settings.realtime_video_s,
            "realtime_audio_s": settings.realtime_audio_s,
            "context_tokens": CONTEXT_TOKENS,
            "resume_grace_s": settings.resume_grace_s,
        },
    }
