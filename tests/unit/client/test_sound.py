"""The client refuses audio that the server would misunderstand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.client.assistant import Client
from antiphon.client.chat import ask
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import ClientError, InvalidAudio, Unauthorized
from antiphon.client.half_duplex import connect_half_duplex
from antiphon.client.sound import check_samples, load_wav

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


def test_a_wav_file_becomes_samples(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "q.wav", np.stack([TONE, TONE], axis=1), 16000, subtype="PCM_16")
    np.testing.assert_allclose(load_wav(tmp_path / "q.wav"), TONE, atol=1e-4)


@pytest.mark.parametrize(
    ("rate", "subtype", "words"),
    [(44100, "PCM_16", "44100 Hz"), (16000, "PCM_24", "24-bit samples, 16-bit are needed")],
)
def test_other_wav_files_are_refused(tmp_path: Path, rate: int, subtype: str, words: str) -> None:
    soundfile.write(tmp_path / "q.wav", TONE, rate, subtype=subtype)
    with pytest.raises(InvalidAudio, match=words) as refused:
        load_wav(tmp_path / "q.wav")
    assert f"convert it: ffmpeg -i {tmp_path}/q.wav -ac 1 -ar 16000" in refused.value.message


def test_an_empty_wav_file_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "q.wav", TONE[:0], 16000, subtype="PCM_16")
    with pytest.raises(InvalidAudio, match=r"q\.wav has no samples"):
        load_wav(str(tmp_path / "q.wav"))


def test_a_file_that_is_no_wav_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.wav").write_bytes(b"OggS" + bytes(100))
    with pytest.raises(InvalidAudio, match="is not a WAV file with PCM audio"):
        load_wav(tmp_path / "q.wav")


async def test_a_misspelt_keyword_is_refused() -> None:
    wrong: Any = {"api_keys": "k0123456789abcdef"}
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'api_keys'; did you mean 'api_key'"
    ):
        async with connect_duplex("ws://127.0.0.1:1", **wrong):
            pass


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"binary": "yes"}, TypeError, "binary is a str, True or False is needed"),
        ({"api_key": 5}, TypeError, "api_key is a int, a str is needed"),
        ({"other_edges": "ws://b"}, TypeError, "other_edges is a str, a list of addresses"),
        ({"open_timeout_s": "3"}, TypeError, "open_timeout_s is a str, a number of seconds"),
        ({"resume_for_s": -1}, ValueError, "resume_for_s is -1, 0 or more seconds are needed"),
        ({"pcm": "s24"}, ValueError, "pcm is 's24', 'f32' or 's16' is needed"),
    ],
)
def test_a_wrong_option_is_refused(
    option: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Client("ws://127.0.0.1:1", **option)


def test_the_name_of_a_pcm_format_is_enough() -> None:
    Client("ws://127.0.0.1:1", binary=True, pcm="s16")


@pytest.mark.parametrize("key", ["k0123456789abcdef\n", "k 0123456789abcdef", "ключ0123456789abc"])
def test_a_key_that_no_edge_has_is_refused_without_showing_it(key: str) -> None:
    client = Client("ws://127.0.0.1:1", api_key=key)
    for call in (lambda: client.ask(TONE), client.recordings.list):
        with pytest.raises(Unauthorized, match=r"strip\(\)") as refused:
            call()
        assert key.strip() not in refused.value.message


@pytest.mark.parametrize(
    ("patience", "error"), [("5", TypeError), (-5, ValueError), (float("nan"), ValueError)]
)
def test_a_wrong_patience_is_refused(patience: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="patience_s is"):
        Client("ws://127.0.0.1:1").ask(TONE, patience_s=patience)


def test_a_text_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`antiphon\.ask` text"):
        Client("ws://127.0.0.1:1").ask("What is the capital of Italy?")


def test_an_address_that_is_no_text_is_refused() -> None:
    wrong: Any = None
    with pytest.raises(TypeError, match="the edge's address is a NoneType, a str is needed"):
        Client(wrong).ask(TONE)


async def test_a_session_id_that_no_edge_accepts_is_refused() -> None:
    for connect in (connect_duplex, connect_half_duplex):
        with pytest.raises(ValueError, match="session_id is 'my call', 1 to 64 of A-Z"):
            async with connect("ws://127.0.0.1:1", session_id="my call"):
                pass


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (None, "history is a NoneType, a text or messages are needed"),
        ({"role": "user", "content": "Hello"}, r"a list of messages is needed: \[message\]"),
        (["Hello"], r"history\[0\] is a str, a message is needed"),
    ],
)
async def test_a_wrong_history_is_refused(history: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        async with ask("ws://127.0.0.1:1", history):
            pass
