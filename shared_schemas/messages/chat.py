"""Both directions of `/ws/chat` and `POST /api/chat`: one request with its history, one answer."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, FailFast, Field, ValidationError

from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.config import GenerationConfig, TimeZone, VoiceName
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, from_validation
from antiphon.shared_schemas.long_bytes import LongText
from antiphon.shared_schemas.tools import (
    MAX_CALLS,
    MAX_TOOL_BYTES,
    MAX_TOOLS,
    ToolCallMessage,
    ToolDefinition,
)
from antiphon.shared_schemas.wire import (
    ClientMessage,
    Error,
    Media,
    Payload,
    Queued,
    QueueDone,
    QueueUpdate,
    ServerMessage,
)

MAX_MESSAGES = 1000
MAX_PARTS = 1000
MAX_TEXT_CHARS = 1024 * 1024
"""Of all messages of a request together: many times the longest context."""


class TextItem(ClientMessage):
    """Text."""

    type: Literal["text"]
    text: str


class AudioItem(ClientMessage):
    """Base64 of float32 PCM, mono, 16 kHz."""

    type: Literal["audio"]
    data: Media
    sample_rate: Literal[16000] = 16000


class ImageItem(ClientMessage):
    """Base64 of a JPEG, PNG or WebP file."""

    type: Literal["image"]
    data: Media


class VideoItem(ClientMessage):
    """Base64 of an MP4, MOV or WebM file; `stack_frames` frames are taken for each second."""

    type: Literal["video"]
    data: Media
    stack_frames: int = Field(default=1, ge=1, le=8)


ContentItem = Annotated[TextItem | AudioItem | ImageItem | VideoItem, Field(discriminator="type")]


def _as_list(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str | LongText) else content


class ChatMessage(ClientMessage):
    """One message of the history. `content` is text, or a list of parts.

    It may be missing or null in an assistant's message with `tool_calls`. A message of the role `tool`
    is the result of the earlier call with the id `tool_call_id`; its content is text.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[
        list[ContentItem] | None, Field(max_length=MAX_PARTS), FailFast(), BeforeValidator(_as_list)
    ] = None
    tool_calls: Annotated[list[ToolCallMessage], Field(max_length=MAX_CALLS)] | None = None
    tool_call_id: str | None = None


class ChatGeneration(GenerationConfig):
    """How the answer is generated; `do_sample: false` selects the most likely token."""

    do_sample: bool = True


class ChatImage(ClientMessage):
    """Image options."""

    max_slice_nums: int | None = Field(default=None, ge=1, le=9)


class ChatTts(ClientMessage):
    """Whether and with which voice the answer is spoken; `default` ignores the reference.

    `voice` is one of the engine's voices, as `/api/capabilities` lists them.

    `ref_audio_data` is base64 float32 PCM at 16 kHz or a WAV; `ref_audio_path` is a voice of the
    server.
    """

    enabled: bool = False
    voice: VoiceName = ""
    mode: Literal["default", "audio_assistant", "omni", "audio_roleplay", "voice_cloning"] = (
        "audio_assistant"
    )
    ref_audio_data: Media | None = None
    ref_audio_path: str | None = None
    ref_audio_max_ms: int | None = Field(default=None, ge=1000)


