"""`/twilio/media`: a telephone call over Twilio Media Streams, as a full-duplex session."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import structlog
from pydantic import ValidationError

from antiphon.edge.errors import Close, Fault
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.media.decode import InputReader, read_media
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    Finish,
    Forward,
    Phase,
    Send,
)
from antiphon.edge.protocols.sound_stream import Sound, SoundStreamMachine
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    DiagnosticIn,
    ErrorOut,
    OutEntry,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    TextAddedOut,
    TextIn,
    TextKind,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import InvalidInput, from_validation
from antiphon.shared_schemas.messages import twilio as wire
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage

log = structlog.get_logger()

_MAX_PROMPT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Connected:
    """Says nothing that `start` does not say."""


@dataclass(frozen=True, slots=True)
class PhoneCall:
    """The beginning of a call."""

    prepare: PrepareIn
    stream: str


@dataclass(frozen=True, slots=True)
class PlayedMark:
    """Sound up to this mark was played, or cleared."""

    name: str


@dataclass(frozen=True, slots=True)
class PressedKey:
    """The caller pressed a key."""

    digit: str


PhoneCommand = Connected | PhoneCall | Sound | PlayedMark | PressedKey | StopIn

WIRE_NAMES: dict[type[PhoneCommand], str] = {
    Connected: "connected",
    PhoneCall: "start",
    Sound: "media",
    PlayedMark: "mark",
    PressedKey: "dtmf",
    StopIn: "stop",
}

_ALWAYS = frozenset({Connected, Sound, PlayedMark, PressedKey, StopIn})
"""Twilio sends sound from the first moment; what comes before a worker is ready is dropped."""

LEGAL: dict[Phase, frozenset[type[PhoneCommand]]] = {
    Phase.QUEUED: _ALWAYS | {PhoneCall},
    Phase.QUEUED_PREPARED: _ALWAYS,
    Phase.ASSIGNED: _ALWAYS | {PhoneCall},
    Phase.PREPARING: _ALWAYS,
    Phase.ACTIVE: _ALWAYS,
    Phase.STOPPING: _ALWAYS,
    Phase.OVER: frozenset(),
}

_CALLED = (Phase.ACTIVE, Phase.STOPPING)


class TwilioDecoder:
    """Decodes the frames of one call."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> PhoneCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        data, _ = self._reader.read_frame(frame)
        message = wire.parse_twilio_message(data)
        if isinstance(message, wire.TwilioMedia):
            sound = read_media(message.media.payload, "media.payload").data
            if message.media.track != "inbound":
                return Sound(b"")  # what the caller hears
            seconds = len(sound) / AudioFormat.PCMU.rate
            self._reader.charge_sound(seconds, "media.payload")
            return Sound(sound)
        self._reader.budget.charge_message()
        match message:
            case wire.TwilioConnected():
                return Connected()
            case wire.TwilioStart(start=stream):
                return PhoneCall(read_parameters(stream.parameters), stream.sid)
            case wire.TwilioMark(mark=mark):
                return PlayedMark(mark.name)
            case wire.TwilioDtmf(dtmf=key):
                return PressedKey(key.digit)
            case wire.TwilioStop():
                return StopIn()


def read_parameters(given: Mapping[str, str]) -> PrepareIn:
    """The settings of a call, from the parameters of its TwiML. Raises InvalidInput."""
    prompt = given.get("instructions", "").strip() or DEFAULT_SYSTEM_PROMPT
    if len(prompt) > _MAX_PROMPT_CHARS:
        text = f"instructions: longer than {_MAX_PROMPT_CHARS} characters"
        raise InvalidInput(text, field="instructions")
    names = ("voice", "greeting", "time_zone")
    stated: dict[str, Any] = {name: given[name] for name in names if name in given}
    stated |= {"end_on_goodbye": True, "record": given.get("record", "true") != "false"}
    try:
        config = DuplexConfig.model_validate(stated)
    except ValidationError as error:
        raise from_validation(error) from None
    return PrepareIn(system_prompt=prompt, config=config)


