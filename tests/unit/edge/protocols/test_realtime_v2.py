"""Version 2 of `/v1/realtime`: what its messages mean, what it sends, and how it ends."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pybase64
import pytest
import soundfile

from antiphon.edge.errors import BudgetExceeded, ChatRequested, Close, Draining, NotJson, explain
from antiphon.edge.protocols.machine import Action, Actions, Finish, Forward, Phase
from antiphon.edge.protocols.realtime import RealtimeDecoder, RealtimeMachine
from antiphon.edge.protocols.realtime_v2 import PHASE_TEXT, Negotiation
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    OutEntry,
    PlaybackIn,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from support.edge_harness import base64_audio, picture, result
from support.protocol_driver import DrivenConnection, wires_of
from support.protocol_samples import GRANTED, PREPARED, REALTIME_V2, SETTINGS
from support.realtime_schema import CLIENT_V2, SERVER_V2, is_valid

SID, RECORDING = "rt_1714200000000", "rec"
AUDIO = base64_audio(16_000)
JPEG = pybase64.b64encode_as_string(picture())


def _frame(type_: str, **fields: Any) -> str:
    return json.dumps({"type": type_, **fields})


INIT = _frame("session.init", payload={"system_prompt": "Be brief."})
APPEND = _frame("input.append", input={"audio": AUDIO})


def _wires(actions: Actions) -> list[dict[str, Any]]:
    wires = wires_of(actions)
    assert all(is_valid(wire, SERVER_V2) for wire in wires), wires
    return wires


async def _decode(frame: str, *, video: bool = True) -> Any:
    return await RealtimeDecoder(SETTINGS, video=video).decode(frame)


async def _init(**payload: Any) -> PrepareIn:
    entry = await _decode(_frame("session.init", payload=payload))
    assert isinstance(entry, PrepareIn)
    return entry


def _wav(samples: np.ndarray[Any, Any], rate: int) -> str:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
    return pybase64.b64encode_as_string(file.getvalue())


VOICE = np.linspace(-0.5, 0.5, 1600, dtype=np.float32)
RAW_VOICE = pybase64.b64encode_as_string(VOICE.tobytes())


async def test_an_empty_payload_has_the_defaults() -> None:
    entry = await _decode(_frame("session.init"))
    assert entry == PrepareIn(system_prompt="You are a helpful assistant.", config=DuplexConfig())


async def test_the_prompt_has_two_names() -> None:
    assert (await _init(instructions="One.")).system_prompt == "One."
    assert (await _init(system_prompt="Two.", instructions="One.")).system_prompt == "Two."


async def test_voices_are_raw_samples_or_wav() -> None:
    raw = await _init(voice={"ref_audio_base64": RAW_VOICE, "tts_ref_audio_base64": RAW_VOICE})
    assert raw.ref_audio == raw.tts_ref_audio == VOICE.tobytes()
    short = await _init(voice={"ref_audio": RAW_VOICE, "tts_ref_audio": RAW_VOICE})
    assert (short.ref_audio, short.tts_ref_audio) == (raw.ref_audio, raw.tts_ref_audio)
    wav = await _init(voice={"ref_audio_base64": _wav(VOICE, 16_000)})
    assert np.allclose(np.frombuffer(wav.ref_audio, "<f4"), VOICE, atol=1e-3)
    assert wav.tts_ref_audio == b""


async def test_the_settings_reach_the_engine() -> None:
    config = {
        "listen_prob_scale": 2.0,
        "force_listen_count": 1,
        "length_penalty": 1.05,
        "temperature": 0,
        "top_k": 5,
        "top_p": 0.5,
        "max_new_speak_tokens_per_chunk": 9,
        "ls_mode": "implicit",
        "chunk_ms": 500,
        "generate_audio": False,
        "max_slice_nums": 3,
    }
    assert (await _init(config=config)).config == DuplexConfig.model_validate(config)
    assert not (await _init(use_tts=False)).config.generate_audio
    assert (await _init(max_slice_nums=2)).config.max_slice_nums == 2
    assert not (await _init(record=False)).config.record


async def test_hints_are_another_place_of_two_fields() -> None:
    plain = {"audio": AUDIO, "force_listen": True, "max_slice_nums": 2}
    hinted = {"audio": AUDIO, "hints": {"force_listen": True, "max_slice_nums": 2}}
    one, other = [await _decode(_frame("input.append", input=asked)) for asked in (plain, hinted)]
    assert one == other
    assert (one.force_listen, one.max_slice_nums) == (True, 2)


async def test_audio_sessions_ignore_frames() -> None:
    frame = _frame("input.append", input={"audio": AUDIO, "video_frames": [JPEG]})
    assert len((await _decode(frame)).frames) == 1
    assert (await _decode(frame, video=False)).frames == ()


CLIENTS: dict[str, tuple[list[dict[str, Any]], PrepareIn, ChunkIn]] = {
    "the pages of the public demo": (
        [
            {
                "type": "session.init",
                "payload": {
                    "system_prompt": "Hello.",
                    "config": {"length_penalty": 1.05},
                    "ref_audio_base64": RAW_VOICE,
                    "tts_ref_audio_base64": RAW_VOICE,
                    "use_tts": True,
                    "max_slice_nums": 1,
                    "deferred_finalize": True,
                },
            },
            {
                "type": "input.append",
                "input": {"audio": AUDIO, "video_frames": [JPEG], "max_slice_nums": 1},
            },
        ],
        PrepareIn(
            system_prompt="Hello.",
            config=DuplexConfig(length_penalty=1.05),
            ref_audio=VOICE.tobytes(),
            tts_ref_audio=VOICE.tobytes(),
        ),
        ChunkIn(audio=bytes(64_000), frames=(picture(),), max_slice_nums=1),
    ),
    "a robot": (
        [
            {
                "type": "session.init",
                "payload": {
                    "system_prompt": "Hello.",
                    "config": {
                        "generate_audio": True,
                        "length_penalty": 1.1,
                        "force_listen_count": 1,
                    },
                    "use_tts": True,
                    "voice": {"ref_audio_base64": RAW_VOICE, "tts_ref_audio_base64": RAW_VOICE},
                },
            },
            {
                "type": "input.append",
                "input": {"audio": AUDIO, "force_listen": False, "max_slice_nums": 1},
            },
        ],
        PrepareIn(
            system_prompt="Hello.",
            config=DuplexConfig(force_listen_count=1),
            ref_audio=VOICE.tobytes(),
            tts_ref_audio=VOICE.tobytes(),
        ),
        ChunkIn(audio=bytes(64_000), max_slice_nums=1),
    ),
    "a replay of recorded sessions": (
        [
            {
                "type": "session.init",
                "payload": {"system_prompt": "Streaming.", "use_tts": True, "mode": "full_duplex"},
            },
            {
                "type": "input.append",
                "input": {
                    "input_id": "0001",
                    "audio": AUDIO,
                    "video_frames": [],
                    "force_listen": True,
                    "max_slice_nums": 1,
                },
            },
        ],
        PrepareIn(system_prompt="Streaming.", config=DuplexConfig()),
        ChunkIn(audio=bytes(64_000), force_listen=True, max_slice_nums=1),
    ),
    "the example programs of the public demo": (
        [
            {"type": "session.init", "payload": {"system_prompt": "Look."}},
            {
                "type": "input.append",
                "input": {
                    "audio": AUDIO,
                    "video_frames": [JPEG],
                    "force_listen": False,
                    "max_slice_nums": 1,
                },
            },
        ],
        PrepareIn(system_prompt="Look.", config=DuplexConfig()),
        ChunkIn(audio=bytes(64_000), frames=(picture(),), max_slice_nums=1),
    ),
    "a console with half-duplex input": (
        [
            {"type": "session.init", "payload": {}},
            {
                "type": "input.append",
                "input": {"audio": AUDIO, "max_new_speak_tokens": 20, "force_speak": True},
            },
        ],
        PrepareIn(system_prompt="You are a helpful assistant.", config=DuplexConfig()),
        ChunkIn(audio=bytes(64_000)),
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_messages_of_known_clients(name: str) -> None:
    messages, prepare, chunk = CLIENTS[name]
    assert all(is_valid(message, CLIENT_V2) for message in messages)
    init, append = [await _decode(json.dumps(message)) for message in messages]
    assert init == prepare
    assert replace(append, audio=bytes(64_000)) == chunk
    assert len(append.audio) == 64_000


@pytest.mark.parametrize("mode", ["turn_based", "full_duplex", None])
@pytest.mark.parametrize("may_chat", [True, False])
async def test_only_a_first_init_on_a_url_without_mode_may_ask_for_chat(
    mode: str | None, may_chat: bool
) -> None:
    decoder = RealtimeDecoder(SETTINGS, video=True, negotiation=Negotiation(may_chat=may_chat))
    frame = _frame("session.init", payload={"mode": mode})
    if may_chat and mode == "turn_based":
        with pytest.raises(ChatRequested):
            await decoder.decode(frame)
    else:
        assert isinstance(await decoder.decode(frame), PrepareIn)
    assert isinstance(await decoder.decode(frame), PrepareIn)


@pytest.mark.parametrize(
    ("frames", "version"),
    [
        ([INIT], 2),
        ([APPEND], 2),
        ([_frame("session.update", session={"instructions": "Hi."}), INIT], 1),
        ([_frame("input_audio_buffer.append", audio=AUDIO), INIT], 1),
        ([_frame("session.close"), _frame("sing"), "[]", INIT], 2),
        ([INIT, _frame("session.update", session={"instructions": "Hi."})], 2),
    ],
)
async def test_the_first_known_message_decides_the_version(frames: list[str], version: int) -> None:
    negotiation = Negotiation()
    decoder = RealtimeDecoder(SETTINGS, video=True, negotiation=negotiation)
    for frame in frames[:-1]:
        try:
            await decoder.decode(frame)
        except InvalidInput:
            assert frame not in (INIT, APPEND)
    try:
        await decoder.decode(frames[-1])
    except InvalidInput as error:
        assert error.code == ErrorCode.UNKNOWN_TYPE  # noqa: PT017 - the other version's message
    assert negotiation.version == version


async def _active() -> DrivenConnection:
    return await REALTIME_V2.at("active")


def _unit(text: str = "", sound: bytes = b"", *, ends: bool = False) -> ResultOut:
    return replace(result(1), text=text, audio=sound, end_of_turn=ends)


async def test_each_unit_has_at_least_one_event_of_one_kind() -> None:
    connection, listen = await _active(), result(1, speak=False)
    units = [
        *(listen, _unit("Hi", bytes(8)), _unit(sound=bytes(8)), _unit(), listen),
        *(_unit("Yes.", ends=True), _unit("No."), listen),
    ]
    sent = [_wires(await connection.step(unit)) for unit in units]
    kinds = [[event["kind"] for event in events] for events in sent]
    assert kinds == [
        *(["listen"], ["text", "audio"], ["audio"], ["text"], ["listen"]),
        *(["text", "listen"], ["text"], ["listen"]),
    ]
    answers = [events[0]["response_id"].rpartition("_") for events in sent]
    assert [number for *_, number in answers] == ["0", "1", "1", "1", "1", "2", "3", "3"]
    assert {event["session_id"] for events in sent for event in events} == {RECORDING}
    unit = units[1]
    [text, audio] = sent[1]
    assert (text["text"], pybase64.b64decode(audio["audio"])) == ("Hi", bytes(8))
    assert text["metrics"] == audio["metrics"]
    assert text["metrics"]["kv_cache_length"] == unit.kv_cache_length
    assert text["metrics"]["wall_clock_ms"] == unit.wall_clock_ms


async def test_tokens_are_counted_by_unit_and_by_session() -> None:
    used = TokenUsage(input_text=7, input_audio=10, input_vision=64, output_text=3, output_audio=25)
    machine = await _machine(Phase.PREPARING)
    [created] = _wires(machine.deliver(replace(PREPARED, usage=TokenUsage(input_text=7)), 0))
    assert created["usage"]["input_tokens"] == 7
    machine.deliver(replace(_unit("Hi"), usage=used), 0)
    deltas = _wires(machine.deliver(replace(_unit("Hi", bytes(8), ends=True), usage=used), 0))
    assert [delta["kind"] for delta in deltas] == ["text", "audio", "listen"]
    assert [delta.get("chunk_index") for delta in deltas] == [1, None, None]
    assert not any("usage" in delta or "chunk_usage" in delta for delta in deltas[1:])
    assert deltas[0]["chunk_usage"] == {
        "input_tokens": 81,
        "output_tokens": 28,
        "total_tokens": 109,
        "input_token_details": {
            "text_tokens": 7,
            "audio_tokens": 10,
            "image_tokens": 0,
            "video_tokens": 64,
            "cached_tokens": 0,
        },
        "output_token_details": {"text_tokens": 3, "audio_tokens": 25},
    }
    again = RealtimeMachine(SID, RECORDING)
    again.restore(json.loads(json.dumps(machine.snapshot())), [])
    [closed] = _wires(again.deliver(StoppedOut(), 0))
    assert closed["usage"]["total_tokens"] == 7 + 109 * 2
    assert deltas[0]["usage"] == closed["usage"]


@pytest.mark.parametrize(
    ("entry", "reason", "close", "errors"),
    [
        (TimeoutOut(reason="no audio for 60 s"), "timeout", Close.NORMAL, []),
        (ErrorOut(code="context_full", message="full"), "context_full", Close.NORMAL, []),
        (ErrorOut(code="inference_error", message="bad"), "error", Close.INTERNAL, ["error"]),
        (
            *(ErrorOut(code="inference_error", message="bad", fatal=True), "error"),
            *(Close.INTERNAL, ["error"]),
        ),
    ],
)
async def test_entries_that_end_a_session(
    entry: OutEntry, reason: str, close: Close, errors: list[str]
) -> None:
    actions = await (await _active()).step(entry)
    *before, closed = _wires(actions)
    assert [event["type"] for event in before] == errors
    assert (closed["type"], closed["reason"]) == ("session.closed", reason)
    assert closed["diagnostic"]["message"]
    assert closed["session_id"] == RECORDING
    assert isinstance(actions[-1], Finish)
    assert actions[-1].close is close


async def test_an_end_that_the_client_asked_for_has_no_diagnostic() -> None:
    """The public demo's chat page shows a diagnostic, and other reasons than this one, as an error."""
    [closed] = _wires(await (await _active()).step(StoppedOut()))
    assert (closed["reason"], "diagnostic" in closed) == ("client_closed", False)


