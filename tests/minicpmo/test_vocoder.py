"""From codes to sound: how codes are handed on, and what a session does with a vocoder."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from minicpmo import golden_set
from minicpmo.golden_set import CHECKPOINT
from minicpmo.tone import SAMPLES_PER_CODE, Tone

from inference_worker.engines.minicpmo.config import EngineOptions
from inference_worker.engines.minicpmo.duplex_view import MiniCPMODuplexView
from inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from inference_worker.engines.minicpmo.vocoder import Token2WavVocoder, next_pieces, open_token2wav
from inference_worker.engines.types import EngineError, EngineLoadError
from shared_schemas.audio import INPUT_RATE, Samples
from shared_schemas.config import DuplexConfig

WAVE = golden_set.waves()["w_ref"]
SPEAKING = DuplexConfig(temperature=0.0, force_listen_count=0)


def test_codes_are_given_in_pieces_with_lookahead() -> None:
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


def test_a_session_speaks_with_the_cloned_voice() -> None:
    engine = MiniCPMOProcessor(CHECKPOINT, EngineOptions(slots=1, context_tokens=512, device="cpu"))
    engine.load(lambda _line: None)
    assert engine._parts is not None
    tone = Tone()
    engine._parts = replace(engine._parts, vocoder=tone)
    view = engine.set_duplex_mode()
    assert isinstance(view, MiniCPMODuplexView)
    waves, facts = golden_set.waves(), golden_set.facts("d_duplex_audio")
    with pytest.raises(EngineError, match="reference voice"):
        view.prepare("Streaming Omni Conversation.", SPEAKING)
    view.prepare("Streaming Omni Conversation.", SPEAKING, ref_audio=waves["w_ref"])
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


class SharedBuffers:
    """Keeps its streams as the package does (1.0.5 to 1.0.7): views of one buffer, counters written in place.

    A code sounds as the voice's level plus all codes of the turn before it. `keyed` as in 1.0.7.
    """

    n_timesteps = 2

    def __init__(self, *, keyed: bool) -> None:
        self.flow = SimpleNamespace(pre_lookahead_len=3)
        self.cache: Any = None
        self.longest = 0
        self._keyed = keyed
        self._buffer = torch.zeros(16, 1)

    def set_stream_cache(self, path: str) -> tuple[Any, Any]:
        reference, _ = soundfile.read(path)
        self.longest = len(reference)
        level = float(np.abs(reference).max())
        self.cache = {path: level} if self._keyed else level
        self._buffer[:] = 0
        self.stream_cache = {"estimator_att_cache": self._buffer}
        self.hift_cache_dict = {"pieces": torch.zeros(1)}
        self._stream_prompt = path
        return self.stream_cache, self.hift_cache_dict

    def stream(self, codes: list[int], prompt_wav: str, last_chunk: bool) -> bytes:
        level = self.cache[prompt_wav] if self._keyed else self.cache
        if self._keyed and self._stream_prompt != prompt_wav:
            raise ValueError("another prompt is on")
        fresh = codes if last_chunk else codes[: -self.flow.pre_lookahead_len]
        before = self.stream_cache["estimator_att_cache"][: self.n_timesteps].sum()
        self._buffer[: self.n_timesteps] = before / self.n_timesteps + sum(fresh)
        self.stream_cache = {"estimator_att_cache": self._buffer}
        self.hift_cache_dict["pieces"] += 1
        value = 1000 * level + float(before) + float(self.hift_cache_dict["pieces"])
        return np.full(SAMPLES_PER_CODE * len(fresh), value, dtype="<i2").tobytes()


@pytest.mark.parametrize("keyed", [False, True])
def test_streams_that_take_turns_sound_as_alone(*, keyed: bool) -> None:
    vocoder = Token2WavVocoder(SharedBuffers(keyed=keyed), torch.device("cpu"))
    codes = [[[n + 7 * who + 1] * 25 for n in range(4)] for who in range(2)]
    references = [WAVE, WAVE / 2]

    def unit(voice: Any, who: int, n: int) -> Samples:
        return vocoder.speak(voice, codes[who][n], last=n == 3)

    alone = []
    for who in range(2):
        voice = vocoder.clone(references[who])
        alone.append(np.concatenate([unit(voice, who, n) for n in range(4)]))
    assert not np.array_equal(*alone)
    voices = [vocoder.clone(reference) for reference in references]
    vocoder.speak(voices[0], [1] * 25, last=False)
    vocoder.reset(voices[0])
    for _ in range(2):
        sound: list[list[Samples]] = [[], []]
        for n in range(4):
            for who in range(2):
                sound[who].append(unit(voices[who], who, n))
        for who in range(2):
            assert np.array_equal(np.concatenate(sound[who]), alone[who])


def test_of_a_voice_fifteen_seconds_are_cloned() -> None:
    inner = SharedBuffers(keyed=True)
    Token2WavVocoder(inner, torch.device("cpu")).clone(np.tile(WAVE, 10))
    assert inner.longest == 15 * INPUT_RATE


def test_what_the_package_lacks_is_told_at_load() -> None:
    inner = SharedBuffers(keyed=True)
    vocoder = Token2WavVocoder(inner, torch.device("cpu"))
    vocoder.warm_up()
    del inner.flow.pre_lookahead_len
    with pytest.raises(EngineLoadError, match="pre_lookahead_len"):
        vocoder.warm_up()


def test_the_package_is_named_where_it_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match="pip install --no-deps minicpmo-utils"):
        open_token2wav(tmp_path, 5, torch.device("cuda", 0))


def test_a_vocoder_without_a_gpu(tmp_path: Path) -> None:
    """The model's own is left aside; one that was asked for is refused with the remedy."""
    (tmp_path / "assets" / "token2wav").mkdir(parents=True)
    for entry in CHECKPOINT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    options = EngineOptions(slots=1, context_tokens=512, device="cpu")
    engine = MiniCPMOProcessor(tmp_path, options)
    assert not engine.info.clones_voice
    engine.load(lambda _line: None)
    engine.close()
    asked = options.model_copy(update={"vocoder": tmp_path})
    with pytest.raises(EngineLoadError, match="vocoder=none"):
        MiniCPMOProcessor(tmp_path, asked).load(lambda _line: None)
