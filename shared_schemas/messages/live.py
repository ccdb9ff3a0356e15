"""Messages of OpenAI's Live API (`/v1/live/sessions`).

Unknown fields of clients are refused by name, as OpenAI does. What it has and this server has not is in
`_UNSUPPORTED`, so that its error says why.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader, ServerMessage

MAX_HISTORY = 128
"""Messages of the history at the start."""

MAX_APPENDED_CHARS = 2000
"""Of one text after the start; OpenAI's limit of 500 tokens is about as long."""

MAX_TEXT_CHARS = 20_000
"""Of the instructions, and of one message of the history."""

CloseReason = Literal["close_requested", "expired", "content", "remote_hangup", "connection_lost"]


class LiveModel(ClientMessage):
    """Base of what a client sends. Unknown fields are rejected by name."""

    model_config = ConfigDict(extra="forbid")


class LiveVoice(LiveModel):
    """A voice as an object; a text becomes its `id`."""

    id: str = Field(max_length=64)


class LiveAudioOutput(LiveModel):
    """The voice of the model."""

    voice: LiveVoice | None = None

    @field_validator("voice", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return {"id": value} if isinstance(value, str) else value


class LiveAudioFormat(LiveModel):
    """The format of both directions. G.711 has 8000 Hz, which may be left out."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None


class LiveAudio(LiveModel):
    """Audio settings, which cannot change."""

    format: LiveAudioFormat | None = None
    output: LiveAudioOutput | None = None


class LiveHistoryText(LiveModel):
    """The text of a message of the history."""

    type: Literal["input_text", "output_text", "text"] | None = None
    text: str = Field(max_length=MAX_TEXT_CHARS)


class LiveHistoryItem(LiveModel):
    """A message before the start. `id`, `status` and `type` have no effect."""

    role: Literal["developer", "user", "assistant"]
    content: list[LiveHistoryText] = Field(min_length=1, max_length=1)
    id: str | None = None
    status: str | None = None
    type: Literal["message"] | None = None


class LiveSettings(LiveModel):
    """The `session` of `session.start`. `model` does not select a model."""

    model: str = Field(max_length=256)
    instructions: str | None = Field(default=None, max_length=MAX_TEXT_CHARS)
    input: list[LiveHistoryItem] | None = Field(default=None, max_length=MAX_HISTORY)
    audio: LiveAudio | None = None
    delegation: dict[str, Any] | None = None
    store: bool | None = None
    safety_identifier: str | None = Field(default=None, max_length=512)
    triggers: list[Any] | None = Field(default=None, max_length=0)
    client: None = None


class LiveChanges(LiveModel):
    """The `session` of `session.update`."""

    delegation: dict[str, Any] | None = None
    triggers: list[Any] | None = Field(default=None, max_length=0)


class LiveClientEvent(LiveModel):
    """A client's event. Its `event_id` is the `client_event_id` of the answer or the error."""

    event_id: str | None = Field(default=None, max_length=512)


class LiveStart(LiveClientEvent):
    """The first message."""

    type: Literal["session.start"]
    session: LiveSettings


class LiveInputAudio(LiveClientEvent):
    """Sound of the user. It is not acknowledged."""

    type: Literal["session.input_audio.append"]
    audio: Media


class LiveMute(LiveClientEvent):
    """The model hears silence from now on."""

    type: Literal["session.input_audio.mute"]


class LiveUnmute(LiveClientEvent):
    """The model hears the user again."""

    type: Literal["session.input_audio.unmute"]


class LiveTextAppend(LiveClientEvent):
    """A text for the model. `delegation_id` is required and null."""

    content: str = Field(min_length=1, max_length=MAX_APPENDED_CHARS)
    delegation_id: str | None


class LiveInstructionsAppend(LiveTextAppend):
    """What the model does from now on."""

    type: Literal["session.instructions.append"]


class LiveThinkingAppend(LiveTextAppend):
    """What the model knows from now on."""

    type: Literal["session.thinking.append"]


class LiveCommentaryAppend(LiveTextAppend):
    """What the model says at the next silence."""

    type: Literal["session.commentary.append"]


class LiveUpdate(LiveClientEvent):
    """Changes settings of an active session. None that has an effect here can change."""

    type: Literal["session.update"]
    session: LiveChanges


class LiveClose(LiveClientEvent):
    """Ends the session."""

    type: Literal["session.close"]


LiveMessage = (
    LiveStart
    | LiveInputAudio
    | LiveMute
    | LiveUnmute
    | LiveInstructionsAppend
    | LiveThinkingAppend
    | LiveCommentaryAppend
    | LiveUpdate
    | LiveClose
)
LIVE_MESSAGES: MessageReader[LiveMessage] = MessageReader(LiveMessage)

_NO_DELEGATION = (
    "this server does not delegate; use `session.commentary.append` for what it shall say"
)
_UNSUPPORTED: Mapping[str, str] = {
    "response.create": _NO_DELEGATION,
    "response.item.create": _NO_DELEGATION,
    "decision.create": _NO_DELEGATION,
    "decision.item.create": _NO_DELEGATION,
    "decision.item.delete": _NO_DELEGATION,
    "session.output_audio.fixture.play": "this server does not play sound of the client",
    "transport.dtmf.send": "this server has no telephone line",
}


def parse_live_message(data: object) -> LiveMessage:
    """Raises InvalidInput naming the field and the remedy."""
    kind = data.get("type") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind in _UNSUPPORTED:
        raise InvalidInput(f"{kind}: {_UNSUPPORTED[kind]}", field="type")
    return LIVE_MESSAGES.parse(data)


class LiveEvent(ServerMessage, type=""):
    """Base of the server's events. `client_event_id`: the event that it answers."""

    event_id: str
    client_event_id: str | None = None


class LiveStarted(LiveEvent, type="session.started"):
    """The session is active; `session` are its settings, with defaults."""

    session: dict[str, Any]


class LiveUpdated(LiveStarted, type="session.updated"):
    """The settings after `session.update`."""


class LiveMuted(LiveEvent, type="session.input_audio.muted"):
    """The model hears silence."""


class LiveUnmuted(LiveEvent, type="session.input_audio.unmuted"):
    """The model hears the user."""


class LiveOutputAudio(ServerMessage, type="session.output_audio.delta"):
    """Sound of the model, in the session's format."""

    delta: bytes


class LiveRange(LiveEvent, type=""):
    """An event with a part of the time line, whose beginning is the first sound of the client."""

    start_ms: int
    end_ms: int


class LiveOutputTranscript(LiveRange, type="session.output_transcript.delta"):
    """What the model says in this part. All fragments one after another are its transcript."""

    delta: str


class LiveInputTranscript(LiveRange, type="session.input_transcript.delta"):
    """What the user has said in this part."""

    delta: str


class LiveInstructionsAppended(LiveRange, type="session.instructions.appended"):
    """The model has the text."""


class LiveThinkingAppended(LiveRange, type="session.thinking.appended"):
    """The model has the text."""


class LiveCommentaryAppended(LiveRange, type="session.commentary.appended"):
    """The model has the text, and says it later."""


class LiveUsage(LiveEvent, type="session.usage.updated"):
    """Seconds of sound so far, and the share of the context that is used."""

    usage: dict[str, Any]
    context_window: dict[str, Any] | None = None


class LiveClosed(LiveEvent, type="session.closed"):
    """The last event of a session that has begun."""

    reason: CloseReason
    session: dict[str, Any]
    usage: dict[str, Any]


class LiveInfo(LiveEvent, type="info"):
    """Something that the client may want to know."""

    code: str
    message: str


class LiveError(LiveEvent, type="error"):
    """`error` has `type`, `code`, `message`, and what is known of `param` and `client_event_id`."""

    error: dict[str, Any]
