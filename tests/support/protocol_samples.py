"""Samples of the four protocols: every state, message and answer."""

from collections.abc import Sequence
from typing import Any

import orjson
import pybase64
from msgspec.structs import replace

from antiphon.edge.errors import Close, NotJson
from antiphon.edge.protocols import realtime_v2
from antiphon.edge.protocols.chat import ChatDecoder, ChatMachine, decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder, DuplexMachine
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder, HalfDuplexMachine
from antiphon.edge.protocols.machine import Action, Forward, Phase
from antiphon.edge.protocols.realtime import RealtimeDecoder, RealtimeMachine
from antiphon.edge.protocols.realtime_codec import encode_realtime_error
from antiphon.edge.protocols.realtime_v2 import Negotiation
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    PausedOut,
    PrefillDoneOut,
    PreparedOut,
    ResumedOut,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.errors import InvalidInput
from support.edge_harness import base64_audio, no_uploaded_voices, picture, result
from support.protocol_driver import DrivenConnection, Frame, Granted, Protocol, Step

SETTINGS = EdgeSettings()
NO_REQUEST = "waiting for the request"
GRANTED = Granted()
PREPARED = PreparedOut(input_n=1, prompt_length=7)
FAILED = ErrorOut(code="inference_error", message="bad")
BROKEN = ErrorOut(code="inference_error", message="bad", fatal=True)
FULL = ErrorOut(code="context_full", message="full", fatal=True)
FINAL_ENTRIES = (StoppedOut(), TimeoutOut(reason="late", elapsed_s=60.0), BROKEN, FULL)
AUDIO = base64_audio(4000)
JPEG = pybase64.b64encode_as_string(picture())


def _frame(type_: str, **fields: Any) -> str:
    return orjson.dumps({"type": type_, **fields}).decode()


STOP = _frame("stop")
MISTAKES: dict[str, Frame] = {
    "an unknown `type`": _frame("sing"),
    "no object": "[1, 2]",
    "no JSON": "{",
    "a number out of range": '{"type":"stop","at":1e309}',
    "JSON nested 2000 deep": f'{{"type":"stop","at":{"[" * 2000}{"]" * 2000}}}',
    "a binary frame cut short": b"\x01\x02",
}


def _prepared(prepare: Frame, *then: Step) -> Sequence[Step]:
    return (GRANTED, prepare, PREPARED, *then)


_PREPARE = _frame("prepare", prefix_system_prompt="Be brief.", config={"chunk_ms": 1000})
_PAUSE = _frame("pause", timeout=5)
DUPLEX = Protocol(
    path="/ws/duplex/{session_id}",
    open=lambda: (DuplexDecoder(SETTINGS, no_uploaded_voices), DuplexMachine("adx_1", "rec")),
    setup={
        DuplexMachine.PHASE_TEXT[Phase.QUEUED]: (),
        DuplexMachine.PHASE_TEXT[Phase.QUEUED_PREPARED]: (_PREPARE,),
        DuplexMachine.PHASE_TEXT[Phase.ASSIGNED]: (GRANTED,),
        DuplexMachine.PHASE_TEXT[Phase.PREPARING]: (GRANTED, _PREPARE),
        DuplexMachine.PHASE_TEXT[Phase.ACTIVE]: _prepared(_PREPARE),
        DuplexMachine.PHASE_TEXT[Phase.PAUSED]: _prepared(_PREPARE, _PAUSE),
        DuplexMachine.PHASE_TEXT[Phase.STOPPING]: _prepared(_PREPARE, STOP),
    },
    messages={
        "prepare": _PREPARE,
        "audio_chunk": _frame("audio_chunk", audio=AUDIO),
        "video_frame": _frame("video_frame", frame=JPEG),
        "pause": _PAUSE,
        "resume": _frame("resume"),
        "playback_ack": _frame("playback_ack", played_ms=1200),
        "stop": STOP,
        "client_diagnostic": _frame("client_diagnostic", metrics={"fps": 1}),
    },
    mistakes={
        **MISTAKES,
        "`audio_chunk` without `audio`": _frame("audio_chunk"),
        "`audio_chunk` with NaN": _frame("audio_chunk", audio=base64_audio(4000, float("nan"))),
    },
    entries=(
        PREPARED,
        result(1),
        replace(result(2, speak=False), memo={"user": "What?"}, interim_user_text="Is"),
        PausedOut(input_n=1, timeout_s=5),
        ResumedOut(input_n=1),
        FAILED,
        *FINAL_ENTRIES,
    ),
    terminal=frozenset({"stopped", "timeout"}),
)

