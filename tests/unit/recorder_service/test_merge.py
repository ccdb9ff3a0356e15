"""`merged_replay.wav`, sample by sample against the audio that a client sent and played."""

import gzip
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from antiphon.recorder_service.attempts import Attempts, MergeStopped
from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.state import SessionEnding
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.replay.merge import MergeQueue, merge
from antiphon.recorder_service.replay.mix import read_seconds
from antiphon.shared_schemas.audio import PEAKS_PER_S, Samples, WaveformPeaks, to_pcm16
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.entries import (
    BreakIn,
    CancelIn,
    ChatDoneOut,
    DeltaOut,
    Entry,
    GeneratingOut,
    InterruptedOut,
    SettingsIn,
    StreamPosition,
    TruncateItemIn,
    VadOut,
)
from antiphon.shared_schemas.recording import RecordingState, ReplayState, TurnRecording
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import keep_going, result, sound, tree
from support.timed_conversations import T0, TICKET, TimedTalk, noise, tone
from support.turn_conversations import chat_request, delta, half_prepare

IN, OUT = 16_000, 24_000
ODD_ID = StreamPosition(TICKET, 1, 3).id().encode()
Track = np.ndarray[Any, np.dtype[np.int16]]


def track_with(length: int, *sounds: tuple[float, Samples], rate: int) -> Track:
    """A silent track with sounds at their seconds."""
    track = np.zeros(length, dtype=np.int16)
    for at_s, samples in sounds:
        start = round(at_s * rate)
        track[start : start + len(samples)] = to_pcm16(samples)
    return track


