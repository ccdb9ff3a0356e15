"""Requests of OpenAI's HTTP API become those of a chat."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from antiphon.edge.media.decode import read_media
from antiphon.edge.media.voices import UploadedVoices, load_named_voice
from antiphon.edge.protocols.chat import decode_input
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.config import ChatOptions, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Role,
    TextPart,
    flatten,
)
from antiphon.shared_schemas.entries import (
    ChatIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import AudioItem, ImageItem, TextItem
from antiphon.shared_schemas.messages.openai import (
    STOCK_VOICES,
    CompletionRequest,
    NamedTool,
    RequestMessage,
    RequestPart,
    SpeechRequest,
    TranscriptionRequest,
    voice_name,
)
from antiphon.shared_schemas.voices import UPLOADED
from antiphon.shared_schemas.wire import MediaBytes

MOST_TOKENS = 4096
_LEAST_TOP_P = 1e-6
"""What 0 means in OpenAI's API: the most likely token. Engines know no 0."""

_IMAGE = re.compile(r"\bmessages\.\d+\.content\.\d+\.data\b")


ReadSound = Callable[[bytes, str], Awaitable[bytes]]
"""A sound file, and the name of its field, as 16-bit PCM at 16 kHz. Raises InvalidInput."""


def chosen_voice(asked: str, known: frozenset[str]) -> str:
    """A voice of OpenAI is the engine's default, unless an engine has one of this name."""
    return "" if asked in STOCK_VOICES - known else asked


async def decode_completion(
    request: CompletionRequest,
    voices: frozenset[str],
    settings: EdgeSettings,
    uploads: UploadedVoices,
    read_sound: ReadSound,
) -> ChatIn:
    """Raises InvalidInput with a field of OpenAI's API."""
    speaks = "audio" in (request.modalities or ())
    if speaks and request.audio is None:
        raise InvalidInput("audio: required for the modality `audio`", field="audio")
    if speaks and request.stream and request.audio and request.audio.format != "pcm16":
        text = "audio.format: a streamed answer is `pcm16`; other formats need `stream` false"
        raise InvalidInput(text, field="audio.format")
    sounds = await _sounds(request.messages, read_sound, settings.max_chat_bytes)
    messages = [
        _message(message, f"messages.{n}", sounds) for n, message in enumerate(request.messages)
    ]
    generation: dict[str, Any] = {
        "max_new_tokens": min(
            request.max_completion_tokens or request.max_tokens or MOST_TOKENS, MOST_TOKENS
        )
    }
    generation |= {
        name: value
        for name, value in (("temperature", request.temperature), ("top_p", request.top_p))
        if value is not None
    }
    if request.top_p == 0:
        generation["top_p"] = _LEAST_TOP_P
    tts: dict[str, Any] = {"enabled": speaks}
    if speaks and request.audio:
        voice = chosen_voice(voice_name(request.audio.voice), voices)
        tts["ref_audio_path" if voice.startswith(UPLOADED) else "voice"] = voice
    data = {
        "messages": messages,
        "generation": generation,
        "tts": tts,
        "tools": _offered_tools(request),
        "record": request.store is not False,
    }
    try:
        entry = await decode_input(data, None, settings, uploads, streaming=bool(request.stream))
    except InvalidInput as error:
        raise _renamed(error) from None
    must_call = request.tool_choice not in (None, "auto", "none")
    update = {"must_call": must_call, "needs_tools": must_call}
    return replace(entry, options=entry.options.model_copy(update=update))


def _offered_tools(request: CompletionRequest) -> list[dict[str, Any]] | None:
    """With a tool that must be called, only this one. Raises InvalidInput."""
    choice, tools = request.tool_choice, request.tools or []
    if choice == "required" and not tools:
        text = "tool_choice: `required` needs `tools`"
        raise InvalidInput(text, field="tool_choice")
    if isinstance(choice, NamedTool):
        name = choice.function.name
        tools = [tool for tool in tools if _function_name(tool) == name]
        if not tools:
            text = f"tool_choice.function.name: `tools` has no function {name!r}"
            raise InvalidInput(text, field="tool_choice.function.name")
    return None if choice == "none" else tools or None


