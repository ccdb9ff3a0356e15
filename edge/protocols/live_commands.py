"""What clients of OpenAI's Live API send, as typed commands."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.media.decode import InputReader, read_sound
from antiphon.edge.protocols.openai import chosen_voice
from antiphon.edge.protocols.sound_stream import Sound
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig, with_consent
from antiphon.shared_schemas.entries import PrepareIn, StopIn, TextIn, TextKind
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages import live as wire
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT


@dataclass(frozen=True, slots=True)
class LiveCall:
    """How a session begins. `resource` are its settings as the client reads them."""

    prepare: PrepareIn
    audio_format: AudioFormat
    resource: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mute:
    """The model hears silence."""


@dataclass(frozen=True, slots=True)
class Unmute:
    """The model hears the user again."""


@dataclass(frozen=True, slots=True)
class UpdateDelegation:
    """Settings that do not change anything."""


LiveCommand = LiveCall | Sound | Mute | Unmute | TextIn | UpdateDelegation | StopIn

_FORMATS = {
    ("audio/pcm", 16_000): AudioFormat.PCM_16K,
    ("audio/pcm", 24_000): AudioFormat.PCM_24K,
    ("audio/pcmu", 8_000): AudioFormat.PCMU,
    ("audio/pcma", 8_000): AudioFormat.PCMA,
}
_RATES = {"audio/pcm": "16000 or 24000", "audio/pcmu": "8000", "audio/pcma": "8000"}

_APPENDS: dict[type[wire.LiveMessage], TextKind] = {
    wire.LiveInstructionsAppend: TextKind.INSTRUCTIONS,
    wire.LiveThinkingAppend: TextKind.THINKING,
    wire.LiveCommentaryAppend: TextKind.COMMENTARY,
}
_ROLES = {
    "developer": TextKind.INSTRUCTIONS,
    "user": TextKind.USER,
    "assistant": TextKind.ASSISTANT,
}


@dataclass(slots=True)
class LiveLink:
    """What the decoder and the machine of one connection share.

    Of the client's message that is being handled: its `event_id`, and whether it `is_sound` or not read yet.
    """

    event_id: str | None = None
    is_sound: bool = True
    audio_format: AudioFormat = AudioFormat.PCM_24K


class LiveDecoder:
    """Decodes the frames of one client. `known_voices`: the names of the engines' voices."""

    def __init__(
        self,
        settings: EdgeSettings,
        link: LiveLink,
        known_voices: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        self._reader = InputReader(settings)
        self._longest_s = settings.max_chunk_s
        self._link = link
        self._known_voices = known_voices

    async def decode(self, frame: ClientFrame) -> LiveCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        self._link.event_id = None
        self._link.is_sound = True
        data, _ = self._reader.read_frame(frame)
        if isinstance(data, dict) and isinstance(given := data.get("event_id"), str):
            self._link.event_id = given[:512]
        message = wire.parse_live_message(data)
        if isinstance(message, wire.LiveInputAudio):
            return self._sound(message)
        self._link.is_sound = False
        self._reader.budget.charge_message()
        match message:
            case wire.LiveStart(session=asked):
                return await self._start(asked)
            case wire.LiveTextAppend():
                if message.delegation_id is not None:
                    text = "delegation_id: no delegation has this id: use null"
                    raise InvalidInput(text, field="delegation_id")
                return TextIn(kind=_APPENDS[type(message)], text=message.content)
            case wire.LiveMute():
                return Mute()
            case wire.LiveUnmute():
                return Unmute()
            case wire.LiveUpdate(session=changes):
                _check_delegation(changes.delegation)
                return UpdateDelegation()
            case wire.LiveClose():
                return StopIn()

    def _sound(self, message: wire.LiveInputAudio) -> Sound:
        audio_format, name = self._link.audio_format, "audio"
        data = read_sound(message.audio, name, audio_format)
        seconds = len(data) / (audio_format.width * audio_format.rate)
        if seconds > self._longest_s:
            text = f"{name}: {seconds:g} s of sound, the limit is {self._longest_s:g} s"
            raise InvalidInput(text, field=name)
        self._reader.charge_sound(seconds, name)
        return Sound(data)

    async def _start(self, asked: wire.LiveSettings) -> LiveCall:
        _check_delegation(asked.delegation)
        audio = asked.audio or wire.LiveAudio()
        audio_format = _read_format(audio.format)
        voice = audio.output.voice.id if audio.output and audio.output.voice else ""
        chosen = chosen_voice(voice, await self._known_voices()) if voice else ""
        instructions = (asked.instructions or "").strip() or DEFAULT_SYSTEM_PROMPT
        record = asked.store is not False
        config = with_consent(DuplexConfig(voice=chosen), given=record)
        resource = {
            "model": asked.model,
            "instructions": instructions,
            "audio": {
                "format": _written_format(audio_format),
                "output": {"voice": voice or "marin"},
            },
            "delegation": {"type": "client"},
            "store": record,
        }
        history = [[str(_ROLES[item.role]), item.content[0].text] for item in asked.input or ()]
        prepare = PrepareIn(system_prompt=instructions, config=config, history=history)
        return LiveCall(prepare, audio_format, resource)


def _read_format(asked: wire.LiveAudioFormat | None) -> AudioFormat:
    if asked is None:
        return AudioFormat.PCM_24K
    name = "session.audio.format.rate"
    rate = 8_000 if asked.rate is None and asked.type != "audio/pcm" else asked.rate
    if rate is None:
        raise InvalidInput(f"{name} is required", field=name, code=ErrorCode.MISSING_FIELD)
    if (asked.type, rate) not in _FORMATS:
        raise InvalidInput(f"{name}: must be {_RATES[asked.type]} for {asked.type}", field=name)
    return _FORMATS[asked.type, rate]


def _written_format(audio_format: AudioFormat) -> dict[str, Any]:
    kind, rate = next(key for key, value in _FORMATS.items() if value is audio_format)
    return {"type": kind, "rate": rate}


def _check_delegation(asked: dict[str, Any] | None) -> None:
    """Raises InvalidInput. The model delegates nothing, so a client that would do the work waits in vain."""
    kind = "client" if asked is None else asked.get("type")
    if kind != "client":
        text = (
            "session.delegation.type: this server has no backend for delegated tasks: use `client`, "
            "or leave `delegation` out"
        )
        raise InvalidInput(text, field="session.delegation.type")
