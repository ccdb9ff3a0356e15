"""Recordings of half-duplex and chat sessions: their contents, and that no crash changes a byte."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.recorder_service.media import media_suffix
from antiphon.recorder_service.replay.merge import merge
from antiphon.shared_schemas.audio import Samples, to_pcm16
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import flatten
from antiphon.shared_schemas.entries import (
    ChatIn,
    Entry,
    ErrorOut,
    GeneratingOut,
    PreparedOut,
    StreamPosition,
    VadOut,
)
from antiphon.shared_schemas.file_kinds import QUICKTIME_BOXES
from antiphon.shared_schemas.recording import RecordingState, TurnRecording
from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.unit_result import TokenUsage
from support.recorder_conversations import (
    Script,
    assert_same,
    keep_going,
    read_wav,
    record_in_order,
    record_undisturbed,
    sound,
    tree,
)
from support.tools import WEATHER, asks_weather, calls_weather, weather_result
from support.turn_conversations import (
    MOVIE,
    T0,
    chat_done,
    chat_request,
    chat_talk,
    delta,
    generating,
    half_duplex_talk,
    half_prepare,
    numbered,
    picture,
    turn_done,
)

TICKET = 7
ENDING = SessionEnding(at=int(T0) + 60_000, reason=EndReason.STOPPED, worker="w1")
HALF = RecordingJob(sid="hdx_1", ticket=TICKET, kind=SessionKind.HALF_DUPLEX, recording="ab" * 16)
CHAT = RecordingJob(sid="cht_1", ticket=TICKET, kind=SessionKind.CHAT, recording="cd" * 16)


def finish(
    root: Path, job: RecordingJob, entries: Script, ending: SessionEnding = ENDING
) -> dict[str, bytes]:
    return record_in_order(root, job, entries, ending)


def turns_of(files: dict[str, bytes]) -> list[dict[str, Any]]:
    TurnRecording.model_validate_json(files["recording.json"])
    turns: list[dict[str, Any]] = orjson.loads(files["recording.json"])["turns"]
    return turns


def test_a_takeover_while_finishing_damages_nothing(tmp_path: Path) -> None:
    entries = numbered(half_duplex_talk(), TICKET)
    expected = record_undisturbed(tmp_path / "quiet", HALF, entries, ENDING)
    first, second = RecordingFolder(tmp_path, HALF), RecordingFolder(tmp_path, HALF)
    for entry in entries:
        first.add(*entry)
        second.add(*entry)
    assert first.finish(ENDING) is RecordingState.COMPLETE
    merge(first.path, keep_going)
    with pytest.raises(FileNotFoundError):
        second.finish(ENDING)
    with pytest.raises(FileNotFoundError):
        second.add("out", StreamPosition(TICKET, 1, 99), delta(9))
    assert_same(tree(first.path), expected)


def test_speech_that_continues_is_no_event(tmp_path: Path) -> None:
    """Each change of the interim transcript is an entry of the stream."""
    talk = half_duplex_talk()
    talk.insert(5, ("out", VadOut(input_n=3, speaking=True, interim_user_text="What")))
    files = finish(tmp_path, HALF, numbered(talk, TICKET))
    events = orjson.loads(files["recording.json"])["events"]
    assert [event["speaking"] for event in events if event["type"] == "vad"] == [True, False]


def test_the_outcome_of_each_half_duplex_turn(tmp_path: Path) -> None:
    files = finish(tmp_path, HALF, numbered(half_duplex_talk(), TICKET))
    answered, broken, failed, left = turns_of(files)
    assert answered["input"] == {
        "text": "question 0",
        "audio": "user_audio/000.wav",
        "audio_duration_ms": 100,
        "speech_ms": 90,
    }
    assert answered["output"] == {
        "text": "w0 and w1 ",
        "audio": "ai_audio/turn_0.wav",
        "audio_duration_ms": 82,
    }
    assert answered["timing"] == {
        "elapsed_ms": 123.5,
        "first_delta_ms": 100.0,
        "tokens": 5,
        "kv_cache_length": 200,
    }
    assert (answered["request_ts_ms"], answered["done_ts_ms"]) == (600.0, 1100.0)
    assert not {"stopped", "failed", "unfinished"} & set(answered)
    assert broken["stopped"] is True
    assert failed["failed"] is True
    assert "audio" not in failed["output"]
    assert (left["stopped"], left["unfinished"]) == (True, True)
    assert left["output"]["text"] == "w3 w4 "
    assert left["output"]["audio"] == "ai_audio/turn_3.wav"
    found = orjson.loads(files["recording.json"])
    assert found["mode"] == "half_duplex"
    assert [event["type"] for event in found["events"]] == [
        *("half_prepare", "prepared", "vad", "vad", "break", "error", "stop", "stopped")
    ]
    assert [e.get("speaking") for e in found["events"][2:4]] == [True, False]
    assert found["events"][2]["ts_ms"] == 300.0
    assert "missing" not in found
    times = [event["ts_ms"] for event in found["events"]]
    assert times == sorted(times)
    folder = tmp_path / HALF.recording
    for index in range(4):
        assert_sound(
            folder / f"user_audio/{index:03d}.wav", 16000, sound(500 + index, 1601 + index)
        )
    assert_sound(folder / "ai_audio/turn_0.wav", 24000, sound(600, 1200), sound(601, 777))
    assert_sound(folder / "ai_audio/turn_1.wav", 24000, sound(602, 1200))
    assert_sound(folder / "ai_audio/turn_3.wav", 24000, sound(603, 1200), sound(604, 1200))
    assert_sound(folder / "ref_audio.wav", 16000, sound(77, 800))
    assert_sound(folder / "system_audio_0.wav", 16000, sound(70, 300))
    assert len(list((folder / "ai_audio").iterdir())) == 3
    assert len(list((folder / "user_audio").iterdir())) == 4
    config = orjson.loads(files["meta.json"])["config"]
    assert config == found["config"]
    assert config["system_prompt"] == "Be kind. Be brief."
    assert config["vad"]["threshold"] == 0.5
    assert config["ref_audio"] == "ref_audio.wav"
    assert config["system_media"] == ["system_audio_0.wav"]
    meta = read_meta(tmp_path / HALF.recording)
    assert meta is not None
    assert (meta.turns, meta.chunks, meta.state) == (4, None, RecordingState.COMPLETE)


def assert_sound(path: Path, rate: int, *pieces: Samples) -> None:
    actual_rate, samples = read_wav(path)
    assert actual_rate == rate
    np.testing.assert_array_equal(samples, to_pcm16(np.concatenate(pieces)))


@pytest.mark.parametrize("streamed", [True, False])
def test_everything_of_a_chat_is_kept(tmp_path: Path, streamed: bool) -> None:
    files = finish(tmp_path, CHAT, numbered(chat_talk(streamed=streamed), TICKET))
    folder, found = tmp_path / CHAT.recording, orjson.loads(files["recording.json"])
    assert_sound(folder / "user_audio/000.wav", 16000, sound(1, 1600))
    assert_sound(folder / "user_audio/001.wav", 16000, sound(2, 801))
    assert (folder / "user_images/img_0.png").read_bytes() == picture("PNG")
    assert (folder / "user_images/img_1.jpg").read_bytes() == picture("JPEG")
    assert (folder / "user_images/img_2.webp").read_bytes() == picture("WEBP")
    assert (folder / "user_videos/video_0.mp4").read_bytes() == MOVIE
    whole = [sound(600 + i, 1000 + i) for i in range(5)] if streamed else [sound(800, 4801)]
    assert_sound(folder / "ai_audio/turn_0.wav", 24000, *whole)
    assert (found["mode"], found["config"]["system_prompt"]) == ("chat", "Be brief.")
    assert found["config"]["generation"]["max_new_tokens"] == 99
    (turn,) = found["turns"]
    assert turn["input"]["text"] == "And this?"
    assert turn["input"]["audio"] == "user_audio/000.wav"
    assert turn["input"]["audios"] == ["user_audio/000.wav", "user_audio/001.wav"]
    assert turn["input"]["images"] == [
        *("user_images/img_0.png", "user_images/img_1.jpg", "user_images/img_2.webp")
    ]
    assert turn["input"]["videos"] == ["user_videos/video_0.mp4"]
    assert turn["input"]["audio_duration_ms"] == 150
    assert [message["role"] for message in turn["input"]["messages"]] == [
        *("system", "user", "assistant", "user")
    ]
    assert turn["input"]["messages"][1]["parts"][1] == {
        "type": "audio",
        "file": "user_audio/000.wav",
        "duration_ms": 100,
    }
    assert turn["output"]["text"] == "w0 w1 w2 w3 w4 "
    assert turn["timing"]["elapsed_ms"] == 322.0
    assert (turn["timing"]["tokens"], turn["timing"]["input_tokens"]) == (7, 42)
    assert not {"stopped", "failed", "unfinished"} & set(turn)


def test_a_greeting_is_a_turn_without_a_question(tmp_path: Path) -> None:
    talk: list[tuple[str, Entry]] = [
        *(("in", half_prepare()), ("out", PreparedOut(input_n=1, prompt_length=12))),
        ("out", GeneratingOut(input_n=1, turn_index=0, speech_duration_ms=0)),
        *(("out", delta(0)), ("out", turn_done(0, 1, "w0 ", memo={}))),
    ]
    files = finish(tmp_path, HALF, numbered(talk, TICKET))
    [greeting] = turns_of(files)
    assert greeting["input"] == {}
    assert greeting["output"]["text"] == "w0 "
    assert greeting["output"]["audio"] == "ai_audio/turn_0.wav"
    assert not any(name.startswith("user_audio") for name in files)


def test_tokens_are_recorded_if_the_engine_counts_them(tmp_path: Path) -> None:
    read, spoken = TokenUsage(input_text=12), TokenUsage(input_audio=10, output_text=3)
    talk: list[tuple[str, Entry]] = [
        *(("in", half_prepare()), ("out", PreparedOut(input_n=1, prompt_length=12, usage=read))),
        *(("out", generating(0, 1)), ("out", turn_done(0, 1, "w0 ", usage=spoken))),
        *(("out", generating(1, 1)), ("out", turn_done(1, 1, "w1 "))),
    ]
    files = finish(tmp_path, HALF, numbered(talk, TICKET))
    first, second = turns_of(files)
    assert TokenUsage(**first["usage"]) == spoken
    assert "usage" not in second
    events = orjson.loads(files["recording.json"])["events"]
    assert TokenUsage(**events[1]["usage"]) == read


def test_calls_of_tools_are_recorded(tmp_path: Path) -> None:
    history = [asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome", "sunny")]
    content, blobs = flatten([*history, asks_weather("Paris")])
    asked = ChatIn(content=content, blobs=blobs, options=ChatOptions(tools=[WEATHER]))
    calls = [call.wire() for call in calls_weather("Paris").tool_calls]
    talk: list[tuple[str, Entry]] = [("in", asked), ("out", chat_done("", tool_calls=calls))]
    files = finish(tmp_path, CHAT, numbered(talk, TICKET))
    (turn,) = turns_of(files)
    assert turn["output"] == {"text": "", "tool_calls": calls}
    assert turn["input"]["text"] == "weather Paris"
    _, called, result, _ = turn["input"]["messages"]
    assert called["tool_calls"] == [call.wire() for call in history[1].tool_calls]
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_Rome")
    assert orjson.loads(files["recording.json"])["config"]["tools"] == [WEATHER]


def test_a_failed_chat_and_one_without_a_request(tmp_path: Path) -> None:
    error = ErrorOut(input_n=1, code="inference_error", message="no", fatal=True)
    files = finish(tmp_path / "a", CHAT, numbered([("in", chat_request()), ("out", error)], TICKET))
    (turn,) = turns_of(files)
    assert (turn["failed"], turn["unfinished"]) == (True, True)
    assert turn["output"] == {"text": ""}
    silence = numbered([("out", ErrorOut(code="not_ready", message="no", fatal=True))], TICKET)
    assert turns_of(finish(tmp_path / "b", CHAT, silence)) == []


def test_an_answer_that_was_started_again_keeps_everything_that_was_sent(tmp_path: Path) -> None:
    talk = [("in", chat_request()), ("out", delta(1)), ("out", delta(2)), ("out", chat_done("w2 "))]
    files = finish(tmp_path, CHAT, numbered(talk, TICKET, after=2))
    (turn,) = turns_of(files)
    assert (turn["output"]["text"], turn["output"]["streamed_text"]) == ("w2 ", "w1 w2 ")
    assert turn["output"]["audio_duration_ms"] == 100


@pytest.mark.parametrize("lost", range(1, 12))
def test_a_lost_entry_is_listed_and_turns_stay_separate(tmp_path: Path, lost: int) -> None:
    talk = [("in", half_prepare())]
    for i in range(4):
        talk += [("out", generating(i, 1)), ("out", delta(i)), ("out", turn_done(i, 1, f"w{i} "))]
    script = [e for e in numbered(talk, TICKET) if not (e[0] == "out" and e[1].n == lost)]
    turns = turns_of(finish(tmp_path, HALF, script))
    assert [turn["index"] for turn in turns] == [0, 1, 2, 3]
    meta = read_meta(tmp_path / HALF.recording)
    assert meta is not None
    assert meta.state is RecordingState.INTERRUPTED
    assert [(gap.stream, gap.first, gap.last) for gap in meta.missing] == [("out", lost, lost)]
    for i, turn in enumerate(turns):
        if "audio" in turn["output"]:
            _, samples = read_wav(tmp_path / HALF.recording / turn["output"]["audio"])
            np.testing.assert_array_equal(samples, to_pcm16(sound(600 + i, 1200)))
        else:
            assert lost == 3 * i + 2


def test_only_the_first_request_counts(tmp_path: Path) -> None:
    other = ChatIn(content=[{"role": "user", "parts": []}], options=chat_request().options)
    talk = [*chat_talk(), ("in", other)]
    (turn,) = turns_of(finish(tmp_path, CHAT, numbered(talk, TICKET)))
    assert turn["input"]["text"] == "And this?"


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\xff\xd8\xff\xe0", "jpg"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"RIFF\0\0\0\0WEBPVP8", "webp"),
        (b"\0\0\0\x18ftypisom", "mp4"),
        (b"\0\0\0\x14ftypqt  ", "mov"),
        *((b"\0\0\0\x08" + box + bytes(8), "mov") for box in sorted(QUICKTIME_BOXES - {b"ftyp"})),
        (b"\x1aE\xdf\xa3", "webm"),
        (b"", "bin"),
    ],
)
def test_files_are_named_by_their_content(data: bytes, form: str) -> None:
    assert media_suffix(data) == form
