"""From codes to audio: how codes are cut into chunks, and how a session uses a vocoder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.inference_worker.engines.minicpmo import processor
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import (
    cut_reference,
    next_pieces,
    whole_second,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind
from antiphon.inference_worker.engines.minicpmo.views.duplex import MiniCPMODuplexView
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.config import DuplexConfig
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.tone_vocoder import SAMPLES_PER_CODE, Tone
from support.minicpmo.voice_folders import voice_folder

SPEAKING = DuplexConfig(temperature=0.0, force_listen_count=0)


def test_codes_are_cut_into_chunks_with_lookahead() -> None:
    waiting = list(range(28))
    assert next_pieces(waiting, 3, last=False) == [(list(range(28)), False)]
    assert waiting == [25, 26, 27]
    waiting += [28, 29, 30, 31]
    assert next_pieces(waiting, 3, last=False) == []
    waiting += [32]
    assert next_pieces(waiting, 3, last=False) == [([25, 26, 27, 28, 29, 30, 31, 32], False)]
    assert next_pieces(waiting, 3, last=True) == [([30, 31, 32], True)]
    assert waiting == []
    assert next_pieces(waiting, 3, last=True) == []


def test_a_unit_without_a_chunk_has_no_audio() -> None:
    """A short chunk is padded on the left to a second, except at the end of a turn."""
    part = np.ones(100, dtype=np.float32)
    for last in (False, True):
        assert len(whole_second([], last=last)) == 0
    padded = whole_second([part, part], last=False)
    assert (len(padded), padded.sum(), padded[-200]) == (OUTPUT_RATE, 200, 1)
    assert whole_second([part, part], last=True).tolist() == [1.0] * 200


@pytest.mark.parametrize("gap_ms", [5100, 5500, 5900])
def test_a_reference_is_cut_between_words(gap_ms: int) -> None:
    """In the pause of 60 ms nearest the end, not within a word."""
    wave = np.random.default_rng(0).normal(0, 0.1, 16 * INPUT_RATE).astype(np.float32)
    begin = gap_ms * INPUT_RATE // 1000
    wave[begin : begin + INPUT_RATE * 60 // 1000] *= 0.01
    cut = cut_reference(wave, 6.0)
    assert begin < len(cut) < begin + INPUT_RATE * 60 // 1000
    assert np.array_equal(cut, wave[: len(cut)])


def test_a_short_or_silent_reference_keeps_its_length() -> None:
    for wave in (np.ones(6 * INPUT_RATE, dtype=np.float32), np.ones(9, dtype=np.float32)):
        assert cut_reference(wave, 6.0) is wave
    silence = np.zeros(16 * INPUT_RATE, dtype=np.float32)
    assert len(cut_reference(silence, 6.0)) == 6 * INPUT_RATE - INPUT_RATE // 40
    for seconds in (1.0, 15.0):
        assert 0.5 * seconds < len(cut_reference(silence, seconds)) / INPUT_RATE <= seconds


def test_a_session_speaks_with_the_cloned_voice() -> None:
    engine = MiniCPMOProcessor(CHECKPOINT, EngineOptions(slots=1, context_tokens=512, device="cpu"))
    engine.load(lambda _line: None)
    assert engine._parts is not None
    tone = Tone()
    engine._parts = replace(engine._parts, vocoder=tone)
    view = engine.set_duplex_mode()
    assert isinstance(view, MiniCPMODuplexView)
    waves, facts = golden_set.waves(), golden_set.facts("d_duplex_audio")
    prompt = golden_set.system_prompt("d_duplex_audio")
    with pytest.raises(EngineError, match="reference voice"):
        view.prepare(prompt, SPEAKING)
    view.prepare(prompt, SPEAKING, ref_audio=waves["w_ref"])
    for n, want in enumerate(facts["units"]):
        view.prefill(waves["w_duplex_audio"][n * 16000 : (n + 1) * 16000])
        got = view.generate()
        view.finalize()
        codes = (want["tts"] or {"tokens": []})["tokens"]
        assert got.n_tts_tokens == len(codes)
        assert (got.audio[::SAMPLES_PER_CODE] * 100).round().astype(int).tolist() == codes
    assert tone.turns == 1
    view.prefill(waves["w_duplex_audio"][:16000])
    assert view.generate(force_listen=True).is_listen
    assert tone.turns == 2
    view.cleanup()
    engine.close()


def test_the_models_vocoder_is_ignored_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "assets" / "token2wav").mkdir(parents=True)
    for entry in CHECKPOINT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    options = EngineOptions(slots=1, context_tokens=512, device="cpu")
    engine = MiniCPMOProcessor(tmp_path, options)
    assert not engine.info.clones_voice
    engine.load(lambda _line: None)
    engine.close()


def test_the_voice_is_checked_before_any_weight_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "pick_device", lambda _name: torch.device("cuda", 0))
    folder, said = voice_folder(tmp_path, VoiceKind.CROSSFADE), list[str]()
    engine = MiniCPMOProcessor(CHECKPOINT, EngineOptions(vocoder=folder))
    with pytest.raises(EngineLoadError, match="package is not installed: pip install --no-deps mi"):
        engine.load(said.append)
    (folder / "hift.pt").unlink()
    with pytest.raises(EngineLoadError, match=r"lacks hift\.pt: repeat the download"):
        engine.load(said.append)
    assert not said
