"""Sound files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.cli.conversation.wav import UnusableAudio, load_speech, save_reply
from antiphon.shared_schemas.audio import INPUT_RATE


def test_sound_of_any_shape_becomes_16_khz_mono(tmp_path: Path) -> None:
    stereo = np.stack([np.full(44100, 0.5), np.full(44100, -0.1)], axis=1)
    soundfile.write(tmp_path / "q.wav", stereo, 44100, subtype="PCM_24")
    samples = load_speech(tmp_path / "q.wav")
    assert samples.dtype == np.float32
    assert samples.shape == (INPUT_RATE,)
    assert samples[8000] == pytest.approx(0.2, abs=1e-3)


def test_the_reply_is_a_16_bit_wav(tmp_path: Path) -> None:
    path = tmp_path / "new" / "reply.wav"
    save_reply(path, np.array([0.0, 1.0, -0.5], np.float32))
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24000
    assert samples.tolist() == [0, 32767, -16384]


def test_unusable_sound_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnusableAudio, match=r"cannot read .*absent\.wav"):
        load_speech(tmp_path / "absent.wav")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16000)
    with pytest.raises(UnusableAudio, match="holds no sound"):
        load_speech(tmp_path / "empty.wav")
    (tmp_path / "file").touch()
    with pytest.raises(UnusableAudio, match="cannot write"):
        save_reply(tmp_path / "file" / "reply.wav", np.zeros(1, np.float32))
