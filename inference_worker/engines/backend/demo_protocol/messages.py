"""What is sent to a backend server."""

from collections.abc import Sequence
from typing import Any

from pybase64 import b64encode_as_string

from antiphon.inference_worker.engines.common.pictures import JPEG, upright
from antiphon.shared_schemas.audio import Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    TextPart,
    VideoPart,
)

_PICTURES = (JPEG,)
"""The protocol knows no other format."""

_NOT_SENT = {"record", "max_slice_nums"}
"""Settings of a session that are not about the model, or are sent with each input."""


def encode_audio(samples: Samples) -> str:
    """Base64 of float32 little-endian; the rate of all sound to a server is 16 kHz."""
    return b64encode_as_string(float_bytes(samples))


def full_duplex_init(
    prompt: str, config: DuplexConfig, voices: tuple[Samples | None, Samples | None]
) -> dict[str, Any]:
    """The payload of `session.init`. Every setting is stated, and a prompt even if it is empty."""
    names = ("ref_audio", "tts_ref_audio")
    voice = {name: encode_audio(v) for name, v in zip(names, voices, strict=True) if v is not None}
    return {
        "mode": "full_duplex",
        "system_prompt": prompt,
        "config": config.model_dump(exclude=_NOT_SENT),
        "voice": voice,
    }


def unit_input(
    audio: Samples, frames: Sequence[bytes], max_slice_nums: int, *, force_listen: bool
) -> dict[str, Any]:
    """One second of input."""
    return {
        "audio": encode_audio(audio),
        "video_frames": [b64encode_as_string(frame) for frame in frames],
        "max_slice_nums": max_slice_nums,
        "force_listen": force_listen,
    }


def turn_input(
    messages: Sequence[ConversationMessage],
    generation: GenerationConfig,
    voice: Samples | None,
    *,
    speaks: bool,
) -> dict[str, Any]:
    """One request of a turn-based session. The server takes no other settings of `generation`."""
    tts: dict[str, Any] = {"enabled": speaks}
    if speaks and voice is not None:
        tts["ref_audio_data"] = encode_audio(voice)
    return {
        "messages": [_message(message) for message in messages],
        "streaming": True,
        "generation": {
            "max_new_tokens": generation.max_new_tokens,
            "length_penalty": generation.length_penalty,
        },
        "tts": tts,
        "use_tts_template": speaks,
    }


def _message(message: ConversationMessage) -> dict[str, Any]:
    return {"role": str(message.role), "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart():
            return {"type": "audio", "data": encode_audio(part.samples())}
        case ImagePart(data):
            return {"type": "image", "data": b64encode_as_string(upright(data, _PICTURES))}
        case VideoPart(data, stack_frames):
            return {
                "type": "video",
                "data": b64encode_as_string(data),
                "stack_frames": stack_frames,
            }