_HALF_PREPARE = _frame("prepare", system_prompt="Be brief.", config={"vad": {"threshold": 0.6}})
HALF_DUPLEX = Protocol(
    path="/ws/half_duplex/{session_id}",
    open=lambda: (HalfDuplexDecoder(SETTINGS), HalfDuplexMachine("hdx_1", "rec")),
    setup={
        HalfDuplexMachine.PHASE_TEXT[Phase.QUEUED]: (),
        HalfDuplexMachine.PHASE_TEXT[Phase.QUEUED_PREPARED]: (_HALF_PREPARE,),
        HalfDuplexMachine.PHASE_TEXT[Phase.ASSIGNED]: (GRANTED,),
        HalfDuplexMachine.PHASE_TEXT[Phase.PREPARING]: (GRANTED, _HALF_PREPARE),
        HalfDuplexMachine.PHASE_TEXT[Phase.ACTIVE]: _prepared(_HALF_PREPARE),
        HalfDuplexMachine.PHASE_TEXT[Phase.STOPPING]: _prepared(_HALF_PREPARE, STOP),
    },
    messages={
        "prepare": _HALF_PREPARE,
        "audio_chunk": _frame("audio_chunk", audio_base64=AUDIO),
        "stop": STOP,
    },
    mistakes={
        **MISTAKES,
        "`audio_chunk` without `audio_base64`": _frame("audio_chunk"),
        "`prepare` with a wrong threshold": _frame("prepare", config={"vad": {"threshold": 7}}),
    },
    entries=(
        PREPARED,
        VadOut(input_n=2, speaking=True),
        VadOut(input_n=3, speaking=True, interim_user_text="What is"),
        GeneratingOut(input_n=2, turn_index=0, speech_duration_ms=1200),
        DeltaOut(text_delta="Hi", audio=bytes(4)),
        TurnDoneOut(input_n=2, turn_index=0, text="Hi there."),
        FAILED,
        *FINAL_ENTRIES,
    ),
    terminal=frozenset({"stopped", "timeout"}),
)

_UPDATE = _frame("session.update", session={"instructions": "Be brief."})
_CLOSE = _frame("session.close", reason="user_stop")
_APPEND = "input_audio_buffer.append"
_PLAYED = "output_audio_buffer.playback_ack"
REALTIME = Protocol(
    path="/v1/realtime",
    open=lambda: (
        RealtimeDecoder(SETTINGS, video=True, playback_ack=True),
        RealtimeMachine("rt_1714200000000", "rec"),
    ),
    setup={
        RealtimeMachine.PHASE_TEXT[Phase.QUEUED]: (),
        RealtimeMachine.PHASE_TEXT[Phase.QUEUED_PREPARED]: (_UPDATE,),
        RealtimeMachine.PHASE_TEXT[Phase.ASSIGNED]: (GRANTED,),
        RealtimeMachine.PHASE_TEXT[Phase.PREPARING]: (GRANTED, _UPDATE),
        RealtimeMachine.PHASE_TEXT[Phase.ACTIVE]: _prepared(_UPDATE),
        RealtimeMachine.PHASE_TEXT[Phase.STOPPING]: _prepared(_UPDATE, _CLOSE),
    },
    messages={
        "session.update": _UPDATE,
        _APPEND: _frame(_APPEND, audio=AUDIO, video_frames=[JPEG]),
        _PLAYED: _frame(_PLAYED, played_ms=1200),
        "session.close": _CLOSE,
    },
    mistakes={
        **MISTAKES,
        "`session.update` without `session`": _frame("session.update"),
        f"`{_APPEND}` of 3999 samples": _frame(_APPEND, audio=base64_audio(3999)),
    },
    entries=(PREPARED, result(1), result(2, speak=False), FAILED, *FINAL_ENTRIES),
    terminal=frozenset({"session.closed"}),
    encode_error=encode_realtime_error,
    stop="session.close",
)


