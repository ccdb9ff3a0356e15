"""`/ws/chat` and `POST /api/chat`: decoding of a request, its state machine, and what it answers."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from antiphon.edge.errors import Close, Fault, end_reason, worker_error
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader, decode_frame, read_audio, read_image, read_video
from antiphon.edge.media.voices import UploadedVoices, decode_voice, load_named_voice
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    Finish,
    Phase,
    QueuePlace,
    Send,
    SessionMachine,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    ToolCall,
    VideoPart,
    flatten,
)
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    InEntry,
    OutEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import (
    AudioItem,
    ChatChunk,
    ChatDone,
    ChatGeneration,
    ChatImage,
    ChatRequest,
    ChatTts,
    ContentItem,
    ImageItem,
    PrefillDone,
    PrefillProgress,
    TextItem,
    UnstreamedChatDone,
    parse_chat_request,
)
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import Payload, QueueDone, ServerMessage

_BYTES_PER_MS = 4 * INPUT_RATE // 1000

LEGAL: dict[Phase, frozenset[type[StopIn]]] = {
    Phase.QUEUED: frozenset({StopIn}),
    Phase.ACTIVE: frozenset({StopIn}),
    Phase.STOPPING: frozenset(),
    Phase.OVER: frozenset(),
}

PHASE_TEXT = {
    Phase.QUEUED: "queued",
    Phase.ACTIVE: "being answered",
    Phase.STOPPING: "being stopped",
    Phase.OVER: "over",
}


async def decode_request(
    frame: ClientFrame,
    settings: EdgeSettings,
    uploads: UploadedVoices,
    *,
    streaming: bool | None = None,
) -> ChatIn:
    """The first frame of a WebSocket, or the body of an HTTP request. Raises InvalidInput or NotJson.

    `streaming` overrides what the request says.
    """
    data, payload = await asyncio.to_thread(decode_frame, frame, settings.max_chat_bytes)
    return await decode_input(data, payload, settings, uploads, streaming=streaming)


async def decode_input(
    data: object,
    payload: Payload | None,
    settings: EdgeSettings,
    uploads: UploadedVoices,
    *,
    streaming: bool | None = None,
) -> ChatIn:
    """The JSON value of a request. Raises InvalidInput."""
    request, tts = await asyncio.to_thread(_decode, data, payload, settings, streaming=streaming)
    return replace(request, ref_audio=await _voice(tts, settings, uploads))


class ChatDecoder:
    """Decodes what follows the request: only `stop` is legal."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> StopIn:
        """The command in one frame. Raises InvalidInput or NotJson."""
        data, _ = self._reader.read_frame(frame)
        if isinstance(data, dict) and data.get("type") == "stop":
            return StopIn()
        self._reader.budget.charge_message()
        text = "one request per connection; only {type: stop} may follow it"
        raise InvalidInput(text, field="type", code=ErrorCode.UNKNOWN_TYPE)


