"""What is sent to vLLM-Omni."""

import io
from collections.abc import Sequence
from typing import Any

import soundfile
from pybase64 import b64encode_as_string

from antiphon.inference_worker.engines.common.pictures import (
    JPEG,
    PNG,
    jpeg,
    picture_part,
    read_picture,
    upright,
)
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    Samples,
    float_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, GenerationConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    TextPart,
    VideoPart,
)

_PICTURES = (JPEG, PNG)
_MAX_FRAME = 4_000_000
"""Characters of Base64 that the server accepts for one frame."""


def check_settings(config: DuplexConfig) -> None:
    """Raises UnsupportedContent with a setting that the server would ignore."""
    if config.ls_mode != "explicit":
        raise UnsupportedContent("vLLM-Omni has only the mode 'explicit'", "config.ls_mode")
    if config.max_slice_nums != 1:
        text = "vLLM-Omni chooses the slices of a picture itself: it must be 1"
        raise UnsupportedContent(text, "config.max_slice_nums")


def session_update(
    model: str, prompt: str, config: DuplexConfig | None = None, voice: Samples | None = None
) -> dict[str, Any]:
    """The message that opens a session. Audio is always asked for: without it, MiniCPM-o says nothing."""
    config = config or DuplexConfig()
    session: dict[str, Any] = {
        "model": model,
        "modalities": ["audio", "text"],
        "instructions": prompt,
        "input_audio_format": "pcm_f32le",
        "output_audio_format": "pcm16",
        "sample_rate_hz": INPUT_RATE,
        "audio": {
            "input": {"sample_rate_hz": INPUT_RATE},
            "output": {"sample_rate_hz": OUTPUT_RATE},
        },
        "turn_detection": None,
        "temperature": config.temperature,
        "max_output_tokens": config.max_new_speak_tokens_per_chunk,
        "extra_body": {
            "auto_response": True,
            "force_listen_count": config.force_listen_count,
        },
    }
    if voice is not None:
        session["ref_audio"] = wav_url(voice)
    return {"type": "session.update", "session": session}


def append(audio: Samples, frames: Sequence[bytes], *, force_listen: bool) -> dict[str, Any]:
    """One input. Of several frames the newest is sent: the server takes a second one as a collage."""
    message: dict[str, Any] = {
        "type": "input_audio_buffer.append",
        "audio": b64encode_as_string(float_bytes(audio)),
        "format": "pcm_f32le",
        "sample_rate_hz": INPUT_RATE,
        "force_listen": force_listen,
    }
    if frames:
        message["video_frames"] = [_frame(frames[-1])]
    return message


def chat_request(
    messages: Sequence[ConversationMessage],
    generation: GenerationConfig,
    voice: Samples | None,
    *,
    speaks: bool,
) -> dict[str, Any]:
    """A request of the chat completions, streamed, without the name of the model."""
    request: dict[str, Any] = {
        "messages": [_message(message) for message in messages],
        "modalities": ["text", "audio"] if speaks else ["text"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": generation.max_new_tokens,
        "temperature": generation.temperature,
        "top_p": generation.top_p,
    }
    if generation.top_k is not None:
        request["top_k"] = generation.top_k or -1
    if speaks:
        request["audio"] = {"format": "wav"}
        if voice is not None:
            request["ref_audio"] = wav_url(voice)
    return request


def chat_settings(options: ChatOptions) -> dict[str, Any]:
    """Raises UnsupportedContent with a setting that the server would ignore."""
    if (options.max_slice_nums or 1) != 1:
        text = "vLLM-Omni chooses the slices of a picture itself: leave it out"
        raise UnsupportedContent(text, "image.max_slice_nums")
    return {"chat_template_kwargs": {"enable_thinking": options.enable_thinking}}


def wav_url(samples: Samples) -> str:
    return f"data:audio/wav;base64,{_wav(samples)}"


def _wav(samples: Samples) -> str:
    file = io.BytesIO()
    soundfile.write(file, to_pcm16(samples), INPUT_RATE, format="WAV", subtype="PCM_16")
    return b64encode_as_string(file.getvalue())


def _message(message: ConversationMessage) -> dict[str, Any]:
    return {"role": str(message.role), "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart():
            return {
                "type": "input_audio",
                "input_audio": {"data": _wav(part.samples()), "format": "wav"},
            }
        case ImagePart(data):
            return picture_part(data, _PICTURES)
        case VideoPart(data):
            film = b64encode_as_string(data)
            return {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{film}"}}


def _frame(data: bytes) -> str:
    encoded = b64encode_as_string(upright(data, _PICTURES))
    if len(encoded) <= _MAX_FRAME:
        return encoded
    picture = read_picture(data)
    picture.thumbnail((1280, 1280))
    return b64encode_as_string(jpeg(picture))
