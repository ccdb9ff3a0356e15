"""For any input, a decoder returns a command or raises an error that names a field."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import NotJson
from antiphon.edge.json_text import ClientFrame, Utf8Text
from antiphon.edge.protocols.chat import ChatDecoder, decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder
from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.protocols.realtime_chat import RealtimeChatDecoder, decode_chat_event
from antiphon.edge.protocols.twilio import TwilioDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.errors import InvalidInput
from support.edge_harness import no_uploaded_voices
from support.live_samples import open_live
from support.openai_realtime_samples import open_openai_realtime

SETTINGS = EdgeSettings()
TYPES = st.sampled_from(
    [
        *("prepare", "audio_chunk", "stop", "session.update", "input_audio_buffer.append"),
        *("session.init", "input.append", "client_diagnostic"),
        *("session.start", "session.input_audio.append", "session.thinking.append"),
        *("session.close", "text", "audio", "image", "video", "user"),
        *("conversation.item.create", "response.create", "message", "realtime", "input_text"),
        *("start", "media", "mark", "audio/x-mulaw", "inbound"),
    ]
)
NAMES = st.sampled_from(
    [
        *("type", "audio", "audio_base64", "data", "text", "role", "content", "messages", "config"),
        *(
            "session",
            "instructions",
            "ref_audio",
            "system_content",
            "video_frames",
            "vad",
            "tts",
            "metrics",
        ),
        *("payload", "input", "voice", "hints", "ref_audio_base64", "force_listen"),
        *("model", "delegation", "delegation_id", "format", "output", "rate", "event_id"),
        *("item", "response", "turn_detection", "transcription", "item_id", "image_url", "tools"),
        *("event", "start", "media", "payload", "mark", "dtmf", "mediaFormat", "customParameters"),
        *("generation", "image", "enabled", "streaming", "sample_rate", "max_slice_nums", "loc"),
    ]
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats() | st.text(max_size=8) | TYPES
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
MESSAGES = VALUES | st.builds(
    lambda rest, kind: {**rest, "type": kind}, st.dictionaries(NAMES, VALUES, max_size=5), TYPES
)


LONG_TEXT = b'"' + b"A" * (1024 * 1024 + 4) + b'"'
"""Becomes LongText, which is legal for media only."""

LONG_VALUES = st.recursive(
    st.just("LONG") | TYPES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
LONG_MESSAGES = st.builds(
    lambda rest, kind: {"x": "LONG", **rest, "type": kind},
    st.dictionaries(NAMES, LONG_VALUES, max_size=3),
    TYPES | st.just("LONG"),
)

DECODERS = [
    "duplex",
    "half_duplex",
    "realtime",
    "chat",
    "chat mode",
    "live",
    "openai realtime",
    "twilio",
    "other",
]


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=MESSAGES)
async def test_decoders_accept_or_refuse_any_message(decoder: str, data: Any) -> None:
    await _decode(decoder, orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS).decode())


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=LONG_MESSAGES)
async def test_decoders_accept_or_refuse_long_texts(decoder: str, data: Any) -> None:
    await _decode(decoder, Utf8Text(orjson.dumps(data).replace(b'"LONG"', LONG_TEXT)))


async def _decode(decoder: str, frame: ClientFrame) -> None:
    try:
        match decoder:
            case "duplex":
                await DuplexDecoder(SETTINGS, no_uploaded_voices).decode(frame)
            case "half_duplex":
                await HalfDuplexDecoder(SETTINGS).decode(frame)
            case "realtime":
                await RealtimeDecoder(SETTINGS, video=True).decode(frame)
            case "chat":
                await decode_request(frame, SETTINGS, no_uploaded_voices)
            case "chat mode":
                await decode_chat_event(frame, SETTINGS, no_uploaded_voices)
                await RealtimeChatDecoder(SETTINGS).decode(frame)
            case "live":
                await open_live()[0].decode(frame)
            case "openai realtime":
                await open_openai_realtime()[0].decode(frame)
            case "twilio":
                await TwilioDecoder(SETTINGS).decode(frame)
            case _:  # what follows a chat request
                await ChatDecoder(SETTINGS).decode(frame)
    except InvalidInput as error:
        assert error.message  # noqa: PT017 - either outcome is right


@given(frame=st.text(max_size=60) | st.binary(max_size=60))
async def test_text_that_is_not_json(frame: str | bytes) -> None:
    for decoder in (HalfDuplexDecoder(SETTINGS), RealtimeDecoder(SETTINGS, video=False)):
        try:
            await decoder.decode(frame)
        except (InvalidInput, NotJson) as error:
            assert str(error)  # noqa: PT017 - either outcome is right
