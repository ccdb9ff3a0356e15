"""Decodes what a client sends: its events become commands for the machine."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader, read_sound
from antiphon.edge.media.voices import UploadedVoices, load_named_voice
from antiphon.edge.protocols.openai import chosen_voice
from antiphon.edge.protocols.openai_realtime.items import MAX_ITEMS, ItemReader
from antiphon.edge.protocols.openai_realtime.settings import (
    BETA_CODE,
    DEFAULT_VOICE,
    RealtimeState,
    asked_voice,
    audio_format,
    updated_response,
    updated_session,
)
from antiphon.edge.protocols.openai_realtime.track import PlaybackReport
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.openai_realtime import (
    AppendAudio,
    CancelResponse,
    ClearAudio,
    ClearOutput,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RetrieveItem,
    TruncateItem,
    UpdateSession,
    parse_client_event,
)
from antiphon.shared_schemas.voices import UPLOADED

_AHEAD_S = 60.0
"""How far sound may run ahead of real time: with push-to-talk, programs send a whole question at once."""

_BETA_EVENTS = {"transcription_session.update": "session.update"}


@dataclass(frozen=True, slots=True)
class Engines:
    """What the engines that run now can do; `known` is False while there are none."""

    known: bool
    voices: frozenset[str]


@dataclass(frozen=True, slots=True)
class Update:
    """New settings."""

    session: dict[str, Any]
    voice: str
    ref_audio: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AppendSound:
    """There is new sound in `RealtimeState.sound`."""


@dataclass(frozen=True, slots=True)
class AddItem:
    """An item, as the client sees it and as the worker gets it. `after`: `root` is the beginning."""

    shown: dict[str, Any]
    message: ConversationMessage
    after: str | None


@dataclass(frozen=True, slots=True)
class Ask:
    """An answer is wanted. `shown` are its settings, `refs` and `messages` as in RespondIn."""

    shown: dict[str, Any]
    config: TurnsConfig
    ref_audio: bytes = field(repr=False)
    refs: list[str | None] | None
    messages: tuple[ConversationMessage, ...]


RealtimeCommand = (
    Update
    | AppendSound
    | AddItem
    | Ask
    | CommitAudio
    | ClearAudio
    | ClearOutput
    | PlaybackReport
    | DeleteItem
    | RetrieveItem
    | TruncateItem
    | CancelResponse
)


class OpenAiRealtimeDecoder:
    """Decodes the frames of one client. `engines` tells what is possible now."""

    def __init__(
        self,
        settings: EdgeSettings,
        uploads: UploadedVoices,
        state: RealtimeState,
        engines: Callable[[], Awaitable[Engines]],
    ) -> None:
        self._settings = settings
        self._uploads = uploads
        self._state = state
        self._engines = engines
        # all items deleted, and all created again
        self._reader = InputReader(settings, _AHEAD_S, history=2 * MAX_ITEMS)
        self._items = ItemReader(settings, state, self._reader.budget.charge_audio)
        self._voice_known = asked_voice(state.session) in ("", DEFAULT_VOICE)
        """False if a secret names a voice that has not been looked up."""

    async def prepare(self) -> None:
        """Look up what the session's first settings name. Raises InvalidInput."""
        state = self._state
        state.voice, state.ref_audio = await self._voice_of(state.session, "session")
        self._voice_known = True

    async def decode(self, frame: ClientFrame) -> RealtimeCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        state = self._state
        state.begin_event()
        data, payload = self._reader.read_frame(frame)
        if isinstance(data, dict):
            event_id = data.get("event_id")
            state.event_id = event_id if isinstance(event_id, str) else None
            if remedy := _BETA_EVENTS.get(str(data.get("type"))):
                text = f"type: the beta form of this API is not served; use `{remedy}`"
                raise state.refusal(BETA_CODE, text, "type")
        message = parse_client_event(data, payload)
        if isinstance(message, AppendAudio):
            return self._append(message)
        state.is_sound = False
        if isinstance(message, CreateItem | DeleteItem):
            self._reader.budget.charge_history()
        else:
            self._reader.budget.charge_message()
        match message:
            case UpdateSession():
                return await self._update(message)
            case CreateItem():
                return await self._item(message)
            case CreateResponse():
                return await self._ask(message)
        return message

    def _append(self, message: AppendAudio) -> AppendSound:
        kind = audio_format(self._state.session, "input")
        data = read_sound(message.audio, "audio", kind)
        self._reader.charge_sound(len(data) / (kind.width * kind.rate), "audio")
        self._state.sound.add(data, kind)
        return AppendSound()

    async def _update(self, message: UpdateSession) -> Update:
        session = updated_session(self._state, message.session)
        voice, ref_audio = await self._voice_of(session, "session")
        return Update(session, voice, ref_audio)

    async def _item(self, message: CreateItem) -> AddItem:
        sound_format = audio_format(self._state.session, "input")
        shown, content = await self._items.read(message.item, "item", sound_format)
        if content is None:
            text = "item.type: an item_reference belongs into the input of a response"
            raise InvalidInput(text, field="item.type")
        return AddItem(shown, content, message.previous_item_id or None)

    async def _ask(self, message: CreateResponse) -> Ask:
        state = self._state
        if state.transcribes_only:
            text = "type: a transcription session has no responses"
            raise InvalidInput(text, field="type")
        shown = updated_response(state, message.response or {})
        voice, ref_audio = await self._voice_of(shown, "response")
        asked, refs, messages = shown.pop("input", None), None, []
        if asked is not None:
            refs = []
            for number, item in enumerate(asked):
                where = f"response.input.{number}"
                wire, content = await self._items.read(
                    item, where, audio_format(state.session, "input")
                )
                refs.append(wire["id"] if content is None else None)
                messages += [content] if content is not None else []
        config = state.config(shown)
        config = config.model_copy(update={"tts": config.tts.model_copy(update={"voice": voice})})
        return Ask(shown, config, ref_audio, refs, tuple(messages))

    async def _voice_of(self, wanted: dict[str, Any], name: str) -> tuple[str, bytes]:
        """The engine's voice, or an uploaded one. Raises InvalidInput for what no engine has."""
        asked = asked_voice(wanted)
        if self._voice_known and asked == asked_voice(self._state.session):
            return self._state.voice, self._state.ref_audio
        field = f"{name}.audio.output.voice"
        if asked.startswith(UPLOADED):
            return "", await load_named_voice(self._settings, self._uploads, asked, field)
        engines = await self._engines()
        voice = chosen_voice(asked, engines.voices)
        if voice and engines.known and voice not in engines.voices:
            choices = ", ".join(sorted(engines.voices)) or "none"
            text = f"{field}: there is no voice {voice!r}; OpenAI's names, or: {choices}"
            raise InvalidInput(text, field=field)
        return voice, b""
