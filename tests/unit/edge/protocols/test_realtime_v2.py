"""Version 2 of `/v1/realtime`: what its messages mean, what it sends, and how it ends."""

import io
import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pybase64
import pytest
import soundfile
from msgspec import structs

from antiphon.edge.errors import BudgetExceeded, ChatRequested, Close, Draining, NotJson, explain
from antiphon.edge.protocols.machine import Finish, Phase
from antiphon.edge.protocols.realtime import RealtimeDecoder, RealtimeMachine
from antiphon.edge.protocols.realtime_v2 import PHASE_TEXT, Negotiation
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    OutEntry,
    PrepareIn,
    ResultOut,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from support.edge_harness import base64_audio, picture, result
from support.protocol_driver import DrivenConnection, wires_of
from support.protocol_samples import GRANTED, PREPARED, REALTIME_V2, SETTINGS
from support.realtime_schema import CLIENT_V2, SERVER_V2, is_valid, valid_wires

SID, RECORDING = "rt_1714200000000", "rec"
AUDIO = base64_audio(16_000)
JPEG = pybase64.b64encode_as_string(picture())


def _frame(type_: str, **fields: Any) -> str:
    return json.dumps({"type": type_, **fields})


INIT = _frame("session.init", payload={"system_prompt": "Be brief."})
APPEND = _frame("input.append", input={"audio": AUDIO})


_wires = partial(valid_wires, direction=SERVER_V2)


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


async def test_settings_have_the_names_of_the_sdk_too() -> None:
    names = {"tts_enabled": False, "max_tokens": 9, "max_kv_tokens": 8192, "vision_hd": True}
    own = {"generate_audio": False, "max_new_speak_tokens_per_chunk": 9, "max_slice_nums": 4}
    assert (await _init(config=names)).config == DuplexConfig.model_validate(own)
    assert (await _init(config=dict.fromkeys(names))).config == DuplexConfig()
    both = {**names, "generate_audio": True, "max_tokens": 4096, "max_slice_nums": 2}
    config = (await _init(config=both)).config
    assert (config.generate_audio, config.max_slice_nums) == (True, 2)
    assert config.max_new_speak_tokens_per_chunk == 200
    for name, value in {"max_kv_tokens": 4096, "max_tokens": 0, "vision_hd": "yes"}.items():
        with pytest.raises(InvalidInput) as refused:
            await _init(config={name: value})
        assert refused.value.field == f"payload.config.{name}"


async def test_the_words_of_the_user_are_an_event_for_the_sdk() -> None:
    machine = RealtimeMachine(
        SID,
        RECORDING,
        transcript_events=True,
        negotiation=(await _machine(Phase.ACTIVE))._negotiation,
    )
    machine.phase = Phase.ACTIVE
    unit = structs.replace(_unit(""), is_listen=True, memo={"user": "Hello."})
    transcribed, listen = _wires(machine.deliver(unit, 0))
    assert transcribed["type"] == "input_audio_transcription.completed"
    assert (transcribed["text"], transcribed["session_id"]) == ("Hello.", RECORDING)
    assert (listen["kind"], listen["text"]) == ("listen", "")


@pytest.mark.parametrize("notices", [True, False])
async def test_clients_with_notices_are_told_that_an_answer_was_cut(notices: bool) -> None:
    negotiation = (await _machine(Phase.ACTIVE))._negotiation
    machine = RealtimeMachine(SID, RECORDING, notices=notices, negotiation=negotiation)
    machine.phase = Phase.ACTIVE
    [listen] = wires_of(
        machine.deliver(structs.replace(_unit(""), is_listen=True, interrupted=True), 0)
    )
    assert listen.get("interrupted") is (True if notices else None)


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


VOICES = {"ref_audio_base64": RAW_VOICE, "tts_ref_audio_base64": RAW_VOICE}
PREPARED_BARELY = PrepareIn(system_prompt="Hello.", config=DuplexConfig(), version=2)
PREPARED_WITH_VOICES = structs.replace(
    PREPARED_BARELY, ref_audio=VOICE.tobytes(), tts_ref_audio=VOICE.tobytes()
)
HEARD = ChunkIn(audio=bytes(64_000), max_slice_nums=1)
SEEN = structs.replace(HEARD, frames=(picture(),))
DEMO_PAGE = {"use_tts": True, "max_slice_nums": 1, "deferred_finalize": True}
ROBOT = {"generate_audio": True, "length_penalty": 1.1, "force_listen_count": 1}
REPLAYED = {"input_id": "0001", "video_frames": [], "force_listen": True, "max_slice_nums": 1}

