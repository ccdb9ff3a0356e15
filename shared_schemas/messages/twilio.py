"""Messages of Twilio Media Streams, as its public documents describe them. Unknown fields are ignored."""

from typing import Literal

import msgspec
from pydantic import Field

from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader, ServerMessage

_Name = Field(max_length=256)


class TwilioConnected(ClientMessage):
    """The first message."""

    type: Literal["connected"]


class TwilioFormat(ClientMessage):
    """Twilio has no other format."""

    encoding: Literal["audio/x-mulaw"]
    sample_rate: Literal[8000] = Field(alias="sampleRate")
    channels: Literal[1] = 1


class TwilioStream(ClientMessage):
    """What is streamed. `parameters` are the `<Parameter>` elements of the TwiML."""

    sid: str = Field(alias="streamSid", max_length=256)
    call: str = Field(default="", alias="callSid", max_length=256)
    media_format: TwilioFormat = Field(alias="mediaFormat")
    parameters: dict[str, str] = Field(
        default_factory=dict, alias="customParameters", max_length=32
    )


class TwilioStart(ClientMessage):
    """The second message."""

    type: Literal["start"]
    start: TwilioStream


class TwilioSound(ClientMessage):
    """Base64 of G.711 mu-law, usually of 20 ms."""

    payload: Media
    track: str = "inbound"


class TwilioMedia(ClientMessage):
    """Sound of the caller."""

    type: Literal["media"]
    media: TwilioSound


class TwilioName(ClientMessage):
    """Of a mark of this server."""

    name: str = _Name


class TwilioMark(ClientMessage):
    """The sound before a mark was played, or cleared."""

    type: Literal["mark"]
    mark: TwilioName


class TwilioKey(ClientMessage):
    """A key of the telephone."""

    digit: str = Field(pattern=r"^[0-9*#A-D]$")


class TwilioDtmf(ClientMessage):
    """The caller pressed a key."""

    type: Literal["dtmf"]
    dtmf: TwilioKey


class TwilioStop(ClientMessage):
    """The call is over, or the stream was stopped."""

    type: Literal["stop"]


TwilioMessage = TwilioConnected | TwilioStart | TwilioMedia | TwilioMark | TwilioDtmf | TwilioStop
_READER: MessageReader[TwilioMessage] = MessageReader(TwilioMessage)


def parse_twilio_message(data: object) -> TwilioMessage:
    """Raises InvalidInput. The kind of a message is its `event`."""
    if isinstance(data, dict):
        if not isinstance(data.get("event"), str):
            raise InvalidInput("event: must name the kind of the message", field="event")
        data = {**data, "type": data["event"]}
    return _READER.parse(data)


class StreamMessage(ServerMessage, type="", tag_field="event"):
    """Base of what is sent. `stream`: the id of Twilio's stream."""

    stream: str = msgspec.field(name="streamSid")


class PlaySound(msgspec.Struct, frozen=True):
    """G.711 mu-law."""

    payload: bytes


class MarkName(msgspec.Struct, frozen=True):
    """Of a mark of this server."""

    name: str


class PlayMedia(StreamMessage, type="media"):
    """Sound to play after what waits already."""

    media: PlaySound


class PlayMark(StreamMessage, type="mark"):
    """Twilio returns it when the sound before it was played."""

    mark: MarkName


class ClearMedia(StreamMessage, type="clear"):
    """Drop the sound that waits. Twilio returns its marks at once."""
