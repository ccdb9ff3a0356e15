"""What is sent to a backend server."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from pybase64 import b64encode_as_string

from antiphon.inference_worker.engines.common.pictures import is_turned, read_picture
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.audio import Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)

_JPEG = b"\xff\xd8"
_NOT_SENT = {"record", "max_slice_nums"}
"""Settings of a session that are not about the model, or are sent with each input."""


def encode_audio(samples: Samples) -> str:
    """Base64 of float32 little-endian; the rate of all sound to a server is 16 kHz."""
    return b64encode_as_string(float_bytes(samples))


def full_duplex_init(
    prompt: str,
    config: DuplexConfig,
    voices: tuple[Samples | None, Samples | None],
    *,
    is_llama: bool,
) -> dict[str, Any]:
    """The payload of `session.init`. Raises UnsupportedContent.

    `llama-omni-server` keeps the prompt and the settings of the last session for what a session does not
    state, so every setting is sent, and a prompt even if it is empty. It puts the prompt where the end of
    its system message would be.
    """
    if is_llama and config.ls_mode != "explicit":
        text = "llama-omni-server has only the mode 'explicit'"
        raise UnsupportedContent(text, "config.ls_mode")
    names = ("ref_audio", "tts_ref_audio")
    voice = {name: encode_audio(v) for name, v in zip(names, voices, strict=True) if v is not None}
    return {
        "mode": "full_duplex",
        "system_prompt": f"<|audio_end|>{prompt}<|im_end|>\n" if is_llama else prompt,
        "config": config.model_dump(exclude=_NOT_SENT),
        "voice": voice,
    }


def unit_input(
    audio: Samples,
    frames: Sequence[bytes],
    max_slice_nums: int,
    *,
    force_listen: bool,
    is_llama: bool,
) -> dict[str, Any]:
    """One second of input. `llama-omni-server` uses one frame, so it gets the newest one."""
    sent = frames[-1:] if is_llama else frames
    return {
        "audio": encode_audio(audio),
        "video_frames": [b64encode_as_string(frame) for frame in sent],
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


def check_for_llama(messages: Sequence[ConversationMessage]) -> None:
    """`llama-omni-server` uses the media of the last message only, and one picture or sound of it.

    Raises UnsupportedContent with the part that it would ignore. Sound in a system message is a voice.
    """
    for index, message in enumerate(messages):
        pictures = sounds = 0
        for place, part in enumerate(message.parts):
            pictures += isinstance(part, ImagePart | VideoPart)
            sounds += isinstance(part, AudioPart | VideoPart)
            is_voice = message.role is Role.SYSTEM and isinstance(part, AudioPart)
            if isinstance(part, TextPart) or is_voice:
                continue
            field = f"messages.{index}.content.{place}"
            if index < len(messages) - 1:
                text = "llama-omni-server uses pictures and sound of the last message only"
                raise UnsupportedContent(text, field)
            if pictures > 1 or sounds > 1:
                text = "llama-omni-server uses one picture and one sound of a message"
                raise UnsupportedContent(text, field)


def _message(message: ConversationMessage) -> dict[str, Any]:
    return {"role": str(message.role), "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart():
            return {"type": "audio", "data": encode_audio(part.samples())}
        case ImagePart(data):
            return {"type": "image", "data": b64encode_as_string(_jpeg(data))}
        case VideoPart(data, stack_frames):
            return {
                "type": "video",
                "data": b64encode_as_string(data),
                "stack_frames": stack_frames,
            }


def _jpeg(data: bytes) -> bytes:
    """The protocol knows no other format. Servers do not turn pictures as EXIF says."""
    if data.startswith(_JPEG) and not is_turned(data):
        return data
    file = io.BytesIO()
    read_picture(data).save(file, "JPEG", quality=95, exif=b"")
    return file.getvalue()