class TwilioMachine(SoundStreamMachine[PhoneCommand]):
    """One call. Twilio knows no errors: a call that cannot begin ends, and its TwiML continues.

    Each piece of an answer is followed by a mark, so the engine learns how much of it was played.
    """

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, AudioFormat.PCMU)
        self._stream = ""
        self._turn = 0
        self._turn_open = False
        self._sent_ms = 0.0
        self._marks: dict[str, float] = {}
        """Of the current answer, the marks that were not returned yet: milliseconds before each."""
        self._last_mark = ""
        """The call ends when this one is returned."""

    def _handle(self, command: PhoneCommand) -> list[Action]:
        if isinstance(command, PhoneCall):
            self._stream = command.stream
            return self._forward(command.prepare)
        if isinstance(command, StopIn):
            if self.waiting:
                return self._over(Close.NORMAL, EndReason.STOPPED)
            return [] if self.phase is Phase.STOPPING else self._forward(command)
        if self.phase is not Phase.ACTIVE:
            return []
        self._buffer.touch()
        match command:
            case Sound(data=data):
                return self._add_sound(data)
            case PlayedMark(name=name):
                return self._played(name)
            case PressedKey(digit=digit):
                said = TextIn(kind=TextKind.THINKING, text=f"The caller pressed the key {digit}.")
                return [Forward(DiagnosticIn(metrics={"dtmf": digit})), Forward(said)]
            case Connected():
                return []

    def _played(self, name: str) -> list[Action]:
        """A mark that `clear` has returned is unknown by then."""
        played_ms = self._marks.pop(name, None)
        if played_ms is None:
            return []
        if name == self._last_mark:
            return self._forward(StopIn())
        return [Forward(PlaybackIn(played_ms=played_ms))]

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002
        match entry:
            case ResultOut():
                return self._result(entry)
            case PreparedOut(chunk_ms=chunk_ms):
                if self.phase is Phase.PREPARING:
                    self.phase = Phase.ACTIVE
                    self._buffer.begin(AudioFormat.PCMU, chunk_ms)
                return []
            case TextAddedOut():
                return []
            case StoppedOut():
                return self._over(Close.NORMAL, EndReason.STOPPED)
            case TimeoutOut():
                return self._over(Close.NORMAL, EndReason.PAUSE_TIMEOUT)
            case ErrorOut(fatal=fatal):
                begun = self.phase in _CALLED
                return [] if begun and not fatal else self._over(Close.INTERNAL, EndReason.ERROR)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a call")

    def _result(self, entry: ResultOut) -> list[Action]:
        if entry.is_listen:
            self._turn_open = False
            return self._clear() if entry.interrupted else []
        if not self._turn_open:
            self._turn += 1
            self._sent_ms = 0.0
            self._marks.clear()
        self._turn_open = not entry.end_of_turn
        samples = samples_from_bytes(entry.audio, PcmFormat.F32)
        if not len(samples):
            return []
        self._sent_ms += len(samples) * 1000 / OUTPUT_RATE
        name = f"{self._turn}-{round(self._sent_ms)}"
        self._marks[name] = self._sent_ms
        if entry.memo.get("goodbye"):
            self._last_mark = name
        media = wire.PlayMedia(
            stream=self._stream, media=wire.PlaySound(self._encoder.encode(samples))
        )
        return [
            Send(media),
            Send(wire.PlayMark(stream=self._stream, mark=wire.MarkName(name))),
        ]

    def _clear(self) -> list[Action]:
        """The user interrupted: drop what was sent and is not played yet, if anything."""
        self._marks.clear()
        return [Send(wire.ClearMedia(stream=self._stream))]

    def ended(self, reason: EndReason | None) -> Actions:
        return self._over(Close.NORMAL, reason or EndReason.ERROR)

    def report(self, fault: Fault) -> Actions:
        """Twilio cannot show an error. A call that has not begun would stay silent for ever."""
        log.info("call_input_refused", code=fault.message.code, error=fault.message.message)
        begun = self.phase in _CALLED
        return [] if begun or fault.close else self._over(Close.POLICY, EndReason.ERROR)

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_twilio_error(fault)

    def _over(self, close: Close, reason: EndReason) -> list[Action]:
        self.phase = Phase.OVER
        return [Finish(close, reason)]


def encode_twilio_error(fault: Fault) -> Sequence[ServerMessage]:  # noqa: ARG001
    """Twilio has no message for errors."""
    return []
