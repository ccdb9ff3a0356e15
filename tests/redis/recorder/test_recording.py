"""The recorder on real streams: what it writes, and for which sessions."""

import numpy as np
import orjson
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.errors import StaleFence
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import samples_from_bytes, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    Entry,
    ErrorOut,
    PausedOut,
    PauseIn,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
)
from antiphon.shared_schemas.recording import REPLAY_WAV, RecordingState, ReplayState
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import (
    LiveTalk,
    assert_undisturbed,
    chunk,
    meta_of,
    read_wav,
    result,
    sound,
    unacknowledged,
    until,
    until_acknowledged,
    until_finished,
)
from support.recorder_process import in_process
from support.turn_conversations import chat_talk, half_duplex_talk


def load(settings: RecorderSettings, talk: LiveTalk) -> dict:
    folder = settings.data_dir / "sessions" / talk.recording
    return orjson.loads((folder / "recording.json").read_bytes())


async def test_every_sample_and_frame_is_kept(broker: Broker, quickly: RecorderSettings) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.begin(broker)
        for seed in range(9):
            await talk.exchange(seed, frames=seed % 3)
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)

    folder = quickly.data_dir / "sessions" / talk.recording
    for seed in range(9):
        sent = chunk(seed, frames=seed % 3)
        rate, samples = read_wav(folder / f"user_audio/{seed:03d}.wav")
        assert rate == 16000
        np.testing.assert_array_equal(samples, to_pcm16(samples_from_bytes(sent.audio, sent.pcm)))
        names = [f"user_frames/{seed:03d}{suffix}.jpg" for suffix in ("", "_1")[: len(sent.frames)]]
        assert tuple((folder / name).read_bytes() for name in names) == sent.frames
    spoken = {(0, 0): 2, (0, 1): 3, (1, 0): 6, (1, 1): 7}
    assert len(list((folder / "ai_audio").iterdir())) == len(spoken)
    for (turn, place), seed in spoken.items():
        rate, samples = read_wav(folder / f"ai_audio/turn_{turn}_chunk_{place:03d}.wav")
        assert rate == 24000
        np.testing.assert_array_equal(samples, to_pcm16(sound(9000 + seed + 2, 1200)))
    rate, voice = read_wav(folder / "ref_audio.wav")
    np.testing.assert_array_equal(voice, to_pcm16(sound(77, 800)))
    assert (folder / "user_images").is_dir()
    assert meta.state is RecordingState.COMPLETE
    assert (meta.chunks, meta.reason, meta.worker_id) == (9, EndReason.STOPPED, "w1")


@pytest.mark.parametrize(
    ("kind", "entries"),
    [(SessionKind.HALF_DUPLEX, half_duplex_talk()), (SessionKind.CHAT, chat_talk())],
    ids=["half_duplex", "chat"],
)
async def test_turns_are_recorded(
    broker: Broker, quickly: RecorderSettings, kind: SessionKind, entries: list[tuple[str, Entry]]
) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.assigned(broker, kind=kind)
        await talk.say(entries)
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.state is RecordingState.COMPLETE
    assert_undisturbed(quickly.data_dir, talk)


async def test_the_timeline_lists_all_messages(broker: Broker, quickly: RecorderSettings) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.begin(broker)
        for seed in range(3):  # numbers 2, 3, 4 in the input stream
            await talk.into.append(chunk(seed, frames=2 * (seed == 2), force_listen=seed == 2))
        await talk.out.append(result(4, skipped=(2, 3), memo={"user": "hello", "tokens": [1]}))
        await talk.into.append(DiagnosticIn(metrics={"rtt": 12}))
        await talk.into.append(PauseIn(timeout_s=60))
        await talk.out.append(PausedOut(input_n=6, timeout_s=60))
        await talk.into.append(ResumeIn())
        await talk.out.append(ResumedOut(input_n=7))
        await talk.into.append(chunk(5))
        await talk.out.append(ErrorOut(input_n=8, code="inference_error", message="no"))
        await talk.into.append(StopIn())
        await talk.out.append(StoppedOut())
        await talk.end()
        await until_finished(quickly.data_dir, talk)
    found = load(quickly, talk)

    assert found["mode"] == "duplex"
    assert found["session_id"] == talk.sid
    assert found["recording_id"] == talk.recording
    assert found["config"]["system_prompt"] == "Be brief."
    assert found["config"]["force_listen_count"] == 1
    assert found["config"]["ref_audio"] == "ref_audio.wav"
    first, second, third, fourth = found["chunks"]
    assert first["skipped"] is True
    assert second["skipped"] is True
    assert "result" not in first
    assert first["user_audio"] == "user_audio/000.wav"
    assert third["force_listen"] is True
    assert third["user_frame"] == "user_frames/002.jpg"
    assert third["user_frames"] == ["user_frames/002.jpg", "user_frames/002_1.jpg"]
    unit = third["result"]
    assert unit["mode"] == "LISTEN"
    assert unit["user_text"] == "hello"
    assert unit["timing"] == {
        "prefill_ms": 11.1,
        "llm_ms": 45.2,
        "tts_prep_ms": 0.5,
        "tts_ms": 12.0,
        "token2wav_ms": 3.0,
        "all_ms": 70.0,
        "wall_clock_ms": 80.0,
        "edge_to_worker_ms": 3.2,
        "n_tokens": 3,
        "n_tts_tokens": 4,
        "kv_cache_length": 104,
        "vision_slices": 0,
        "vision_tokens": 0,
    }
    assert "result" not in fourth
    assert "skipped" not in fourth
    kinds = [event["type"] for event in found["events"]]
    assert kinds == [
        *("prepare", "prepared", "pause", "paused", "resume", "resumed", "error", "stop", "stopped")
    ]
    error = next(event for event in found["events"] if event["type"] == "error")
    assert (error["code"], error["message"], error["chunk"]) == ("inference_error", "no", 3)
    assert [d["metrics"] for d in found["diagnostics"]] == [{"rtt": 12}]
    times = [c["receive_ts_ms"] for c in found["chunks"]]
    assert times == sorted(times)
    assert found["events"][0]["ts_ms"] == 0.0