async def _machine(phase: Phase) -> RealtimeMachine:
    connection = await REALTIME_V2.at(PHASE_TEXT[phase])
    machine: RealtimeMachine = connection._machine
    machine._negotiation.version = 2
    return machine


@pytest.mark.parametrize(
    ("error", "reason", "close"),
    [
        (InvalidInput("audio: wrong", field="audio"), "error", Close.POLICY),
        (NotJson("not JSON"), "error", Close.UNSUPPORTED),
        (BudgetExceeded("too much"), "error", Close.TRY_LATER),
        (ValueError("a defect"), "error", Close.INTERNAL),
    ],
)
async def test_every_error_ends_the_session(error: Exception, reason: str, close: Close) -> None:
    machine = await _machine(Phase.ACTIVE)
    actions = machine.report(explain(error))
    [report, closed] = _wires(actions)
    assert report["type"] == "error"
    diagnostic = {"message": report["error"]["message"]}
    assert (closed["reason"], closed["diagnostic"]) == (reason, diagnostic)
    assert closed["session_id"] == RECORDING
    assert actions[-1] == Finish(close, EndReason.ERROR)
    assert machine.phase is Phase.OVER


async def test_a_shutdown_is_no_error() -> None:
    machine = await _machine(Phase.ACTIVE)
    actions = machine.report(replace(explain(Draining()), close=Close.RESTART))
    assert [wire["type"] for wire in _wires(actions)] == ["session.closed"]
    assert actions[-1] == Finish(Close.RESTART, EndReason.SERVER_SHUTDOWN)