def _realtime_v2() -> tuple[RealtimeDecoder, RealtimeMachine]:
    negotiation = Negotiation()
    return (
        RealtimeDecoder(SETTINGS, video=True, playback_ack=True, negotiation=negotiation),
        RealtimeMachine("rt_1714200000000", "rec", negotiation=negotiation),
    )


_INIT = _frame("session.init", payload={"system_prompt": "Be brief."})
REALTIME_V2 = Protocol(
    path="/v1/realtime",
    version=", version 2",
    open=_realtime_v2,
    setup={
        realtime_v2.PHASE_TEXT[Phase.QUEUED]: (),
        realtime_v2.PHASE_TEXT[Phase.QUEUED_PREPARED]: (_INIT,),
        realtime_v2.PHASE_TEXT[Phase.ASSIGNED]: (GRANTED,),
        realtime_v2.PHASE_TEXT[Phase.PREPARING]: (GRANTED, _INIT),
        realtime_v2.PHASE_TEXT[Phase.ACTIVE]: _prepared(_INIT),
        realtime_v2.PHASE_TEXT[Phase.STOPPING]: _prepared(_INIT, _CLOSE),
    },
    messages={
        "session.init": _INIT,
        "input.append": _frame("input.append", input={"audio": AUDIO, "video_frames": [JPEG]}),
        _PLAYED: _frame(_PLAYED, played_ms=1200),
        "session.close": _CLOSE,
    },
    mistakes={
        **MISTAKES,
        "`session.init` with a wrong temperature": _frame(
            "session.init", payload={"config": {"temperature": 7}}
        ),
        "`input.append` without `audio`": _frame("input.append", input={}),
    },
    entries=(PREPARED, result(1), result(2, speak=False), FAILED, *FINAL_ENTRIES),
    terminal=frozenset({"session.closed"}),
    encode_error=encode_realtime_error,
    stop="session.close",
    errors_end=True,
)


class ChatConnection(DrivenConnection):
    """The first frame is the request; without a valid one there is no session."""

    @property
    def state(self) -> str:
        return super().state if self._machine else NO_REQUEST

    async def _step(self, step: Step) -> Sequence[Action]:
        if self._machine or isinstance(step, str | bytes):
            return await super()._step(step)
        return []

    async def _send(self, frame: Frame) -> Sequence[Action]:
        if self._machine:
            return await super()._send(frame)
        try:
            request = await decode_request(frame, SETTINGS, no_uploaded_voices)
        except (InvalidInput, NotJson) as error:
            return self._refuse(error, Close.POLICY)
        self._machine = ChatMachine("rec")
        self._machine.apply_input(request)
        return [Forward(request)]


_QUESTION = {"role": "user", "content": [{"type": "text", "text": "Hello."}]}
_REQUEST = orjson.dumps({"messages": [_QUESTION]}).decode()
CHAT = Protocol(
    path="/ws/chat",
    open=lambda: (ChatDecoder(SETTINGS), None),
    setup={
        NO_REQUEST: (),
        ChatMachine.PHASE_TEXT[Phase.QUEUED]: (_REQUEST,),
        ChatMachine.PHASE_TEXT[Phase.ACTIVE]: (_REQUEST, GRANTED),
        ChatMachine.PHASE_TEXT[Phase.STOPPING]: (_REQUEST, GRANTED, STOP),
    },
    messages={"the request": _REQUEST, "stop": STOP},
    mistakes={**MISTAKES, "a request without `messages`": '{"streaming": true}'},
    entries=(
        PrefillDoneOut(input_tokens=9),
        DeltaOut(text_delta="Hi", audio=bytes(4)),
        ChatDoneOut(text="Hi.", generated_tokens=2, input_tokens=9, duration_ms=12.5),
        BROKEN,
        FULL,
    ),
    terminal=frozenset({"done"}),
    connection=ChatConnection,
)

PROTOCOLS = {
    protocol.name: protocol for protocol in (DUPLEX, HALF_DUPLEX, CHAT, REALTIME, REALTIME_V2)
}
