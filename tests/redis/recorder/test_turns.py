"""The recorder on real half-duplex and chat streams: every sample and every file is kept."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.service import run
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import Samples, to_pcm16
from antiphon.shared_schemas.entries import Entry
from antiphon.shared_schemas.recording import RecordingState
from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import (
    LiveTalk,
    assert_undisturbed,
    read_wav,
    sound,
    until_acknowledged,
    until_finished,
)
from support.turn_conversations import MOVIE, chat_talk, half_duplex_talk, picture


@pytest.fixture
async def sessions(settings: BrokerSettings, tmp_path: Path) -> AsyncIterator[Path]:
    quick = {"recorder_silence_s": 1.0, "recorder_settle_s": 0.2, "recorder_look_s": 0.5}
    recorder = RecorderSettings(**settings.model_dump(), data_dir=tmp_path / "data", **quick)
    stop = asyncio.Event()
    task = asyncio.create_task(run(recorder, stop))
    yield tmp_path / "data" / "sessions"
    stop.set()
    await task


async def record(
    broker: Broker, sessions: Path, kind: SessionKind, entries: list[tuple[str, Entry]]
) -> tuple[Path, dict]:
    """Play a session. Returns its directory, which must equal an undisturbed recorder's, and its recording."""
    talk = await LiveTalk.assigned(broker, kind=kind)
    await talk.say(entries)
    await talk.end()
    (meta,) = await until_finished(sessions.parent, talk)
    await until_acknowledged(broker)
    assert meta.state is RecordingState.COMPLETE
    folder = sessions / talk.recording
    assert_undisturbed(sessions.parent, talk)
    return folder, orjson.loads((folder / "recording.json").read_bytes())


def assert_sound(path: Path, rate: int, *pieces: Samples) -> None:
    actual_rate, samples = read_wav(path)
    assert actual_rate == rate
    np.testing.assert_array_equal(samples, to_pcm16(np.concatenate(pieces)))


async def test_a_half_duplex_session(broker: Broker, sessions: Path) -> None:
    kind = SessionKind.HALF_DUPLEX
    folder, found = await record(broker, sessions, kind, half_duplex_talk())
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
    assert found["mode"] == "half_duplex"
    assert [turn["index"] for turn in found["turns"]] == [0, 1, 2, 3]
    times = [event["ts_ms"] for event in found["events"]]
    assert times == sorted(times)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_chat(broker: Broker, sessions: Path, streamed: bool) -> None:
    kind = SessionKind.CHAT
    folder, found = await record(broker, sessions, kind, chat_talk(streamed=streamed))
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