async def test_audio_that_comes_too_fast_is_dropped() -> None:
    machine = await _machine(Phase.ACTIVE)
    error = InvalidInput("too fast", code=ErrorCode.INPUT_BACKPRESSURE)
    assert list(machine.report(explain(error))) == []
    assert machine.phase is Phase.ACTIVE


async def test_a_waiting_session_closes_at_once() -> None:
    connection = await REALTIME_V2.at("queued and its session.init is kept")
    actions = await connection.step(_frame("session.close"))
    closed = {"type": "session.closed", "reason": "client_closed", "session_id": RECORDING}
    assert _wires(actions) == [closed]
    assert actions[-1] == Finish(Close.NORMAL, EndReason.STOPPED)


@pytest.mark.parametrize("reason", [*EndReason, None])
async def test_every_end_is_worded_for_version_2(reason: EndReason | None) -> None:
    machine = await _machine(Phase.ACTIVE)
    *_, closed = _wires(machine.ended(reason))
    assert closed["type"] == "session.closed"


async def test_every_message_of_the_samples_fits_the_schema() -> None:
    for frame in REALTIME_V2.messages.values():
        assert isinstance(frame, str)
        message = json.loads(frame)
        assert is_valid(message, CLIENT_V2) or "playback_ack" in message["type"]
    frames = [*REALTIME_V2.messages.values(), *REALTIME_V2.mistakes.values()]
    for state in REALTIME_V2.setup:
        units = REALTIME_V2.entries if state not in ("queued", "connected") else ()
        for step in [GRANTED, *frames, *units]:
            connection = await REALTIME_V2.at(state)
            _wires(await connection.step(step))


