"""Whatever a client and a worker send: every event has the SDK's own type, and nothing crashes."""

import base64
import warnings
from typing import Any

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from antiphon.edge.protocols.machine import Finish
from antiphon.shared_schemas.audio import OUTPUT_RATE, float_bytes
from antiphon.shared_schemas.content import ToolCall
from antiphon.shared_schemas.entries import (
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    ItemOut,
    OutEntry,
    RefusedOut,
    TranscriptOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.wire import encode_media
from support.openai_realtime_edge import RealtimeClient

_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
_SOUND = base64.b64encode(bytes(4800)).decode()
_IDS = st.sampled_from(["a", "b", "root", "item_1", "resp_1", "", None, 1])
_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.text(max_size=5) | st.just(_SOUND),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
_PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_audio", "input_image", "output_text", "x"])},
    optional={"text": st.text(max_size=5), "audio": st.just(_SOUND), "image_url": _JSON},
)
_ITEMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message", "function_call", "function_call_output", "item_reference"]
        )
    },
    optional={
        "id": _IDS,
        "role": st.sampled_from(["user", "system", "assistant", "x"]),
        "content": st.lists(_PARTS, max_size=2) | _JSON,
        "call_id": _IDS,
        "name": st.just("f"),
        "arguments": st.sampled_from(["{}", "", "[", "{"]),
        "output": st.text(max_size=5),
    },
)
_FORMATS = st.sampled_from([{"type": "audio/pcmu"}, {"type": "audio/pcma"}, {"type": "x"}, None])
_DETECTION = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["server_vad", "semantic_vad", None]),
        "threshold": st.floats(-1, 2),
        "silence_duration_ms": st.integers(-1, 20_000),
        "eagerness": st.sampled_from(["low", "auto", None]),
    },
)
_INPUT = st.fixed_dictionaries(
    {}, optional={"format": _FORMATS, "turn_detection": _DETECTION, "transcription": _JSON}
)
_AUDIO = st.fixed_dictionaries(
    {},
    optional={"input": _INPUT, "output": st.fixed_dictionaries({}, optional={"format": _FORMATS})},
)
_SETTINGS: dict[str, Any] = {
    "instructions": st.text(max_size=5) | st.none(),
    "output_modalities": st.sampled_from([["text"], ["audio"], [], ["text", "audio"], None]),
    "audio": _AUDIO | _JSON,
    "max_output_tokens": st.sampled_from(["inf", 1, 0, 99_999, None, "x"]),
    "tools": _JSON,
    "tool_choice": _JSON,
}
_UPDATE = st.fixed_dictionaries(
    {"type": st.sampled_from(["realtime", "transcription"])}, optional=_SETTINGS
)
_RESPONSE = st.fixed_dictionaries(
    {},
    optional=_SETTINGS
    | {
        "conversation": st.sampled_from(["none", "auto"]),
        "input": st.lists(_ITEMS, max_size=2),
        "metadata": _JSON,
    },
)


def _event(kind: str, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    ids = {"event_id": st.sampled_from(["e1", None])}
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=fields | ids)


_CLIENT = st.one_of(
    _event("session.update", session=_UPDATE),
    _event("input_audio_buffer.append", audio=st.sampled_from([_SOUND, "!", ""])),
    _event("input_audio_buffer.commit"),
    _event("input_audio_buffer.clear"),
    _event("conversation.item.create", item=_ITEMS, previous_item_id=_IDS),
    _event("conversation.item.delete", item_id=_IDS),
    _event("conversation.item.retrieve", item_id=_IDS),
    _event("conversation.item.truncate", item_id=_IDS, audio_end_ms=st.integers(-1, 5000)),
    _event("response.create", response=_RESPONSE | st.none()),
    _event("response.cancel", response_id=_IDS),
)
_CALL = ToolCall("call_1", "f", "{}").wire()
_TURN: list[OutEntry] = [
    VadOut(input_n=1, speaking=True, item_id="said", at_ms=10),
    ItemOut(input_n=1, item_id="said", stopped_ms=50, response_id="resp_1"),
    TranscriptOut(input_n=1, item_id="said", text="Hi.", seconds=1.0),
    GeneratingOut(
        input_n=1, turn_index=0, speech_duration_ms=1, response_id="resp_1", item_id="item_1"
    ),
    DeltaOut(text_delta="Hello", audio=float_bytes(np.zeros(OUTPUT_RATE, np.float32))),
    TurnDoneOut(input_n=1, turn_index=0, text="Hello", response_id="resp_1", tool_calls=[_CALL]),
]
_OTHERS: list[OutEntry] = [
    TranscriptOut(input_n=1, item_id="gone", text=None, seconds=1.0, problem="none"),
    ErrorOut(code="inference_error", message="no"),
    RefusedOut(input_n=1, code="input_audio_buffer_commit_empty", message="no", event_id="e1"),
]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(_CLIENT, max_size=12),
    st.integers(0, 12),
    st.lists(st.integers(0, 12), max_size=3).map(sorted),
    st.booleans(),
)
def test_every_event_has_the_type_of_the_sdk(
    events: list[dict[str, Any]], granted: int, turns: list[int], transcription: bool
) -> None:
    client = RealtimeClient(transcription=transcription)
    sent: list[dict[str, Any]] = []
    for number, event in enumerate([*events, {"type": "input_audio_buffer.clear"}]):
        fields = dict(event)
        sent += client.send(fields.pop("type"), **fields)
        if number >= granted:
            client.grant()
            for _ in range(turns.count(number) if not transcription else 0):
                for entry in (*_TURN, *_OTHERS):
                    sent += client.deliver(entry)
    sent += client.take(each for each in client.machine.ended(None) if not isinstance(each, Finish))
    assert sent[0]["type"] == "session.created"
    for body in sent:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _EVENTS.validate_json(orjson.dumps(body, encode_media))
