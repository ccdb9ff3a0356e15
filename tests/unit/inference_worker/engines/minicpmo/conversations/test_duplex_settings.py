"""Duplex sessions with the settings of a client, compared with the reference token by token."""

import pytest
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from support.minicpmo import golden_set
from support.minicpmo.golden_set import LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import Recorder, config_of, new_session, sampling_of

FACTS = golden_set.facts_if_recorded("l_duplex_settings")


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, invariant=True)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_settings_change_what_they_change_in_the_reference(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner, name: str
) -> None:
    """Implicit units, limits of tokens, forced listens, penalties, and what favours listening."""
    spec, waves = FACTS[name]["spec"], golden_set.waves()
    session, recorder = new_session(network, tokenizer, spec), Recorder(runner)
    reference = clip_mels(waves[spec["ref_audio"]])
    recorder.run(
        session.prepare(spec["prefix_system_prompt"], spec["suffix_system_prompt"], reference)
    )
    for unit, want in zip(spec["units"], FACTS[name]["units"], strict=True):
        session.config = config_of(spec, **unit["generate_kwargs_changed"])
        session.sampling = sampling_of(spec, **unit["generate_kwargs_changed"])
        start, end = unit["audio"]["samples"]
        mel = session.audio_input.push(waves[unit["audio"]["source"]][start:end])
        recorder.run(session.prefill(mel))
        lengths = {"after_prefill": session.length}
        outcome = recorder.run(session.generate(force_listen=unit["force_listen_override"]))
        lengths["after_generate"] = session.length
        recorder.run(session.finalize())
        lengths["after_finalize"] = session.length
        assert lengths.items() <= want["kv_len"].items()
        assert session.memo.fed == want["fed_ids_in_generate"]
        assert session.memo.terminator == want["terminator_id"]
        assert (outcome.is_listen, outcome.text) == (want["is_listen"], want["text"])
        assert outcome.end_of_turn == want["end_of_turn"]
        assert session.turn_open is not want["turn_ended"]
        assert outcome.codes == want["codes"]
        assert session.speech.position == want["tts_text_start_pos"]
    probe = recorder.run(session.feed([(tokenizer.ids.unit,)]))
    logits = golden_set.tensors("l_duplex_settings")[f"{name}.probe_logits_next_unit_token"]
    assert_close(probe.logits, logits, **LOGITS)
