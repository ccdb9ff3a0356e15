"""The client refuses audio that the server would misunderstand."""

import threading
from collections.abc import AsyncIterator, Awaitable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from antiphon.client import sound
from antiphon.client.assistant import Client
from antiphon.client.duplex import DuplexSession
from antiphon.client.errors import ClientError, InvalidAudio
from antiphon.client.half_duplex import HalfDuplexSession
from antiphon.client.sound import check_samples, microphone_chunks
from antiphon.shared_schemas.audio import Samples

TONE = np.sin(np.arange(16000) / 10).astype(np.float32)


def test_good_audio_passes() -> None:
    assert check_samples(TONE) is TONE
    check_samples((TONE * 1.2).astype(np.float32))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ((TONE * 32767).astype(np.int16), r"int16, float32 is needed: divide it: .* / 32768"),
        (TONE.astype(np.float64), r"float64, float32 is needed: use astype\(numpy.float32\)"),
        (np.stack([TONE, TONE], axis=1), r"shape \(16000, 2\), mono with shape \(n,\) is needed"),
        (np.stack([TONE, TONE], axis=1), r"needed: use mean\(axis=1\)"),
        (np.stack([TONE, TONE]), r"needed: use mean\(axis=0\)"),
        (TONE.astype(np.int32), "int32, .* / 2147483648"),
        (np.zeros(9, np.uint8), r"uint8, .* - 128\) / 128"),
        (TONE * 3000, "values up to 3000, .*: divide 16-bit values by 32768"),
        (np.full(10, np.nan, np.float32), "has NaN or infinite samples"),
        (np.full(10, -np.inf, np.float32), "has NaN or infinite samples"),
        (iter([TONE]), "is a list_iterator, .*: pieces come from an asynchronous generator"),
        (TONE[:0], "no samples"),
        (TONE.tobytes(), "is a bytes, a numpy array is needed: numpy.frombuffer"),
        (TONE.tolist(), "is a list, a numpy array is needed: numpy.array"),
        ("question.wav", "is a str, a numpy array is needed: .*load_wav reads a file"),
        (None, "is a NoneType, a numpy array is needed$"),
    ],
)
def test_wrong_audio_is_refused_with_the_remedy(samples: Any, words: str) -> None:
    with pytest.raises(InvalidAudio, match=words) as refused:
        check_samples(samples)
    assert isinstance(refused.value, ClientError)


def test_a_wrong_rate_is_refused() -> None:
    with pytest.raises(InvalidAudio, match="44100 Hz, 16000 Hz are needed: resample it"):
        check_samples(TONE, 44100)


async def test_a_recording_is_decoded_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other sessions go on while a long file is read."""
    decoded: list[str] = []

    def decode(path: str) -> Samples:
        assert threading.current_thread() is not threading.main_thread()
        decoded.append(path)
        raise InvalidAudio("enough")

    monkeypatch.setattr(sound, "load_wav", decode)
    link: Any = SimpleNamespace(resumes=False)
    calls: list[Awaitable[object]] = [
        Client("ws://127.0.0.1:1").aask("ask"),
        anext(DuplexSession(link, "adx_1").converse("duplex")),
        anext(HalfDuplexSession(link, "hdx_1").converse("half duplex")),
    ]
    for call in calls:
        with pytest.raises(InvalidAudio, match="enough"):
            await call
    assert decoded == ["ask", "duplex", "half duplex"]


async def test_pieces_may_be_empty() -> None:
    """A resampler has nothing yet after its first piece."""

    async def resampled() -> AsyncIterator[Samples]:
        for piece in (TONE[:0], TONE[:4000], TONE[:0], TONE[4000:10000]):
            yield piece

    sent = microphone_chunks(resampled(), 0.5)
    chunks = [await anext(sent) for _ in range(2)]
    await sent.aclose()
    assert [len(chunk) for chunk in chunks] == [8000, 8000]
    assert np.array_equal(np.concatenate(chunks)[:10000], TONE[:10000])