class ChatRequest(ClientMessage):
    """A chat request. `streaming` applies to the WebSocket only."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES), FailFast()]
    streaming: bool = True
    generation: ChatGeneration | None = None
    image: ChatImage | None = None
    tts: ChatTts | None = None
    use_tts_template: bool = False
    omni_mode: bool = False
    enable_thinking: bool = False
    time_zone: TimeZone = ""
    record: bool = True
    tools: Annotated[list[ToolDefinition], Field(max_length=MAX_TOOLS)] | None = None

    def tool_definitions(self) -> list[dict[str, Any]]:
        """As the client sent them, without unknown fields."""
        return [tool.model_dump(exclude_unset=True) for tool in self.tools or ()]


def parse_chat_request(data: object, payload: Payload | None = None) -> ChatRequest:
    """Check one decoded JSON value. Raises InvalidInput naming the field and the remedy."""
    if not isinstance(data, dict):
        raise InvalidInput("request: must be a JSON object with `messages`", field="messages")
    try:
        request = ChatRequest.model_validate(data, context=payload)
    except ValidationError as error:
        raise from_validation(error) from None
    _check_messages(request.messages)
    _check_tools(request)
    return request


def _check_messages(messages: list[ChatMessage]) -> None:
    called: set[str] = set()
    chars = 0
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        _check_message(message, where, called)
        called.update(call.id for call in message.tool_calls or ())
        chars += _text_chars(message)
        if chars > MAX_TEXT_CHARS:
            text = f"{where}: {chars} characters of text up to here, the limit is {MAX_TEXT_CHARS}"
            raise InvalidInput(text, field=where, code=ErrorCode.MESSAGE_TOO_LARGE)


def _text_chars(message: ChatMessage) -> int:
    texts = (len(item.text) for item in message.content or () if isinstance(item, TextItem))
    calls = (len(call.id) + len(call.function.arguments) for call in message.tool_calls or ())
    return sum(texts) + sum(calls) + len(message.tool_call_id or "")


def _check_message(message: ChatMessage, where: str, called: set[str]) -> None:
    if message.content is None and not message.tool_calls:
        field = f"{where}.content"
        raise InvalidInput(f"{field} is required", field=field, code=ErrorCode.MISSING_FIELD)
    if message.tool_calls and message.role != "assistant":
        field = f"{where}.tool_calls"
        raise InvalidInput(f"{field}: only a message of the assistant has calls", field=field)
    if message.role == "tool":
        _check_tool_result(message, where, called)
    elif message.tool_call_id is not None:
        field = f"{where}.tool_call_id"
        raise InvalidInput(f"{field}: only a message of the role `tool` has it", field=field)


def _check_tool_result(message: ChatMessage, where: str, called: set[str]) -> None:
    field = f"{where}.tool_call_id"
    if message.tool_call_id is None:
        raise InvalidInput(f"{field} is required", field=field, code=ErrorCode.MISSING_FIELD)
    if message.tool_call_id not in called:
        text = (
            f"{field}: no earlier message has a call with this id; send the assistant's message too"
        )
        raise InvalidInput(text, field=field)
    for index, item in enumerate(message.content or ()):
        if not isinstance(item, TextItem):
            field = f"{where}.content.{index}"
            raise InvalidInput(f"{field}: the result of a tool must be text", field=field)


def _check_tools(request: ChatRequest) -> None:
    names: set[str] = set()
    for number, tool in enumerate(request.tools or ()):
        if tool.function.name in names:
            field = f"tools.{number}.function.name"
            raise InvalidInput(f"{field}: an earlier tool has this name", field=field)
        names.add(tool.function.name)
    size = len(orjson.dumps(request.tool_definitions()))
    if size > MAX_TOOL_BYTES:
        text = f"tools: {size} bytes of JSON, at most {MAX_TOOL_BYTES}; send fewer or shorter ones"
        raise InvalidInput(text, field="tools")


class PrefillProgress(ServerMessage, type="progress"):
    """The share of the request, 0 to 1, that has been processed; only for clients that asked."""

    done: float


class PrefillDone(ServerMessage, type="prefill_done"):
    """The request has been processed."""

    input_tokens: int


class ChatChunk(ServerMessage, type="chunk"):
    """A part of the answer; float32 PCM at 24 kHz. None-valued fields are not sent."""

    text_delta: str | None = None
    audio_data: bytes | None = None


class ChatDone(ServerMessage, type="done"):
    """The streamed answer is complete. `stopped` is sent when the client interrupted it.

    `tool_calls` are sent when the model calls tools: `id`, `type` and `function` of each.
    """

    text: str
    generated_tokens: int
    input_tokens: int
    recording_session_id: str
    stopped: bool | None = None
    tool_calls: list[dict[str, Any]] | None = None


class UnstreamedChatDone(ChatDone):
    """The whole answer, not streamed; `audio_data` is null if it was not spoken."""

    audio_data: bytes | None


ChatServerMessage = (
    Queued
    | QueueUpdate
    | QueueDone
    | PrefillProgress
    | PrefillDone
    | ChatChunk
    | ChatDone
    | UnstreamedChatDone
    | Error
)


class TokenStats(BaseModel):
    """Tokens of one chat request."""

    cached_tokens: int = 0
    input_tokens: int
    generated_tokens: int
    total_tokens: int


class ChatResponse(BaseModel):
    """The response of `POST /api/chat`."""

    text: str
    audio_path: str | None = Field(
        default=None, description="always null: nothing is stored by path"
    )
    audio_data: str | None = Field(default=None, description="base64 float32 PCM at 24 kHz")
    audio_sample_rate: int = OUTPUT_RATE
    tokens_generated: int
    duration_ms: float
    prompt: str | None = None
    token_stats: TokenStats
    recording_session_id: str
    tool_calls: list[dict[str, Any]] | None = Field(
        default=None,
        description="`id`, `type` and `function` of each call; missing if there are none",
    )
    error: str | None = None
    success: bool = True
    queue_wait_ms: int
    estimated_queue_wait_s: float | None = Field(
        description="null if no worker could take the request at first"
    )


class ChatProblem(BaseModel):
    """The error response of `POST /api/chat`; `error`, `message` and `detail` are the same text."""

    success: bool = False
    text: str = ""
    error: str
    message: str
    detail: str
    code: str
    field: str | None = None
    retryable: bool | None = None