async def test_a_restored_session_continues_its_answer() -> None:
    machine = await _machine(Phase.ACTIVE)
    machine.deliver(_unit("Hi"), 0)
    again = RealtimeMachine(SID, RECORDING)
    again.restore(json.loads(json.dumps(machine.snapshot())), [])
    one, other = machine.deliver(_unit("you"), 5), again.deliver(_unit("you"), 5)
    assert _wires(one) == _wires(other)
    assert again.receive(ChunkIn(audio=b"abcd")) == [Forward(ChunkIn(audio=b"abcd"))]


async def test_input_in_flight_of_a_closing_session_is_ignored() -> None:
    machine = await _machine(Phase.STOPPING)
    commands: list[Any] = [ChunkIn(audio=b"abcd"), PlaybackIn(played_ms=1), StopIn()]
    sent: list[Action] = [a for command in commands for a in machine.receive(command)]
    assert sent == []


@pytest.mark.parametrize("phase", [Phase.QUEUED_PREPARED, Phase.PREPARING, Phase.ACTIVE])
async def test_a_resumable_session_ignores_a_repeated_init(phase: Phase) -> None:
    """A client that resumes cannot know whether its first one arrived."""
    machine = await _machine(phase)
    init = await _init()
    with pytest.raises(InvalidInput, match="not allowed"):
        machine.receive(init)
    again = RealtimeMachine(SID, RECORDING, resumable=True)
    again.restore(json.loads(json.dumps(machine.snapshot())), list(machine.held))
    assert list(again.receive(init)) == []
    assert again.phase is phase


async def test_the_prepared_session_is_created_once() -> None:
    machine = await _machine(Phase.PREPARING)
    [created] = _wires(machine.deliver(PREPARED, 0))
    expected = {"session_id": RECORDING, "prompt_length": 7, "mode": "full_duplex"}
    assert created == {"type": "session.created", **expected}
    assert machine.deliver(PREPARED, 0) == []
