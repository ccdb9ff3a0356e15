"""The audio input of a session over many seconds, through the batched audio encoder."""

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.conversations.text_context import AudioInput
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EncodeAudio
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import Recorder


@pytest.mark.parametrize("invariant", [True, False])
def test_audio_beyond_half_a_minute(
    network: MiniCPMO, tokenizer: Tokenizer, invariant: bool
) -> None:
    """The position table ends at thirty seconds; then all audio so far is forgotten."""
    recorder = Recorder(runner_of(network, tokenizer, slots=3, invariant=invariant))
    want, wave = golden_set.tensors("a_audio"), golden_set.waves()["w34"]
    audio_input = AudioInput(slot=1, capacity=network.config.audio_config.max_source_positions)
    for row in golden_set.facts("a_audio")["stream34"]:
        n = row["chunk"]
        mel = audio_input.push(wave[n * 16000 : (n + 1) * 16000])
        assert mel is not None
        embeds = recorder.run(audio_input.encode(mel))
        assert audio_input.position == row["whisper_kv_len"]
        assert_close(embeds, want[f"stream34.{n}.embeds"], **CLOSE)


def test_sessions_at_different_seconds_share_a_batch(
    network: MiniCPMO, tokenizer: Tokenizer
) -> None:
    runner = runner_of(network, tokenizer, slots=3, invariant=True)
    waves = golden_set.waves()
    audio_input = [AudioInput(slot=slot, capacity=1500) for slot in range(3)]
    for slot, name in enumerate(["w62", "w_omni", "w_window"]):
        for n in range(slot):
            mel = audio_input[slot].push(waves[name][n * 16000 : (n + 1) * 16000])
            assert mel is not None
            Recorder(runner).run(audio_input[slot].encode(mel))
    mels = [
        e.push(waves[name][n * 16000 : (n + 1) * 16000])
        for n, (e, name) in enumerate(zip(audio_input, ["w62", "w_omni", "w_window"], strict=True))
    ]
    steps = [
        next(e.encode(mel)) for e, mel in zip(audio_input, mels, strict=True) if mel is not None
    ]
    assert all(isinstance(step, EncodeAudio) for step in steps)
    assert len({step.group for step in steps}) == 1
    together = [row.clone() for row in runner.run(steps)]
    alone = [runner.run([step])[0] for step in steps]
    assert all(torch.equal(*pair) for pair in zip(together, alone, strict=True))