async def test_a_session_that_ended_without_a_recorder_is_recorded(
    broker: Broker, quickly: RecorderSettings
) -> None:
    talk = await LiveTalk.begin(broker)
    for seed in range(5):
        await talk.exchange(seed)
    await talk.end(EndReason.CLIENT_GONE)
    async with in_process(quickly):
        await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)
        assert await talk.script() == []
        assert await broker.recorder_progress.load(talk.ticket) is None
    assert_undisturbed(quickly.data_dir, talk)


async def test_a_session_that_no_worker_took_leaves_no_recording(
    broker: Broker, quickly: RecorderSettings
) -> None:
    before = await LiveTalk.queue(broker)
    await hold_input(broker, before)
    await before.end(EndReason.CANCELLED)
    async with in_process(quickly):
        during = await LiveTalk.queue(broker)
        await hold_input(broker, during)
        await during.end(EndReason.CANCELLED)
        after = await LiveTalk.begin(broker)
        await after.exchange(0)
        await after.end()
        await until_finished(quickly.data_dir, after)
        await until_acknowledged(broker)
    names = [path.name for path in (quickly.data_dir / "sessions").iterdir()]
    assert names == [after.recording]
    for talk in (before, during):
        held = broker.streams.history(broker.keys.inbound(talk.sid), talk.ticket)
        assert [entry async for entry in held] == []


async def hold_input(broker: Broker, talk: LiveTalk) -> None:
    """What an edge stores for a resumable client that waits for a worker."""
    writer = await broker.streams.input_writer(talk.sid, talk.ticket)
    await writer.append(ChunkIn(audio=bytes(64_000)))


async def test_a_chat_without_a_request_leaves_no_recording(
    broker: Broker, quickly: RecorderSettings
) -> None:
    chat = await LiveTalk.assigned(broker, "chat1", SessionKind.CHAT)
    await chat.end()
    talk = await LiveTalk.begin(broker)
    await talk.end()
    async with in_process(quickly):
        await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)
    names = [path.name for path in (quickly.data_dir / "sessions").iterdir()]
    assert names == [talk.recording]


async def test_a_reused_id_makes_two_recordings(broker: Broker, quickly: RecorderSettings) -> None:
    first = await LiveTalk.begin(broker, "adx_again")
    await first.exchange(2)
    await first.end(EndReason.CLIENT_GONE)
    second = await LiveTalk.begin(broker, "adx_again")  # the first session's row is deleted
    await second.exchange(3)
    async with in_process(quickly):
        await until_finished(quickly.data_dir, first)
        await second.exchange(4)
        await second.end(EndReason.STOPPED)
        metas = await until_finished(quickly.data_dir, first, second)
    assert [meta.reason for meta in metas] == [EndReason.CLIENT_GONE, EndReason.STOPPED]
    assert_undisturbed(quickly.data_dir, first, second)