def _decode(
    data: object, payload: Payload | None, settings: EdgeSettings, *, streaming: bool | None
) -> tuple[ChatIn, ChatTts]:
    request = parse_chat_request(data, payload)
    messages = [
        ConversationMessage(
            Role(message.role),
            tuple(
                _part(item, f"messages.{number}.content.{index}", settings)
                for index, item in enumerate(message.content or ())
            ),
            tuple(ToolCall.of_wire(call.model_dump()) for call in message.tool_calls or ()),
            message.tool_call_id or "",
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
        tts=TtsConfig(enabled=tts.enabled, voice=tts.voice),
        max_slice_nums=(request.image or ChatImage()).max_slice_nums,
        omni_mode=request.omni_mode,
        enable_thinking=request.enable_thinking,
        time_zone=request.time_zone,
        record=request.record,
        use_tts_template=request.use_tts_template or tts.enabled,
        tools=request.tool_definitions(),
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
        audio = read_audio(item.data, field, limits.max_chat_audio_s)
        return AudioPart(audio.data, audio.pcm)
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


class ChatMachine(SessionMachine[StopIn]):
    """One request and its answer.

    The client receives queue messages only if it waits, or if it needs a token to resume.
    """

    LEGAL: ClassVar = LEGAL
    LEADS_TO: ClassVar = {StopIn: Phase.STOPPING, BreakIn: Phase.STOPPING}
    WIRE_NAMES: ClassVar = {StopIn: "stop"}
    PHASE_TEXT: ClassVar = PHASE_TEXT
    SUBJECT: ClassVar = "request"

    def __init__(self, recording: str, *, resumable: bool = False) -> None:
        super().__init__()
        self._streaming = True
        self._recording = recording
        self._resumable = resumable
        self._queue_sent = False

    def apply_input(self, entry: InEntry) -> None:
        super().apply_input(entry)
        if isinstance(entry, ChatIn):
            self._streaming = entry.options.streaming

    def _handle(self, command: StopIn) -> list[Action]:
        if self.phase is Phase.QUEUED:
            empty = ChatDoneOut(
                text="",
                generated_tokens=0,
                input_tokens=0,
                duration_ms=0.0,
                streaming=self._streaming,
                stopped=True,
            )
            return self._done(empty)
        return self._forward(command)

    def placed(self, place: QueuePlace) -> Sequence[Action]:
        self._queue_sent = True
        return super().placed(place)

    def granted(self) -> Actions:
        self.phase = Phase.ACTIVE
        return self._grant_messages()

    def _grant_messages(self) -> list[Action]:
        return [Send(QueueDone())] if self._queue_sent or self._resumable else []

    def commanded(self, command: SessionCommand) -> list[Action]:
        interrupts = command is SessionCommand.INTERRUPT and self.phase is Phase.ACTIVE
        return self._forward(BreakIn()) if interrupts else []

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002 - unused here
        match entry:
            case DeltaOut():
                return self._delta(entry)
            case ProgressOut(done=done):
                return [Send(PrefillProgress(done=done))]
            case PrefillDoneOut(input_tokens=input_tokens):
                return [Send(PrefillDone(input_tokens=input_tokens))]
            case ChatDoneOut():
                return self._done(entry)
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a chat")

    def _delta(self, entry: DeltaOut) -> list[Action]:
        if not (entry.text_delta or entry.audio):
            return []
        return [
            Send(ChatChunk(text_delta=entry.text_delta or None, audio_data=entry.audio or None))
        ]

    def _done(self, entry: ChatDoneOut) -> list[Action]:
        return self._finish(self._answer(entry), Close.NORMAL, EndReason.STOPPED)

    def _answer(self, entry: ChatDoneOut) -> ServerMessage:
        unstreamed = partial(UnstreamedChatDone, audio_data=entry.audio or None)
        kind: Callable[..., ChatDone] = ChatDone if entry.streaming else unstreamed
        return kind(
            text=entry.text,
            generated_tokens=entry.generated_tokens,
            input_tokens=entry.input_tokens,
            recording_session_id=self._recording,
            stopped=entry.stopped or None,
            tool_calls=entry.tool_calls or None,
        )

    def _failed(self, entry: ErrorOut) -> list[Action]:
        self.phase = Phase.OVER
        fault, reason = explain_failure(entry)
        messages = [Send(message) for message in self._error_messages(fault)]
        return [*messages, Finish(fault.close or Close.INTERNAL, reason)]


def explain_failure(entry: ErrorOut) -> tuple[Fault, EndReason]:
    """What a worker's error means for the client of a chat, and why its session ends."""
    refused = entry.code in (ErrorCode.CONTEXT_FULL, ErrorCode.INVALID_FIELD)
    fault = Fault(worker_error(entry), Close.POLICY if refused else Close.INTERNAL)
    return fault, end_reason(entry)
