"""Samples of OpenAI's Realtime API: every state, message and answer."""

from typing import Any

import orjson
import pybase64

from antiphon.edge.protocols.machine import QueuePlace
from antiphon.edge.protocols.openai_realtime.decoder import OpenAiRealtimeDecoder
from antiphon.edge.protocols.openai_realtime.events import encode_fault
from antiphon.edge.protocols.openai_realtime.machine import OpenAiRealtimeMachine
from antiphon.shared_schemas.entries import (
    DeltaOut,
    GeneratingOut,
    ItemOut,
    RefusedOut,
    TranscriptOut,
    TurnDoneOut,
    VadOut,
)
from support.openai_realtime_edge import RealtimeClient
from support.protocol_driver import DrivenConnection, Protocol
from support.protocol_samples import FAILED, FINAL_ENTRIES, GRANTED, MISTAKES


def event(type_: str, **fields: Any) -> str:
    return orjson.dumps({"type": type_, **fields}).decode()


def open_openai_realtime() -> tuple[OpenAiRealtimeDecoder, OpenAiRealtimeMachine]:
    client = RealtimeClient()
    return client.decoder, client.machine


class OpenAiRealtimeConnection(DrivenConnection):
    """Its errors name no state: whether there is a worker, and whether an answer is wanted or under way."""

    @property
    def state(self) -> str:
        words = "waiting for a worker" if self._machine.waiting else "active"
        return f"{words}, with a response" if self._machine._responses else words


_TEXT = {"type": "input_text", "text": "Hello."}
_ITEM = {"id": "item_1", "type": "message", "role": "user", "content": [_TEXT]}
_CREATE_ITEM = event("conversation.item.create", item=_ITEM)
_CREATE_RESPONSE = event("response.create")
SECOND = pybase64.b64encode_as_string(bytes(2 * 24_000))
SOUND = event("input_audio_buffer.append", audio=SECOND)
_UPDATE = event("session.update", session={"type": "realtime", "instructions": "Be brief."})

GREETED = QueuePlace("7", 1, 1, 4.5, first=True)
"""The greeting comes at once; here with the first place in the queue, which is not shown."""
_HAS_ITEM = (GREETED, _CREATE_ITEM)

OPENAI_REALTIME = Protocol(
    path="/v1/realtime?model=any",
    open=open_openai_realtime,
    setup={
        "waiting for a worker": _HAS_ITEM,
        "waiting for a worker, with a response": (*_HAS_ITEM, _CREATE_RESPONSE),
        "active": (*_HAS_ITEM, GRANTED),
        "active, with a response": (*_HAS_ITEM, GRANTED, _CREATE_RESPONSE),
    },
    messages={
        "session.update": _UPDATE,
        "input_audio_buffer.append": SOUND,
        "input_audio_buffer.commit": event("input_audio_buffer.commit"),
        "input_audio_buffer.clear": event("input_audio_buffer.clear"),
        "output_audio_buffer.clear": event("output_audio_buffer.clear"),
        "conversation.item.create": event(
            "conversation.item.create", item={**_ITEM, "id": "item_2"}
        ),
        "conversation.item.retrieve": event("conversation.item.retrieve", item_id="item_1"),
        "conversation.item.truncate": event(
            "conversation.item.truncate", item_id="item_1", content_index=0, audio_end_ms=10
        ),
        "conversation.item.delete": event("conversation.item.delete", item_id="item_1"),
        "response.create": _CREATE_RESPONSE,
        "response.cancel": event("response.cancel"),
    },
    mistakes={
        **MISTAKES,
        "`session.update` with a field of the beta API": event(
            "session.update", session={"type": "realtime", "voice": "alloy"}
        ),
        "`session.update` of the other type": event(
            "session.update", session={"type": "transcription"}
        ),
        "`conversation.item.create` behind an unknown item": event(
            "conversation.item.create", item=_ITEM, previous_item_id="item_9"
        ),
        "`conversation.item.retrieve` of an unknown item": event(
            "conversation.item.retrieve", item_id="item_9"
        ),
        "`response.cancel` of an unknown answer": event("response.cancel", response_id="resp_9"),
        "`session.close`": event("session.close"),
        "half a sample": event("input_audio_buffer.append", audio="AAAA"),
    },
    entries=(
        VadOut(input_n=2, speaking=True, item_id="item_3", at_ms=120),
        ItemOut(input_n=3, item_id="item_3", stopped_ms=900, response_id="resp_1"),
        TranscriptOut(input_n=3, item_id="item_3", text="Hello.", seconds=0.8),
        GeneratingOut(
            input_n=3, turn_index=0, speech_duration_ms=800, response_id="resp_1", item_id="item_4"
        ),
        DeltaOut(text_delta="Hi", audio=bytes(4)),
        TurnDoneOut(input_n=3, turn_index=0, text="Hi.", response_id="resp_1"),
        RefusedOut(input_n=4, code="input_audio_buffer_commit_empty", message="too short"),
        FAILED,
        *FINAL_ENTRIES,
    ),
    terminal=frozenset(),
    encode_error=encode_fault,
    connection=OpenAiRealtimeConnection,
    stop="",
)
