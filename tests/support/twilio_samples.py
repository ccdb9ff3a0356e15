"""Samples of `/twilio/media`: every state, message and answer."""

from typing import Any

import orjson
import pybase64
from msgspec.structs import replace

from antiphon.edge.protocols.machine import Phase
from antiphon.edge.protocols.twilio import TwilioDecoder, TwilioMachine, encode_twilio_error
from antiphon.shared_schemas.entries import TextAddedOut
from support.edge_harness import result
from support.protocol_driver import Protocol
from support.protocol_samples import FAILED, FINAL_ENTRIES, GRANTED, MISTAKES, PREPARED, SETTINGS


def event(name: str, **fields: Any) -> str:
    return orjson.dumps({"event": name, "streamSid": "MZ1", **fields}).decode()


def start(**parameters: str) -> str:
    stream = {
        "streamSid": "MZ1",
        "callSid": "CA1",
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": parameters,
    }
    return event("start", start=stream)


def media(sound: bytes, track: str = "inbound") -> str:
    payload = pybase64.b64encode_as_string(sound)
    return event("media", media={"track": track, "payload": payload})


START = start(instructions="Be brief.")
STOP = event("stop")

_PREPARED = (GRANTED, START, PREPARED)
_TEXT = TwilioMachine.PHASE_TEXT

TWILIO = Protocol(
    path="/twilio/media",
    open=lambda: (TwilioDecoder(SETTINGS), TwilioMachine(lambda: 0.0)),
    setup={
        _TEXT[Phase.QUEUED]: (),
        _TEXT[Phase.QUEUED_PREPARED]: (START,),
        _TEXT[Phase.ASSIGNED]: (GRANTED,),
        _TEXT[Phase.PREPARING]: (GRANTED, START),
        _TEXT[Phase.ACTIVE]: (*_PREPARED, result(1, speak=True)),
        _TEXT[Phase.STOPPING]: (*_PREPARED, STOP),
    },
    messages={
        "start": START,
        "connected": event("connected", protocol="Call", version="1.0.0"),
        "media": media(bytes(8000)),
        "mark": event("mark", mark={"name": "1-1000"}),
        "dtmf": event("dtmf", dtmf={"track": "inbound_track", "digit": "5"}),
        "stop": STOP,
    },
    mistakes={
        **MISTAKES,
        "an unknown `event`": event("sing"),
        "a mark that was not sent": event("mark", mark={"name": "9-9"}),
        "`media` of what is played": media(bytes(8000), "outbound"),
        "`dtmf` of two keys": event("dtmf", dtmf={"digit": "55"}),
        "`start` with a wrong `time_zone`": start(time_zone="Mars/Olympus"),
    },
    entries=(
        PREPARED,
        result(1),
        replace(result(2, speak=False), interrupted=True),
        replace(result(3), memo={"goodbye": True}),
        TextAddedOut(text_n=2),
        FAILED,
        *FINAL_ENTRIES,
    ),
    terminal=frozenset(),
    encode_error=encode_twilio_error,
    errors_end=True,
    keeps=False,
)
