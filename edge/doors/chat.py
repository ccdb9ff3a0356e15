"""The door of `/ws/chat` and `POST /api/chat`: a whole request at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from antiphon.edge.doors.frames import check_size, load_json, open_frame
from antiphon.edge.doors.intake import Intake
from antiphon.edge.media.decode import read_audio, read_image, read_video
from antiphon.edge.media.voices import (
    UploadedVoices,
    decode_voice,
    load_named_voice,
    no_uploaded_voices,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.chat_messages import (
    AudioItem,
    ChatGeneration,
    ChatImage,
    ChatRequest,
    ChatTts,
    ContentItem,
    ImageItem,
    TextItem,
    parse_chat_request,
)
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
    flatten,
)
from antiphon.shared_schemas.entries import ChatIn, StopIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.media import Payload

_BYTES_PER_MS = 4 * INPUT_RATE // 1000


async def read_request(
    frame: str | bytes, settings: EdgeSettings, uploads: UploadedVoices = no_uploaded_voices
) -> ChatIn:
    """A WebSocket's first frame. Raises InvalidInput or NotJson."""
    request, tts = await asyncio.to_thread(
        lambda: _request(*open_frame(frame, settings.max_chat_bytes), settings, streaming=None)
    )
    return replace(request, ref_audio=await _voice(tts, settings, uploads))


async def read_body(
    body: bytes, settings: EdgeSettings, uploads: UploadedVoices = no_uploaded_voices
) -> ChatIn:
    """An HTTP body; its answer comes in one piece. Raises InvalidInput or NotJson."""
    check_size(len(body), settings.max_chat_bytes)
    request, tts = await asyncio.to_thread(
        lambda: _request(load_json(body), None, settings, streaming=False)
    )
    return replace(request, ref_audio=await _voice(tts, settings, uploads))


class ChatDoor:
    """Reads what follows the request: nothing but a `stop` makes sense."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._intake = Intake(settings)

    async def read(self, frame: str | bytes) -> StopIn:
        """The command in one frame. Raises InvalidInput or NotJson."""
        data, _ = self._intake.open(frame)
        if isinstance(data, dict) and data.get("type") == "stop":
            return StopIn()
        self._intake.message()
        text = "one request per connection; only {type: stop} may follow it"
        raise InvalidInput(text, field="type", code=ErrorCode.UNKNOWN_TYPE)


def _request(
    data: object, payload: Payload | None, settings: EdgeSettings, *, streaming: bool | None
) -> tuple[ChatIn, ChatTts]:
    request = parse_chat_request(data, payload)
    messages = [
        ConversationMessage(
            Role(message.role),
            tuple(
                _part(item, f"messages.{number}.content.{index}", settings)
                for index, item in enumerate(message.content)
            ),
        )
        for number, message in enumerate(request.messages)
    ]
    content, blobs = flatten(messages)
    tts = request.tts or ChatTts()
    entry = ChatIn(
        content=content,
        blobs=blobs,
        options=_options(request, tts, request.streaming if streaming is None else streaming),
    )
    return entry, tts


def _options(request: ChatRequest, tts: ChatTts, streaming: bool) -> ChatOptions:
    return ChatOptions(
        streaming=streaming,
        generation=_generation(request.generation or ChatGeneration()),
        tts=TtsConfig(enabled=tts.enabled),
        max_slice_nums=(request.image or ChatImage()).max_slice_nums,
        omni_mode=request.omni_mode,
        enable_thinking=request.enable_thinking,
        record=request.record,
        use_tts_template=request.use_tts_template or tts.enabled,
    )


def _generation(asked: ChatGeneration) -> GenerationConfig:
    values = asked.model_dump(exclude={"do_sample"})
    if not asked.do_sample:
        values["temperature"] = 0.0
    return GenerationConfig(**values)


def _part(item: ContentItem, field: str, limits: EdgeSettings) -> Part:
    if isinstance(item, TextItem):
        return TextPart(item.text)
    field = f"{field}.data"
    if isinstance(item, AudioItem):
        sound = read_audio(item.data, field, limits.max_chat_audio_s)
        return AudioPart(sound.data, sound.pcm)
    if isinstance(item, ImageItem):
        size, pixels = limits.max_image_bytes, limits.max_frame_pixels
        return ImagePart(read_image(item.data, field, max_bytes=size, max_pixels=pixels))
    video = read_video(item.data, field, limits.max_video_bytes)
    return VideoPart(video, item.stack_frames)


async def _voice(tts: ChatTts, limits: EdgeSettings, uploads: UploadedVoices) -> bytes:
    if not tts.enabled or tts.mode == "default":
        return b""
    if tts.ref_audio_data:
        data, longest = tts.ref_audio_data, limits.max_reference_s
        voice = await decode_voice(data, "tts.ref_audio_data", longest)
    elif tts.ref_audio_path:
        voice = await load_named_voice(limits, uploads, tts.ref_audio_path, "tts.ref_audio_path")
    else:
        return b""
    return voice[: tts.ref_audio_max_ms * _BYTES_PER_MS] if tts.ref_audio_max_ms else voice