CLIENTS: dict[str, tuple[dict[str, Any], dict[str, Any], PrepareIn, ChunkIn]] = {
    "the pages of the public demo": (
        {"system_prompt": "Hello.", "config": {"length_penalty": 1.05}, **VOICES, **DEMO_PAGE},
        {"video_frames": [JPEG], "max_slice_nums": 1},
        structs.replace(PREPARED_WITH_VOICES, config=DuplexConfig(length_penalty=1.05)),
        SEEN,
    ),
    "a robot": (
        {"system_prompt": "Hello.", "config": ROBOT, "use_tts": True, "voice": VOICES},
        {"force_listen": False, "max_slice_nums": 1},
        structs.replace(PREPARED_WITH_VOICES, config=DuplexConfig(force_listen_count=1)),
        HEARD,
    ),
    "a replay of recorded sessions": (
        {"system_prompt": "Hello.", "use_tts": True, "mode": "full_duplex"},
        REPLAYED,
        PREPARED_BARELY,
        structs.replace(HEARD, force_listen=True),
    ),
    "the example programs of the public demo": (
        {"system_prompt": "Hello."},
        {"video_frames": [JPEG], "force_listen": False, "max_slice_nums": 1},
        PREPARED_BARELY,
        SEEN,
    ),
    "a console with half-duplex input": (
        {},
        {"max_new_speak_tokens": 20, "force_speak": True},
        structs.replace(PREPARED_BARELY, system_prompt="You are a helpful assistant."),
        ChunkIn(audio=bytes(64_000)),
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_messages_of_known_clients(name: str) -> None:
    payload, sent, prepare, chunk = CLIENTS[name]
    frames = [_frame("session.init", payload=payload)]
    frames += [_frame("input.append", input={"audio": AUDIO, **sent})]
    assert all(is_valid(json.loads(frame), CLIENT_V2) for frame in frames)
    init, append = [await _decode(frame) for frame in frames]
    assert init == prepare
    assert structs.replace(append, audio=bytes(64_000)) == chunk
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
    return structs.replace(result(1), text=text, audio=sound, end_of_turn=ends)


async def test_each_unit_has_at_least_one_event_of_one_kind() -> None:
    connection, listen = await _active(), result(1, speak=False)
    units = [
        *(listen, _unit("Hi", bytes(8)), _unit(sound=bytes(8)), _unit(), listen),
        *(_unit("Yes.", ends=True), _unit("No."), listen),
    ]
    turns = [0, 1, 1, 1, 1, 2, 3, 3]
    units = [structs.replace(unit, turn=turn) for unit, turn in zip(units, turns, strict=True)]
    sent = [_wires(await connection.step(unit)) for unit in units]
    kinds = [[event["kind"] for event in events] for events in sent]
    assert kinds == [
        *(["listen"], ["text", "audio"], ["audio"], ["text"], ["listen"]),
        *(["text", "listen"], ["text"], ["listen"]),
    ]
    answers = [events[0]["response_id"].rpartition("_") for events in sent]
    assert [number for *_, number in answers] == [str(turn) for turn in turns]
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
    [created] = _wires(
        machine.deliver(structs.replace(PREPARED, usage=TokenUsage(input_text=7)), 0)
    )
    assert created["usage"]["input_tokens"] == 7
    total = used + used + TokenUsage(input_text=7)
    unit = structs.replace(_unit("Hi", bytes(8), ends=True), unit=1, usage=used, total_usage=total)
    deltas = _wires(machine.deliver(unit, 0))
    assert [delta["kind"] for delta in deltas] == ["text", "audio", "listen"]
    assert [delta.get("chunk_index") for delta in deltas] == [1, None, None]
    assert not any("chunk_usage" in delta for delta in deltas[1:])
    assert [delta.get("usage") for delta in deltas] == [deltas[0]["usage"]] * 2 + [None]
    assert deltas[0]["chunk_usage"] == {
        "input_tokens": 81,
        "output_tokens": 28,
        "total_tokens": 109,
        "input_token_details": {
            "text_tokens": 7,
            "audio_tokens": 10,
            "image_tokens": 0,
            "video_tokens": 64,
            "vision_tokens": 64,
            "cached_tokens": 0,
        },
        "output_token_details": {"text_tokens": 3, "audio_tokens": 25},
    }
    [closed] = _wires(machine.deliver(StoppedOut(), 0))
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


@pytest.mark.parametrize("phase", [Phase.QUEUED_PREPARED, Phase.PREPARING, Phase.ACTIVE])
async def test_a_resumable_session_ignores_a_repeated_init(phase: Phase) -> None:
    """A client that resumes cannot know whether its first one arrived."""
    machine = await _machine(phase)
    init = await _init()
    with pytest.raises(InvalidInput, match="not allowed"):
        machine.receive(init)
    again = RealtimeMachine(SID, RECORDING, resumable=True)
    active = phase is Phase.ACTIVE
    again.restore(
        init if active else None,
        [] if active else [init],
        granted=phase is not Phase.QUEUED_PREPARED,
    )
    assert list(again.receive(init)) == []
    assert again.phase is phase


async def test_a_prepared_session_is_created() -> None:
    machine = await _machine(Phase.PREPARING)
    [created] = _wires(machine.deliver(PREPARED, 0))
    expected = {"session_id": RECORDING, "prompt_length": 7, "mode": "full_duplex"}
    assert created == {"type": "session.created", **expected}