def assert_user_is(track: Track, *sounds: tuple[float, Samples]) -> None:
    """The left channel is the resampled sum of these; the ends of the file ring a little."""
    at_16k = track_with(len(track) * 2 // 3 + 1, *sounds, rate=IN).astype(np.float32) / 32767
    expected = np.clip(soxr.resample(at_16k, IN, OUT)[: len(track)] * 32767, -32768, 32767)
    np.testing.assert_allclose(track[: len(expected)], expected, atol=1.0)


def test_both_sides_are_at_the_times_of_playback(tmp_path: Path) -> None:
    """The model answers while the user still speaks; two units arrive early, one late."""
    talk = TimedTalk.prepared()
    asked = [noise(i, 1.0, IN) for i in range(6)]
    spoken = [noise(50 + i, 1.0, OUT) for i in range(3)]
    for second, samples in enumerate(asked):
        talk.chunk(1.0 + second, samples)
    talk.listen(1.1)
    talk.speak(2.1, spoken[0])
    talk.speak(3.05, spoken[1])  # before the first has played
    talk.speak(4.4, spoken[2], end=True)  # after the second has played: a gap
    talk.listen(5.1)
    replay = talk.record(tmp_path).replay()
    assert len(replay) == 6 * OUT
    assert_user_is(replay[:, 0], *((float(i), samples) for i, samples in enumerate(asked)))
    model = track_with(len(replay), (2.1, spoken[0]), (3.1, spoken[1]), (4.4, spoken[2]), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


def test_listening_during_speech_cuts_it_and_a_finished_turn_plays_to_its_end(
    tmp_path: Path,
) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, IN))
    cut, whole = noise(1, 2.0, OUT), noise(2, 1.5, OUT)
    talk.speak(1.2, cut)
    talk.listen(2.0)
    talk.speak(4.0, whole, end=True)
    talk.listen(5.0)
    replay = talk.record(tmp_path).replay()
    played = cut[: round(0.8 * OUT)]
    model = track_with(len(replay), (1.2, played), (4.0, whole), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


def test_a_barge_in_cuts_the_audio_that_still_plays(tmp_path: Path) -> None:
    """From the first chunk with `force_listen`, the player is silent."""
    talk = TimedTalk.prepared()
    spoken = noise(1, 3.0, OUT)
    for second in range(4):
        talk.chunk(1.0 + second, noise(second, 1.0, IN), force_listen=second >= 2)
    talk.speak(1.1, spoken, end=True)
    replay = talk.record(tmp_path).replay()
    model = track_with(len(replay), (1.1, spoken[: round(1.9 * OUT)]), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


def test_audio_that_a_second_worker_repeats_is_played_twice(tmp_path: Path) -> None:
    """Its clock is slightly behind; the stream has the order in which the client played."""
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, IN))
    first, second = noise(1, 0.5, OUT), noise(2, 0.5, OUT)
    talk.speak(1.5, first)
    talk.epoch = 2
    talk.speak(1.49, second, end=True)
    replay = talk.record(tmp_path).replay()
    model = track_with(len(replay), (1.5, first), (2.0, second), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


def test_skipped_input_is_in_the_replay(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    asked = [noise(i, 1.0, IN) for i in range(4)]
    for second, samples in enumerate(asked):
        talk.chunk(1.0 + second, samples)
    talk.out(4.5, result(5, skipped=(2, 3)))
    recorded = talk.record(tmp_path)
    assert_user_is(recorded.replay()[:, 0], *((float(i), s) for i, s in enumerate(asked)))
    chunks = recorded.recording.chunks  # type: ignore[union-attr]
    assert [chunk.skipped for chunk in chunks] == [True, True, None, None]


def test_full_scale_is_clipped_not_wrapped(tmp_path: Path) -> None:
    """Between samples at full scale the resampled wave exceeds full scale."""
    talk = TimedTalk.prepared()
    square = np.where(np.arange(IN) // 4 % 2, 1.0, -1.0).astype(np.float32)
    talk.chunk(1.0, square)
    left = talk.record(tmp_path).replay()[100:-100, 0].astype(np.int32)
    assert np.abs(left).max() == 32767 or left.min() == -32768
    smooth = soxr.resample(square, IN, OUT)[100:-100]
    assert (np.sign(left)[np.abs(smooth) > 0.5] == np.sign(smooth)[np.abs(smooth) > 0.5]).all()


def test_half_duplex_with_its_silences_and_a_stopped_answer(tmp_path: Path) -> None:
    talk = TimedTalk(SessionKind.HALF_DUPLEX)
    talk.into(0.0, half_prepare())
    asked = [noise(i, 0.5, IN) for i in range(4)]
    for place, samples in enumerate(asked[:3]):
        talk.chunk(0.5 * (place + 1), samples)
    first, second = noise(10, 0.6, OUT), noise(11, 1.0, OUT)
    talk.out(1.6, DeltaOut(text_delta="a ", audio=first.tobytes()))
    talk.out(1.7, DeltaOut(text_delta="b ", audio=second.tobytes()))
    talk.into(2.5, BreakIn())
    talk.chunk(5.0, asked[3])
    recorded = talk.record(tmp_path)
    replay = recorded.replay()
    assert len(replay) == 5 * OUT
    times = (0.0, 0.5, 1.0, 4.5)
    assert_user_is(replay[:, 0], *zip(times, asked, strict=True))
    model = track_with(len(replay), (1.6, first), (2.2, second[: round(0.3 * OUT)]), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)
    assert recorded.meta.replay is ReplayState.READY
    assert recorded.recording.merged_replay == "merged_replay.wav"
    assert not (recorded.folder / ".pieces").exists()


def test_an_interruption_after_a_full_duplex_turn_cuts_what_still_plays(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, IN))
    spoken = noise(1, 3.0, OUT)
    talk.speak(1.2, spoken, end=True)
    talk.listen(2.0)
    talk.listen(3.0, interrupted=True)
    replay = talk.record(tmp_path).replay()
    model = track_with(len(replay), (1.2, spoken[: round(1.8 * OUT)]), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


@pytest.mark.parametrize("cut", [True, False])
def test_an_interrupted_half_duplex_answer_ends_there(tmp_path: Path, *, cut: bool) -> None:
    """The next answer plays when it arrives, and not after the sound that the client dropped."""
    talk = TimedTalk(SessionKind.HALF_DUPLEX)
    talk.into(0.0, half_prepare())
    talk.chunk(1.0, noise(0, 1.0, IN))
    first, second = noise(1, 6.0, OUT), noise(2, 1.0, OUT)
    talk.out(1.0, VadOut(input_n=2, speaking=True))
    talk.out(1.1, DeltaOut(text_delta="a ", audio=first.tobytes()))
    talk.out(2.0, VadOut(input_n=2, speaking=True))
    if cut:
        talk.out(3.0, InterruptedOut(input_n=2, turn_index=0, played_ms=1900, text="a"))
    talk.out(4.0, DeltaOut(text_delta="b ", audio=second.tobytes()))
    replay = talk.record(tmp_path).replay()
    sounds = (
        [(1.1, first[: round(1.9 * OUT)]), (4.0, second)] if cut else [(1.1, first), (7.1, second)]
    )
    np.testing.assert_array_equal(replay[:, 1], track_with(len(replay), *sounds, rate=OUT))


VOICE = VadOut(input_n=1, speaking=True, item_id="item_2")


@pytest.mark.parametrize(
    ("entry", "interruptible", "cuts"),
    [
        (VOICE, True, True),
        (VOICE, False, False),
        (VadOut(input_n=1, speaking=False), True, False),
        (TruncateItemIn(item_id="item_1", audio_ms=1900), False, True),
        (TruncateItemIn(item_id="item_0", audio_ms=100), False, False),
        (CancelIn(response_id="r1"), False, True),
        (CancelIn(), False, True),
        (CancelIn(response_id="r0"), False, False),
    ],
)
def test_an_answer_of_items_ends_where_the_client_drops_it(
    tmp_path: Path, entry: Entry, *, interruptible: bool, cuts: bool
) -> None:
    talk = TimedTalk(SessionKind.TURNS)
    talk.into(0.0, SettingsIn(config=TurnsConfig(interruptible=interruptible)))
    first, second = noise(1, 6.0, OUT), noise(2, 1.0, OUT)
    for number in range(2):
        begun = GeneratingOut(
            input_n=1,
            turn_index=number,
            speech_duration_ms=0,
            response_id=f"r{number}",
            item_id=f"item_{number}",
        )
        talk.out(1.0, begun)
    talk.out(1.1, DeltaOut(text_delta="a ", audio=first.tobytes()))
    (talk.into if isinstance(entry, TruncateItemIn | CancelIn) else talk.out)(3.0, entry)
    talk.out(4.0, DeltaOut(text_delta="b ", audio=second.tobytes()))
    replay = talk.record(tmp_path).replay()
    sounds = (
        [(1.1, first[: round(1.9 * OUT)]), (4.0, second)] if cuts else [(1.1, first), (7.1, second)]
    )
    np.testing.assert_array_equal(replay[:, 1], track_with(len(replay), *sounds, rate=OUT))


def test_a_chat_begins_with_the_users_audio(tmp_path: Path) -> None:
    """The request arrives after the user has spoken, so the replay starts that much earlier."""
    talk = TimedTalk(SessionKind.CHAT)
    talk.into(0.0, chat_request())
    talk.out(0.5, delta(1, OUT // 2))
    whole = noise(9, 0.25, OUT)
    done = ChatDoneOut(
        text="w1 ", audio=whole.tobytes(), generated_tokens=1, input_tokens=2, duration_ms=3.0
    )
    talk.out(0.6, done)
    recorded = talk.record(tmp_path)
    assert isinstance(recorded.recording, TurnRecording)
    lead_s = (1600 + 801) / IN
    assert recorded.recording.merged_replay_lead_ms == pytest.approx(lead_s * 1000, abs=0.1)
    replay = recorded.replay()
    model = track_with(
        len(replay), (lead_s + 0.5, sound(601, OUT // 2)), (lead_s + 1.0, whole), rate=OUT
    )
    np.testing.assert_array_equal(replay[:, 1], model)
    assert_user_is(replay[:, 0], (0.0, sound(1, 1600)), (0.1, sound(2, 801)))


def test_the_opus_file_has_the_sound_of_the_replay(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(3.0, tone(2.0, 300, IN))
    talk.speak(4.0, tone(2.0, 700, OUT), end=True)
    recorded = talk.record(tmp_path)
    assert recorded.meta.merged_replay_opus == "merged_replay.opus"
    replay = recorded.replay()
    path = recorded.folder / "merged_replay.opus"
    about = soundfile.info(path)
    assert (about.format, about.subtype, about.channels) == ("OGG", "OPUS", 2)
    decoded, rate = soundfile.read(path)
    decoded = decoded[:: rate // OUT]
    assert len(decoded) == pytest.approx(len(replay), abs=OUT // 50)
    for side, hz in enumerate((300, 700)):
        heard = np.abs(np.fft.rfft(decoded[:, side]))
        assert heard.argmax() * OUT / len(decoded) == pytest.approx(hz, abs=1)


def test_libopus_gets_no_digital_silence(tmp_path: Path) -> None:
    """A second of it takes ten times as long as a second of sound."""
    silent, loud = np.zeros(OUT + 100, np.int16), to_pcm16(noise(5, 1.1, OUT))[: OUT + 100]
    path = tmp_path / "replay.wav"
    soundfile.write(path, np.stack([silent, loud], axis=1), OUT, subtype="PCM_16")
    frames = [frame.to_ndarray() for frame in read_seconds(path, for_opus=True)]
    read = np.concatenate(frames, axis=1).reshape(-1, 2)
    assert (read[:, 0] == 1).all()
    changes = read[:, 1].astype(int) - loud
    assert (read[:, 1] != 0).all()
    assert set(changes.tolist()) == {0, 1}


def test_without_opus_the_replay_has_its_peaks(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(3.0, tone(2.0, 300, IN))
    recorded = talk.record(tmp_path)
    _unmerge(recorded.folder, talk)
    merge(recorded.folder, keep_going, opus=False)
    assert recorded.meta.replay is ReplayState.READY
    assert recorded.meta.merged_replay_opus is None
    assert not (recorded.folder / "merged_replay.opus").exists()
    assert (recorded.folder / "peaks.json").exists()


def test_a_loud_minute_takes_less_than_300_kb(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    for second in range(60):
        talk.chunk(1.0 + second, noise(second, 1.0, IN))
    talk.speak(0.5, noise(99, 59.0, OUT), end=True)
    folder = talk.record(tmp_path, ended_s=90.0).folder
    assert (folder / "merged_replay.opus").stat().st_size < 300_000
    assert len(gzip.compress((folder / "peaks.json").read_bytes())) < 10_000


def test_the_peaks_are_those_of_the_replay(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(2.0, tone(1.0, 300, IN, level=0.5))
    recorded = talk.record(tmp_path)
    peaks = WaveformPeaks.model_validate_json((recorded.folder / "peaks.json").read_bytes())
    silent, loud = peaks.user[: PEAKS_PER_S - 1], peaks.user[PEAKS_PER_S + 1 :]
    assert max(silent) < 10 < 120 < min(loud)
    assert not any(peaks.model)


def test_without_audio_there_is_no_replay(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.listen(1.0)
    recorded = talk.record(tmp_path)
    assert recorded.meta.replay is ReplayState.NONE
    assert recorded.meta.merged_replay is None
    assert not (recorded.folder / "merged_replay.wav").exists()
    assert not (recorded.folder / "timeline.jsonl").exists()


def test_a_missing_file_becomes_silence(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    spoken = [noise(i, 1.0, OUT) for i in range(3)]
    talk.chunk(1.0, noise(9, 1.0, IN))
    for second, samples in enumerate(spoken):
        talk.speak(1.5 + second, samples)
    recorded = talk.record(tmp_path)
    _unmerge(recorded.folder, talk)
    (recorded.folder / "ai_audio/turn_0_chunk_001.wav").unlink()
    merge(recorded.folder, keep_going)
    replay = recorded.replay()
    model = track_with(len(replay), (1.5, spoken[0]), (3.5, spoken[2]), rate=OUT)
    np.testing.assert_array_equal(replay[:, 1], model)


def test_an_interrupted_merge_leaves_nothing_and_is_repeated(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    for second in range(5):
        talk.chunk(1.0 + second, noise(second, 1.0, IN))
    recorded = talk.record(tmp_path)
    expected = tree(recorded.folder)
    _unmerge(recorded.folder, talk)
    before = tree(recorded.folder)
    with pytest.raises(MergeStopped):
        merge(recorded.folder, _Halt(after=3))
    assert tree(recorded.folder) == before
    assert recorded.meta.is_busy
    merge(recorded.folder, keep_going)
    assert tree(recorded.folder) == expected


def test_a_session_deleted_during_the_merge_is_no_error(tmp_path: Path) -> None:
    assert merge(tmp_path / "gone", keep_going) is None


def _unmerge(folder: Path, talk: TimedTalk) -> None:
    shutil.rmtree(folder)
    opened = RecordingFolder(folder.parent, talk.job)
    for entry in talk.script:
        opened.add(*entry)
    ending = SessionEnding(at=round(T0 + 60_000), reason=EndReason.STOPPED, worker="w1")
    assert opened.finish(ending) is RecordingState.COMPLETE
    opened.close()


def test_a_recording_that_cannot_be_merged_is_logged_once(tmp_path: Path) -> None:
    """An unreadable journal remains unreadable, so there is no second attempt."""
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, IN))
    recorded = talk.record(tmp_path)
    _unmerge(recorded.folder, talk)
    with (recorded.folder / "timeline.jsonl").open("ab") as journal:
        journal.write(b'{"stream":"in","id":"%s","entry":{"type":"result","at":1}}\n' % ODD_ID)
    meta = merge(recorded.folder, keep_going)
    assert meta == recorded.meta
    assert meta.replay is ReplayState.FAILED
    assert (meta.replay_error or "").startswith("UnreadableEntry: stream entry cannot be read")
    assert not (recorded.folder / "timeline.jsonl").exists()
    assert merge(recorded.folder, keep_going) == meta


class _Halt:
    """Stops a merge at its n-th check."""

    def __init__(self, after: int) -> None:
        self._left = after

    def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise MergeStopped


def test_two_concurrent_merges_give_the_same_file(tmp_path: Path) -> None:
    """A recorder that lost its session continues for a while; the second one finds nothing to do."""
    talk = TimedTalk.prepared()
    for second in range(40):
        talk.chunk(1.0 + second, noise(second, 1.0, IN))
    recorded = talk.record(tmp_path)
    expected = tree(recorded.folder)
    _unmerge(recorded.folder, talk)

    def work() -> None:
        while recorded.meta.is_busy:
            with suppress(FileNotFoundError):  # as the recorder retries
                merge(recorded.folder, keep_going)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work) for _ in range(3)]:
            done.result()
    assert tree(recorded.folder) == expected


async def test_merges_run_where_a_thread_has_no_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other systems than Linux know no process with the id of a thread."""

    def unknown(*_: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("os.setpriority", unknown)
    monkeypatch.setattr("sys.platform", "darwin")
    merges = MergeQueue(RecorderMetrics(), Attempts(3), keep_going)
    assert await merges.merge(tmp_path / "gone") is None
    await merges.close()
