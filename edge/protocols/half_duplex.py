"""`/ws/half_duplex`: decoding of its messages, the table of legal commands, and what it sends."""

from typing import ClassVar

from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    ConversationMachine,
    Forward,
    Phase,
    Send,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import with_consent
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Part,
    Role,
    TextPart,
    flatten,
)
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InEntry,
    InterruptedOut,
    OutEntry,
    PreparedOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT, Stop
from antiphon.shared_schemas.messages.half_duplex import (
    Generating,
    HalfDuplexAudioChunk,
    HalfDuplexPrepare,
    HalfDuplexPrepared,
    HalfDuplexTimeout,
    Interrupted,
    SystemItem,
    SystemText,
    TurnChunk,
    TurnDone,
    VadState,
    parse_half_duplex_message,
)
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import user_transcript
from antiphon.shared_schemas.wire import Media

HalfDuplexCommand = HalfDuplexPrepareIn | ChunkIn | StopIn

WIRE_NAMES: dict[type[HalfDuplexCommand], str] = {
    HalfDuplexPrepareIn: "prepare",
    ChunkIn: "audio_chunk",
    StopIn: "stop",
}

LEGAL: dict[Phase, frozenset[type[HalfDuplexCommand]]] = {
    Phase.QUEUED: frozenset({HalfDuplexPrepareIn, StopIn}),
    Phase.QUEUED_PREPARED: frozenset({StopIn}),
    Phase.ASSIGNED: frozenset({HalfDuplexPrepareIn, StopIn}),
    Phase.PREPARING: frozenset({StopIn}),
    Phase.ACTIVE: frozenset({ChunkIn, StopIn}),
    Phase.STOPPING: frozenset(),
    Phase.OVER: frozenset(),
}


class HalfDuplexDecoder:
    """Decodes the frames of one client."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> HalfDuplexCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        message = parse_half_duplex_message(*self._reader.read_frame(frame))
        if isinstance(message, Stop):
            return StopIn()
        match message:
            case HalfDuplexAudioChunk():
                return self._reader.read_chunk(message.audio_base64, "audio_base64")
            case HalfDuplexPrepare():
                self._reader.budget.charge_message()
                return await self._prepare(message)

    async def _prepare(self, message: HalfDuplexPrepare) -> HalfDuplexPrepareIn:
        """An empty list of parts, as a page with an empty editor sends it, counts as none."""
        parts = await self._parts(message.system_content or [])
        if not parts:
            prompt = (
                DEFAULT_SYSTEM_PROMPT if message.system_prompt is None else message.system_prompt
            )
            parts = (TextPart(prompt),)
        content, blobs = flatten([ConversationMessage(Role.SYSTEM, parts)])
        voice = await self._voice(message.ref_audio_base64, "ref_audio_base64")
        config = with_consent(message.config, given=message.record)
        return HalfDuplexPrepareIn(
            content=content, blobs=blobs, config=config, ref_audio=voice or _first_audio(parts)
        )

    async def _parts(self, items: list[SystemItem]) -> tuple[Part, ...]:
        parts: list[Part] = []
        for index, item in enumerate(items):
            if isinstance(item, SystemText):
                if item.text:
                    parts.append(TextPart(item.text))
            elif item.data:
                field = f"system_content.{index}.data"
                parts.append(AudioPart(await self._voice(item.data, field)))
        return tuple(parts)

    async def _voice(self, sent: Media | None, field: str) -> bytes:
        return await decode_voice(sent, field, self._settings.max_reference_s)


def _first_audio(parts: tuple[Part, ...]) -> bytes:
    """The first voice of the prompt is the default for the answers."""
    return next((part.data for part in parts if isinstance(part, AudioPart)), b"")


class HalfDuplexMachine(ConversationMachine[HalfDuplexCommand]):
    """A session in which turns of the user and of the model alternate."""

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES

    def __init__(self, sid: str, recording: str, *, transcript: bool = False) -> None:
        """`transcript`: `turn_done` includes what the engine understood of the user.

        It does so too in a session that asks for interim transcripts.
        """
        super().__init__(sid, recording)
        self._transcript = transcript
        self._timeout_s = 0.0

    def _handle(self, command: HalfDuplexCommand) -> list[Action]:
        match command:
            case ChunkIn() | HalfDuplexPrepareIn():
                return self._forward(command)
            case StopIn():
                return self._stop(command)

    def apply_input(self, entry: InEntry) -> None:
        super().apply_input(entry)
        if isinstance(entry, HalfDuplexPrepareIn):
            self._timeout_s = entry.config.session.timeout_s
            self._transcript |= entry.config.interim_transcripts

    def commanded(self, command: SessionCommand) -> list[Action]:
        interrupts = command is SessionCommand.INTERRUPT and self.phase is Phase.ACTIVE
        return [Forward(BreakIn())] if interrupts else []

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002 - unused here
        match entry:
            case DeltaOut(text_delta=text, audio=audio):
                return [Send(TurnChunk(text_delta=text, audio_data=audio))] if text or audio else []
            case VadOut(speaking=speaking, interim_user_text=interim):
                return [Send(VadState(speaking=speaking, interim_user_text=interim))]
            case GeneratingOut(speech_duration_ms=duration):
                return [Send(Generating(speech_duration_ms=duration))]
            case TurnDoneOut(turn_index=index, text=text):
                user_text = user_transcript(entry) if self._transcript else None
                goodbye = entry.memo.get("goodbye")
                done = TurnDone(turn_index=index, text=text, user_text=user_text, goodbye=goodbye)
                return [Send(done)]
            case InterruptedOut(turn_index=index, played_ms=played_ms, text=text):
                return [Send(Interrupted(turn_index=index, played_ms=played_ms, text=text))]
            case PreparedOut(prompt_length=length):
                return self._prepared(self._prepared_message(length))
            case StoppedOut():
                return self._stopped()
            case TimeoutOut(reason=reason, elapsed_s=elapsed_s):
                return self._without_audio(
                    self._timeout_s if elapsed_s is None else elapsed_s, reason
                )
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a half-duplex session")

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is EndReason.PAUSE_TIMEOUT:
            return self._without_audio(self._timeout_s, "no audio")
        return super().ended(reason)

    def _without_audio(self, elapsed_s: float, reason: str) -> list[Action]:
        return self._timed_out(HalfDuplexTimeout(elapsed_s=round(elapsed_s, 1), reason=reason))

    def _prepared_message(self, prompt_length: int) -> HalfDuplexPrepared:
        return HalfDuplexPrepared(
            session_id=self._sid,
            timeout_s=self._timeout_s,
            recording_session_id=self._recording,
            prompt_length=prompt_length,
        )