def _function_name(tool: dict[str, Any]) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _renamed(error: InvalidInput) -> InvalidInput:
    """Names the field as OpenAI's API does. Of the media, only pictures and voices are checked so late."""
    field = error.field and _IMAGE.sub(lambda m: f"{m[0][:-4]}image_url.url", error.field)
    if field and field.startswith("tts."):
        field = "audio.voice"
    message = error.message.replace(error.field or "\0", field or "")
    return InvalidInput(message, field=field, code=error.code)


async def _sounds(
    asked: Sequence[RequestMessage], read_sound: ReadSound, most: int
) -> dict[str, bytes]:
    """The sound of each part that has some, by its place; together `most` bytes. Raises InvalidInput."""
    sounds, size = {}, 0
    for n, message in enumerate(asked):
        for m, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if part.type == "input_audio" and part.input_audio is not None:
                where = f"messages.{n}.content.{m}"
                field = f"{where}.input_audio.data"
                file = await asyncio.to_thread(read_media, part.input_audio.data, field)
                sounds[where] = sound = await read_sound(file.data, field)
                size += len(sound)
                if size > most:
                    text = (
                        f"{field}: with it, the sounds are {size} bytes of PCM, the limit is {most}"
                    )
                    raise InvalidInput(text, field=field, code=ErrorCode.MESSAGE_TOO_LARGE)
    return sounds


def _message(message: RequestMessage, where: str, sounds: Mapping[str, bytes]) -> dict[str, Any]:
    content: Any = message.content or _said(message, where)
    if isinstance(content, list):
        content = [_item(part, f"{where}.content.{n}", sounds) for n, part in enumerate(content)]
    return {
        "role": "system" if message.role == "developer" else message.role,
        "content": content,
        "tool_calls": message.tool_calls and [_with_arguments(call) for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
    }


def _said(message: RequestMessage, where: str) -> Any:
    """The content of a message without a text: of an answer that was spoken or refused."""
    if message.audio is not None:
        transcript = message.audio.get("transcript")
        if not isinstance(transcript, str):
            field = f"{where}.audio"
            text = f"{field}: spoken answers are not kept; send the transcript as `content`"
            raise InvalidInput(text, field=field)
        return transcript
    return message.content if message.refusal is None else message.refusal


def _with_arguments(call: dict[str, Any]) -> dict[str, Any]:
    """Models call a function without parameters with the arguments "" too."""
    function = call.get("function")
    if not isinstance(function, dict) or function.get("arguments") != "":
        return call
    return {**call, "function": {**function, "arguments": "{}"}}


def _item(part: RequestPart, where: str, sounds: Mapping[str, bytes]) -> Any:
    value = getattr(part, part.type)
    if value is None:
        raise InvalidInput(f"{where}.{part.type} is required", field=f"{where}.{part.type}")
    if part.image_url is not None and part.type == "image_url":
        url = part.image_url.url
        if isinstance(url, str) and url[:5].lower() != "data:":
            field = f"{where}.image_url.url"
            text = f"{field}: this server loads no addresses; send a data URL"
            raise InvalidInput(text, field=field)
        return ImageItem.model_construct(type="image", data=url)
    if part.type == "input_audio":
        media = MediaBytes(sounds[where], PcmFormat.S16)
        return AudioItem.model_construct(type="audio", data=media, sample_rate=16000)
    return TextItem(type="text", text=value)


async def decode_speech(
    request: SpeechRequest,
    voices: frozenset[str],
    settings: EdgeSettings,
    uploads: UploadedVoices,
) -> ChatIn:
    """Raises InvalidInput for an unknown voice."""
    voice, reference = chosen_voice(voice_name(request.voice), voices), b""
    if voice.startswith(UPLOADED):
        reference = await load_named_voice(settings, uploads, voice, "voice")
        voice = ""
    options = ChatOptions(
        task="read_aloud", streaming=True, tts=TtsConfig(enabled=True, voice=voice)
    )
    return replace(_made(TextPart(request.input), options), ref_audio=reference)


def decode_transcription(request: TranscriptionRequest, sound: bytes) -> ChatIn:
    language = request.language.lower().partition("-")[0]
    options = ChatOptions(task="transcribe", streaming=False, language=language)
    return _made(AudioPart(sound, PcmFormat.S16), options)


def _made(part: TextPart | AudioPart, options: ChatOptions) -> ChatIn:
    content, blobs = flatten([ConversationMessage(Role.USER, (part,))])
    return ChatIn(content=content, blobs=blobs, options=options)
