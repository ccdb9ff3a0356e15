"""Recorded sessions from the command line, and their replay plans."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from antiphon.cli.common import CannotLoad
from antiphon.cli.local_recordings import LoadedRecording, LocalRecordings, load_pcm
from antiphon.cli.replay.plan import ChatPlan, DuplexPlan, plan_replay
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, samples_from_bytes, to_pcm16
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE, TurnRecording
from support.fork_server import run_antiphon
from support.recorder_conversations import tree
from support.recordings import recorded


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path


@pytest.fixture
def recording(data: Path) -> str:
    return recorded(data / "sessions", units=4, prompt="Say [bold]nothing[/x].")


def antiphon(data: Path, *args: str) -> tuple[int, str, str]:
    done = run_antiphon(
        *(*args, "--data-dir", str(data)),
        folder=data,
        environment=os.environ | {"NO_COLOR": "1"},
    )
    return done.returncode, done.stdout, done.stderr


def planned(data: Path, recording: str) -> DuplexPlan:
    plan = plan_replay(LocalRecordings(data).load(recording))
    assert isinstance(plan, DuplexPlan)
    return plan


def test_show_prints_the_conversation(data: Path, recording: str) -> None:
    status, shown, _ = antiphon(data, "recordings", "show", recording)
    assert status == 0
    for words in (recording, "omni_1 (omni_duplex)", "complete, ended by: stopped", "word3"):
        assert words in shown
    assert "Say [bold]nothing[/x]." in shown  # printed literally, not as markup
    assert antiphon(data, "recordings", "show", str(data / "sessions" / recording))[1] == shown


def test_show_as_json(data: Path, recording: str) -> None:
    _, shown, _ = antiphon(data, "recordings", "show", recording, "--json")
    output = json.loads(shown)
    folder = data / "sessions" / recording
    assert output["meta"] == json.loads((folder / META_FILE).read_text())
    assert output["files"] == {name: len(content) for name, content in tree(folder).items()}
    assert [row["did"] for row in output["rows"]] == ["listening", "speaking"] * 2
    spoken = [(row["user_said"], row["said"]) for row in output["rows"]]
    assert spoken == [(None, ""), (None, "word3"), (None, ""), (None, "word5")]


def test_show_of_a_running_session(data: Path, recording: str) -> None:
    (data / "sessions" / recording / RECORDING_FILE).unlink()
    status, shown, _ = antiphon(data, "recordings", "show", recording)
    assert (status, recording in shown) == (0, True)
    assert antiphon(data, "replay", recording)[0] == 2


def test_a_plan_contains_what_was_sent(data: Path, recording: str) -> None:
    folder = data / "sessions" / recording
    played = planned(data, recording)
    assert played.with_video
    assert played.prompt == "Say [bold]nothing[/x]."
    assert played.config.force_listen_count == 1
    assert [step.at_s for step in played.steps] == [0.0, 1.0, 2.0, 3.0]
    assert not played.cut_off
    assert [bool(step.recorded and step.recorded.speaks) for step in played.steps] == [
        False,
        True,
    ] * 2
    for step in played.steps:
        names = [f"user_frames/{step.index:03d}.jpg"] if step.index % 2 else []
        assert list(step.frames) == [folder / name for name in names]
        assert step.images() == [(folder / name).read_bytes() for name in names]
        assert np.array_equal(to_pcm16(step.samples()), _pcm(step.audio))


def test_recorded_audio_is_replayed_with_its_amplitude(tmp_path: Path) -> None:
    import soundfile

    pcm = np.array([-32768, -32767, -1, 0, 1, 12345, 32767], np.int16)
    soundfile.write(tmp_path / "a.wav", pcm, INPUT_RATE, subtype="PCM_16")
    expected = samples_from_bytes(pcm.astype("<i2").tobytes(), PcmFormat.S16)
    assert np.array_equal(load_pcm(tmp_path / "a.wav"), expected)
    soundfile.write(tmp_path / "b.wav", pcm, 8000, subtype="PCM_16")
    for name in ("b.wav", "none.wav"):
        with pytest.raises(CannotLoad, match=name):
            load_pcm(tmp_path / name)


def test_pauses_are_not_replayed_and_skipped_chunks_are_left_out(
    data: Path, recording: str
) -> None:
    path = data / "sessions" / recording / RECORDING_FILE
    content = json.loads(path.read_text())
    content["chunks"][1] |= {"skipped": True, "result": None}
    for chunk in content["chunks"][2:]:
        chunk["receive_ts_ms"] += 60_000
    path.write_text(json.dumps(content))
    played = planned(data, recording)
    assert [step.index for step in played.steps] == [0, 2, 3]
    assert [step.at_s for step in played.steps] == [0.0, 1.1, 2.1]  # chunks of a tenth of a second


def _pcm(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    import soundfile

    pcm: np.ndarray[tuple[int], np.dtype[np.int16]] = soundfile.read(path, dtype="int16")[0]
    return pcm


def of_turns(mode: str, kind: str, config: Mapping[str, object]) -> LoadedRecording:
    message = {"role": "user", "parts": [{"type": "text", "text": "Hello."}]}
    turn = {
        "index": 0,
        "request_ts_ms": 0,
        "input": {"messages": [message]},
        "output": {"text": "Hi."},
        "timing": {},
    }
    about = {"session_id": "s", "recording_id": "a" * 32, "mode": mode, "app_type": kind}
    rest = {"worker_id": "w", "start_ts": "2026-01-31T12:00:00Z", "events": []}
    record = TurnRecording.model_validate({**about, **rest, "config": config, "turns": [turn]})
    return LoadedRecording(Path("a" * 32), None, record)  # type: ignore[arg-type]


def test_a_chat_is_asked_again_with_its_voice_and_its_time_zone() -> None:
    settings = {"tts": {"enabled": True, "voice": "emma"}, "time_zone": "Asia/Tokyo"}
    plan = plan_replay(of_turns("chat", "chat", settings))
    assert isinstance(plan, ChatPlan)
    assert plan.request["tts"].enabled
    assert plan.request["tts"].voice == "emma"
    assert plan.request["options"]["time_zone"] == "Asia/Tokyo"


def test_a_session_of_the_openai_api_cannot_be_replayed() -> None:
    with pytest.raises(CannotLoad, match="OpenAI's Realtime API: it cannot be replayed"):
        plan_replay(of_turns("half_duplex", "turns", {"turn_detection": None}))
