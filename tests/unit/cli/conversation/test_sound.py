"""Replies as sound files, and the headset between its callbacks."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.cli.conversation.sound import (
    Headset,
    NoMicrophone,
    UnusableAudio,
    check_reply_file,
    play_wav,
    save_reply,
)
from antiphon.shared_schemas.audio import SILENCE
from support.sound_files import WHOLE, wav


def test_the_answer_is_a_16_bit_wav(tmp_path: Path) -> None:
    path = tmp_path / "reply.wav"
    save_reply(path, np.array([0.0, 1.0, -0.5], np.float32))
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24000
    assert samples.tolist() == [0, 32767, -16384]


def test_a_reply_that_cannot_be_written_is_reported_by_file_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnusableAudio, match="cannot write"):
        save_reply(tmp_path / "file" / "reply.wav", np.zeros(1, np.float32))


def test_a_reply_file_is_checked_before_the_conversation(tmp_path: Path) -> None:
    check_reply_file(tmp_path / "reply.wav")
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "a" / "r.wav", "there is no folder"),
        (tmp_path / "reply.mp3", r"reply\.mp3: use the extension \.wav"),
    ):
        with pytest.raises(UnusableAudio, match=words):
            check_reply_file(path)


class Card:
    """A sound card whose callbacks the test calls."""

    PortAudioError = OSError

    def __init__(self) -> None:
        self.streams: list[SimpleNamespace] = []
        self.play: Any = None

    def stream(self, **options: Any) -> Any:
        opened = SimpleNamespace(**options, start=lambda: None, close=lambda: None)
        self.streams.append(opened)
        return opened

    InputStream = OutputStream = stream


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    found = Card()
    monkeypatch.setitem(sys.modules, "sounddevice", found)
    return found


def played(card: Card, frames: int) -> list[float]:
    block = np.full((frames, 1), 9.0, np.float32)
    card.streams[1].callback(block, frames, None, None)
    return [float(sample) for sample in block[:, 0]]


async def test_seconds_of_the_microphone_are_returned_in_order(card: Card) -> None:
    with Headset(1.0) as headset:
        for value in (0.25, 0.5):
            card.streams[0].callback(np.full((16000, 1), value, np.float32), 16000, None, None)
        chunks = headset.chunks()
        async with asyncio.timeout(60):
            first, second = await anext(chunks), await anext(chunks)
    assert (card.streams[0].samplerate, card.streams[0].blocksize) == (16000, 16000)
    assert first.shape == (16000,)
    assert (first[0], second[0]) == (0.25, 0.5)


async def test_the_newest_seconds_of_the_microphone_are_kept(card: Card) -> None:
    with Headset(1.0) as headset:
        for value in range(10):
            card.streams[0].callback(np.full((16000, 1), value, np.float32), 16000, None, None)
        await asyncio.sleep(0)
        chunks = headset.chunks()
        async with asyncio.timeout(60):
            kept = [float((await anext(chunks))[0]) for _ in range(3)]
    assert kept == [7, 8, 9]


async def test_short_chunks_are_kept_for_as_long(card: Card) -> None:
    with Headset(0.2) as headset:
        for value in range(20):
            card.streams[0].callback(np.full((3200, 1), value, np.float32), 3200, None, None)
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            oldest = float((await anext(headset.chunks()))[0])
    assert (card.streams[0].blocksize, oldest) == (3200, 5)


async def test_speech_is_played_in_order_and_followed_by_silence(card: Card) -> None:
    with Headset(1.0) as headset:
        headset.play(SILENCE)
        headset.play(np.array([1, 2, 3], np.float32))
        assert played(card, 2400) == [0] * 2400  # the next result may come later
        headset.play(np.array([4], np.float32))
        assert played(card, 2) == [1, 2]
        assert played(card, 4) == [3, 4, 0, 0]


async def test_an_interrupted_answer_stops(card: Card) -> None:
    with Headset(1.0) as headset:
        headset.play(np.ones(2400, np.float32))
        played(card, 2400 + 1200)
        assert headset.drop_unplayed() == 50.0  # ms that were not played
        assert played(card, 2) == [0, 0]
        assert headset.drop_unplayed() == 0.0


def test_a_recording_is_played_with_both_channels(tmp_path: Path, card: Card) -> None:
    pcm = np.array([[1, -1], [2, -2], [32767, -32768]], np.int16)
    soundfile.write(tmp_path / "both.wav", pcm, 24000, subtype="PCM_16")
    plays: list[tuple[Any, int, bool]] = []
    card.play = lambda samples, rate, *, blocking: plays.append((samples, rate, blocking))
    play_wav(tmp_path / "both.wav")
    [(samples, rate, blocking)] = plays
    assert np.array_equal(samples, pcm)
    assert (rate, blocking) == (24000, True)
    (tmp_path / "cut.wav").write_bytes(WHOLE[:-1001])
    play_wav(tmp_path / "cut.wav")
    assert len(plays[1][0]) == 16_000 - 501
    for content, words in ((b"words", "not a WAV file"), (wav("<i3"), "do not have 16 bits")):
        (tmp_path / "no.wav").write_bytes(content)
        with pytest.raises(UnusableAudio, match=rf"no\.wav: .*{words}"):
            play_wav(tmp_path / "no.wav")

    def busy(*_args: Any, **_options: Any) -> None:
        raise OSError("no device")

    card.play = busy
    with pytest.raises(NoMicrophone, match="no device"):
        play_wav(tmp_path / "both.wav")


def test_a_missing_library_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(NoMicrophone, match="pip install sounddevice"):
        Headset(1.0)


async def test_a_card_that_cannot_be_opened_is_reported(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(**_options: Any) -> Any:
        raise OSError("device unavailable")

    monkeypatch.setattr(card, "InputStream", busy)
    with pytest.raises(NoMicrophone, match="device unavailable"):
        Headset(1.0).__enter__()
