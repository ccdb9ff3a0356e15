"""Samples of `/v1/live/sessions`: every state, message and answer."""

from typing import Any

import orjson
import pybase64
from msgspec.structs import replace

from antiphon.edge.protocols.live import LiveMachine, LiveTerms, encode_live_error
from antiphon.edge.protocols.live_commands import LiveDecoder, LiveLink
from antiphon.edge.protocols.machine import Phase
from antiphon.shared_schemas.entries import TextAddedOut
from support.edge_harness import result
from support.protocol_driver import Protocol
from support.protocol_samples import FAILED, FINAL_ENTRIES, GRANTED, MISTAKES, PREPARED, SETTINGS


async def no_voices() -> frozenset[str]:
    return frozenset()


def open_live() -> tuple[LiveDecoder, LiveMachine]:
    link = LiveLink()
    terms = LiveTerms(lambda: 0.0, 0.0, 1_800_000_000)
    return LiveDecoder(SETTINGS, link, no_voices), LiveMachine("rec", link, terms)


def event(type_: str, **fields: Any) -> str:
    return orjson.dumps({"type": type_, **fields}).decode()


START = event("session.start", session={"model": "m", "instructions": "Be brief."}, event_id="s")
CLOSE = event("session.close")
SECOND = pybase64.b64encode_as_string(bytes(2 * 24_000))
SOUND = event("session.input_audio.append", audio=SECOND)
APPEND = event("session.commentary.append", content="Hello.", delegation_id=None, event_id="c")

_PREPARED = (GRANTED, START, PREPARED)
_TEXT = LiveMachine.PHASE_TEXT

LIVE = Protocol(
    path="/v1/live/sessions",
    open=open_live,
    setup={
        _TEXT[Phase.QUEUED]: (),
        _TEXT[Phase.QUEUED_PREPARED]: (START,),
        _TEXT[Phase.ASSIGNED]: (GRANTED,),
        _TEXT[Phase.PREPARING]: (GRANTED, START),
        _TEXT[Phase.ACTIVE]: _PREPARED,
        _TEXT[Phase.STOPPING]: (*_PREPARED, CLOSE),
    },
    messages={
        "session.start": START,
        "session.input_audio.append": SOUND,
        "session.input_audio.mute": event("session.input_audio.mute"),
        "session.input_audio.unmute": event("session.input_audio.unmute"),
        "session.{instructions,thinking,commentary}.append": APPEND,
        "session.update": event("session.update", session={}),
        "session.close": CLOSE,
    },
    mistakes={
        **MISTAKES,
        "`session.start` with an unknown field": event(
            "session.start", session={"model": "m", "a": 1}
        ),
        "`response.create`": event("response.create"),
        "half a sample": event("session.input_audio.append", audio="AAAA"),
    },
    entries=(
        PREPARED,
        result(1),
        replace(result(2, speak=False), memo={"user": "What?"}),
        TextAddedOut(text_n=2),
        FAILED,
        *FINAL_ENTRIES,
    ),
    terminal=frozenset({"session.closed"}),
    encode_error=encode_live_error,
    stop="session.close",
)
