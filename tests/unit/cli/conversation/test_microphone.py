"""What the headset does between its callbacks, and what is said without one."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from antiphon.cli.conversation.microphone import Headset, NoMicrophone


class Card:
    """A sound card that never calls back by itself."""

    PortAudioError = OSError

    def __init__(self) -> None:
        self.streams: list[SimpleNamespace] = []

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


async def test_seconds_of_the_microphone_come_out_in_order(card: Card) -> None:
    with Headset() as headset:
        for value in (0.25, 0.5):
            card.streams[0].callback(np.full((16000, 1), value, np.float32), 16000, None, None)
        chunks = headset.chunks()
        async with asyncio.timeout(5):
            first, second = await anext(chunks), await anext(chunks)
    assert (card.streams[0].samplerate, card.streams[0].blocksize) == (16000, 16000)
    assert first.shape == (16000,)
    assert (first[0], second[0]) == (0.25, 0.5)


async def test_speech_is_played_in_order_then_silence(card: Card) -> None:
    with Headset() as headset:
        headset.play(np.array([1, 2, 3], np.float32))
        headset.play(np.array([4], np.float32))
        assert played(card, 2) == [1, 2]
        assert played(card, 4) == [3, 4, 0, 0]


async def test_an_interrupted_reply_falls_silent(card: Card) -> None:
    with Headset() as headset:
        headset.play(np.ones(2400, np.float32))
        played(card, 1200)
        assert headset.drop_unplayed() == 50.0  # ms that were not played
        assert played(card, 2) == [0, 0]
        assert headset.drop_unplayed() == 0.0


def test_a_missing_library_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(NoMicrophone, match="pip install sounddevice"):
        Headset()


async def test_a_card_that_cannot_be_opened_is_told(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(**_options: Any) -> Any:
        raise OSError("device unavailable")

    monkeypatch.setattr(card, "InputStream", busy)
    with pytest.raises(NoMicrophone, match="device unavailable"):
        Headset().__enter__()