async def test_a_change_of_workers_keeps_all_results_in_order(
    broker: Broker, quickly: RecorderSettings
) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.begin(broker)
        await talk.exchange(0)
        position = await talk.into.append(chunk(1))
        await talk.out.append(result(position.n, speak=True, text="from the first "))
        stale = talk.out
        assert talk.claim is not None
        assert await broker.leases.give_back(talk.sid, "w1", talk.claim.epoch)
        await talk.assign("w2")
        await talk.out.append(
            result(position.n, speak=True, text="from the second", end_of_turn=True)
        )
        await talk.exchange(2)
        with pytest.raises(Exception, match="newer writer"):
            await stale.append(result(position.n, speak=True, text="too late"))
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.state is RecordingState.COMPLETE
    assert meta.worker_id == "w2"
    answered = load(quickly, talk)["chunks"][1]
    assert answered["result"]["text"] == "from the first "
    assert answered["result"]["epoch"] == 1
    assert answered["result"]["ai_audio"] == "ai_audio/turn_0_chunk_000.wav"
    (again,) = answered["repeated_results"]
    assert (again["text"], again["epoch"]) == ("from the second", 2)
    assert again["ai_audio"] == "ai_audio/turn_0_chunk_001.wav"


async def test_results_after_the_end_are_recorded(
    broker: Broker, quickly: RecorderSettings
) -> None:
    settings = quickly.model_copy(update={"recorder_settle_s": 1.0})
    async with in_process(settings):
        talk = await LiveTalk.begin(broker)
        await talk.exchange(0)
        await talk.end(EndReason.CLIENT_GONE)
        await talk.exchange(2)
        await until_finished(settings.data_dir, talk)
    assert len(load(settings, talk)["chunks"]) == 2


async def test_the_replay_is_made_while_the_client_may_still_reconnect(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """A stopped session is merged before its streams are discarded, and once."""
    waits = {"recorder_settle_s": 3600.0, "resume_grace_s": 3600.0, "recorder_drain_s": 0.1}
    patient = quickly.model_copy(update=waits)
    talk = await LiveTalk.queue(broker, resumable=True)
    await talk.assign()
    await talk.prepare()
    async with in_process(patient):
        await talk.exchange(2)
        await talk.out.append(StoppedOut())
        await talk.end()
        (meta,) = await until_finished(patient.data_dir, talk)
        assert meta.replay is ReplayState.READY
        assert await talk.script() == talk.said
        assert await unacknowledged(broker) == 1
    assert_undisturbed(quickly.data_dir, talk)
    replay = quickly.data_dir / "sessions" / talk.recording / REPLAY_WAV
    merged = replay.stat().st_ino
    async with in_process(quickly.model_copy(update={"resume_grace_s": 0.1})):
        await until_acknowledged(broker)
    assert await talk.script() == []
    assert replay.stat().st_ino == merged


async def test_a_worker_cannot_publish_what_the_recording_will_not_have(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """A worker that learns late that its session has ended; the client may still be reading."""
    async with in_process(quickly):
        talk = await LiveTalk.begin(broker)
        await talk.exchange(0)
        await talk.end(EndReason.WORKER_LOST)
        await until_finished(quickly.data_dir, talk)
        with pytest.raises(StaleFence):
            await talk.out.append(result(9))


async def test_a_long_backlog_of_a_live_session_is_recorded(
    broker: Broker, quickly: RecorderSettings
) -> None:
    talk = await LiveTalk.begin(broker)
    for seed in range(150):  # more than the recorder buffers
        await talk.exchange(seed)
    async with in_process(quickly):
        await until(lambda: meta_of(quickly.data_dir, talk.recording) is not None, "begun")
        for seed in range(150, 160):
            await talk.exchange(seed)
        await talk.end()
        await until_finished(quickly.data_dir, talk)
    assert_undisturbed(quickly.data_dir, talk)


async def test_meta_has_the_state_recording_during_the_session(
    broker: Broker, quickly: RecorderSettings
) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.begin(broker)
        await until(lambda: meta_of(quickly.data_dir, talk.recording) is not None, "begun")
        meta = meta_of(quickly.data_dir, talk.recording)
        assert meta is not None
        assert meta.state is RecordingState.RECORDING
        assert meta.ended_at is None
        folder = quickly.data_dir / "sessions" / talk.recording
        assert not (folder / "recording.json").exists()
        await talk.end()
        await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)
    assert not (folder / "timeline.jsonl").exists()


async def test_lost_entries_are_listed_and_the_state_is_interrupted(
    broker: Broker, quickly: RecorderSettings
) -> None:
    talk = await LiveTalk.begin(broker)
    await talk.note(DuplexConfig())
    for seed in range(4):
        await talk.exchange(seed)
    await broker._redis.call("XTRIM", broker.keys.inbound(talk.sid), "MAXLEN", 0)
    await talk.exchange(4)
    await talk.end()
    async with in_process(quickly):
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.state is RecordingState.INTERRUPTED
    assert [(gap.stream, gap.first, gap.last) for gap in meta.missing] == [("in", 1, 5)]
    found = load(quickly, talk)
    assert [c["index"] for c in found["chunks"]] == [0]
    assert len(found["orphan_results"]) == 4
