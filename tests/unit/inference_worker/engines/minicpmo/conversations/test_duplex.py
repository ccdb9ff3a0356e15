"""The unit loop, compared with the sessions of the reference token by token."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import (
    duplex_sampling,
    duplex_speech,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    Sampler,
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    Feed,
    SpeechCondition,
)
from antiphon.shared_schemas.config import DuplexConfig
from support.minicpmo import golden_set
from support.minicpmo.cpu_graphs import use_cpu_graphs
from support.minicpmo.golden_set import CLOSE, LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import (
    Recorder,
    adjusted,
    codes_of,
    forced_speech,
    new_session,
    play,
)

EVERY_STEP = ["d_duplex_omni", "g_window_context"]
"""Sessions that have all types of steps together."""

OTHERS = ["d_duplex_audio", "d_duplex_forcecount", "d_duplex_vision", "g_window_basic"]


@pytest.fixture(scope="module", params=["fixed shapes", "fitting shapes", "graphs", "ragged"])
def runner(
    network: MiniCPMO, tokenizer: Tokenizer, request: pytest.FixtureRequest
) -> Iterator[ModelRunner]:
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    with pytest.MonkeyPatch.context() as patch:
        use_cpu_graphs(patch)
        runner = ModelRunner(
            network,
            sampler,
            slots=3,
            context=512,
            speech_context=256,
            invariant=request.param == "fixed shapes",
            cuda_graphs=request.param == "graphs",
            ragged=request.param == "ragged",
        )
        runner.capture_graphs()
    yield runner
    assert runner.graphs.eager == 0
    assert (runner.graphs.replayed > 0) == runner.graphs.enabled


@pytest.fixture(scope="module")
def plain(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    """For the rules of a unit: they yield the same steps to any runner."""
    return runner_of(network, tokenizer, slots=3)


@pytest.mark.parametrize("name", EVERY_STEP)
def test_a_session_equals_the_reference(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner, name: str
) -> None:
    check_session(network, tokenizer, runner, name)


@pytest.mark.parametrize("name", OTHERS)
def test_sessions_with_other_settings_equal_the_reference(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner, name: str
) -> None:
    check_session(network, tokenizer, plain, name)


def check_session(network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner, name: str) -> None:
    facts, want = golden_set.facts(name), golden_set.tensors(name)
    raws, processed = want["step_logits_raw"], want["step_logits_processed"]
    done = 0

    def check(
        n: Any, session: Any, recorder: Any, outcome: Any, pending: Any, lengths: Any
    ) -> None:
        nonlocal done
        unit = facts["units"][n]
        kv = unit["kv_len"]
        assert lengths == (kv["after_prefill"], kv["after_generate"], kv["after_finalize"])
        assert session.memo.fed == unit["fed_ids_in_generate"]
        assert session.memo.terminator == unit["terminator_id"]
        assert (outcome.is_listen, outcome.text) == (unit["is_listen"], unit["text"])
        assert outcome.end_of_turn == unit["end_of_turn"]
        assert len(outcome.tokens) == unit["n_tokens"]
        assert session.turn_open is not unit["current_turn_ended"]["after"]
        assert session.units_prefilled == unit["current_time"]
        assert len(session.history) == unit["decode_history_len"]
        assert session.speech.position == unit["tts_text_start_pos"]["after"]
        assert outcome.codes == (unit["tts"] or {"tokens": []})["tokens"]
        drawn = codes_of(recorder)
        sampled = (unit["tts"] or {"sampled": []})["sampled"]
        assert drawn[: len(sampled)] == sampled
        assert len(drawn) < len(sampled) + CODES_PER_STEP
        assert [u.length for u in session.layout.units] == [
            u["length"] for u in unit["unit_history"]
        ]
        assert session.layout.protected == unit["system_preserve_length"]
        assert list(session.layout.previous) == unit["previous_token_ids"]
        if unit["whisper_kv_len"] is not None:
            assert session.audio_input.position == unit["whisper_kv_len"]
            assert len(session.audio_input.stream._waiting) == unit["audio_buffer_left"]
        assert_close(pending, want[f"u{n}.pending_logits"], **LOGITS)
        assert [draw.token.token for draw in recorder.draws] == unit["decode_returned_ids"]
        sampler = runner._choices[False]._sampler
        for draw in recorder.draws:
            assert_close(draw.logits, raws[done], **LOGITS)
            final = adjusted(sampler, draw.logits, draw.row, draw.recent)
            final = final if draw.token.recorded else draw.logits
            assert_close(final, processed[done], **LOGITS)
            done += 1
        feeds = [[s.start, s.start + s.size] for s, _ in recorder.of(Feed)]
        # A long prefill has several portions, of which the last has the logits.
        last = next(place for place, (step, _) in enumerate(recorder.of(Feed)) if step.want_logits)
        assert [feeds[0][0], feeds[last][1]] == [kv["before"], kv["after_prefill"]]
        hidden = recorder.of(Feed)[last][1].hidden
        assert_close(hidden, want[f"u{n}.pending_hidden"], **CLOSE)
        for step, answer in recorder.of(SpeechCondition):
            assert_close(answer, want[f"u{n}.tts_condition"], **CLOSE)
            assert_close(torch.stack(step.states), want[f"u{n}.tts_source_hidden"], **CLOSE)
        key = f"u{n}.kv_key_last_layer_after_finalize"
        if key in want:
            keys = runner.text_cache.keys[-1][1, : session.length].transpose(0, 1)
            assert_close(keys, want[key], **CLOSE)

    session = play(network, tokenizer, runner, name, check)
    assert done == len(raws)
    last = session.length
    keys, values = runner.text_cache.keys[-1], runner.text_cache.values[-1]
    assert_close(keys[1, :last].transpose(0, 1), want["final_kv.key_last"], **CLOSE)
    assert_close(values[1, :last].transpose(0, 1), want["final_kv.value_last"], **CLOSE)
    probe = Recorder(runner).run(session.feed([(tokenizer.ids.unit,)]))
    assert_close(probe.logits, want["probe_logits_next_unit_token"], **LOGITS)


def test_speech_with_forced_draws(runner: ModelRunner) -> None:
    want, chunks = golden_set.tensors("f_tts"), golden_set.facts("f_tts")["chunks"]
    for n, logits, keys in forced_speech(runner, want, chunks):
        assert_close(logits, want[f"chunk{n}.raw_logits"], **LOGITS)
        assert_close(keys, want[f"chunk{n}.kv_key_last_layer"], **CLOSE)


GREETING = "hello the world and all the others in it"
"""Speaks in the first units of any set."""


def variant(network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner, **changed: Any) -> Any:
    """The recorded conversation with other settings: the fed tokens and the text of each unit."""
    spec = golden_set.facts("d_duplex_omni")["spec"]
    session = new_session(network, tokenizer, spec, **changed)
    wave = golden_set.waves()["w_omni"]
    picture = [slice_image(golden_set.image(name), SliceConfig(), 1) for name in "aabb"]
    recorder = Recorder(plain)
    prefix, suffix = spec["prefix_system_prompt"], spec["suffix_system_prompt"]
    recorder.run(session.prepare(prefix, suffix, []))
    outcomes = []
    for n in range(4):
        mel = session.audio_input.push(wave[n * 16000 : (n + 1) * 16000])
        recorder.run(session.prefill(mel, [picture[n]]))
        outcome = recorder.run(session.generate(force_listen=n == 2))
        recorder.run(session.finalize())
        outcomes.append((outcome, session.memo.model_copy(), session.speech.position))
    return outcomes


def test_fixed_drops_the_speech_of_an_interrupted_turn(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner
) -> None:
    upstream = variant(network, tokenizer, plain, greeting=GREETING)
    fixed = variant(network, tokenizer, plain, greeting=GREETING, fidelity="fixed")
    assert [unit[0].end_of_turn for unit in upstream[:2]] == [False, False]
    assert upstream[2][2] == upstream[1][2] == fixed[1][2] > 0
    assert fixed[2][2] == 0


def test_fixed_speaks_a_units_first_word(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner
) -> None:
    facts = golden_set.facts("d_duplex_audio")
    first_words = [u["fed_ids_in_generate"][0] for u in facts["units"] if u["n_tokens"]]
    assert any(tokenizer.plain([token]) for token in first_words)
    spec = facts["spec"]
    session = new_session(network, tokenizer, spec, fidelity="fixed")
    waves, recorder = golden_set.waves(), Recorder(plain)
    prefix, suffix = spec["prefix_system_prompt"], spec["suffix_system_prompt"]
    recorder.run(session.prepare(prefix, suffix, clip_mels(waves["w_ref"])))
    said = 0
    for n in range(3):
        mel = session.audio_input.push(waves["w_duplex_audio"][n * 16000 : (n + 1) * 16000])
        recorder.run(session.prefill(mel))
        outcome = recorder.run(session.generate())
        recorder.run(session.finalize())
        words = tokenizer.plain(session.memo.fed)
        said += len(words)
        assert outcome.text == tokenizer.decode(words)
    assert said > 0


def test_the_history_has_the_tokens_of_its_window(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner
) -> None:
    spec = golden_set.facts("d_duplex_audio")["spec"]
    session = new_session(
        network, tokenizer, spec, text_repetition_window_size=3, greeting=GREETING
    )
    recorder, wave = Recorder(plain), golden_set.waves()["w_duplex_audio"]
    recorder.run(session.prepare("<|im_start|>system\n", "<|im_end|>", []))
    chosen: list[int] = []
    for n in range(3):
        recorder.run(session.prefill(session.audio_input.push(wave[n * 16000 : (n + 1) * 16000])))
        recorder.run(session.generate())
        recorder.run(session.finalize())
        chosen += session.memo.chosen
        assert list(session.history) == chosen[-3:]
    assert len(chosen) > 3


def test_implicit_units_have_no_terminator(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner
) -> None:
    implicit = variant(network, tokenizer, plain, ls_mode="implicit", greeting=GREETING)
    assert [unit[1].terminator for unit in implicit] == [None] * 4
    assert implicit[1][0].text


@pytest.mark.parametrize("ls_mode", ["explicit", "implicit"])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_forced_listen(
    network: MiniCPMO, tokenizer: Tokenizer, plain: ModelRunner, ls_mode: str, limit: int
) -> None:
    """With a limit of one token, an explicit unit ends before it can listen: it speaks no text."""
    spec = golden_set.facts("d_duplex_audio")["spec"]
    session = new_session(network, tokenizer, spec, ls_mode=ls_mode)
    session.config = session.config.model_copy(update={"max_new_speak_tokens_per_chunk": limit})
    recorder, wave = Recorder(plain), golden_set.waves()["w_duplex_audio"]
    recorder.run(session.prepare("<|im_start|>system\n", "<|im_end|>", []))
    recorder.run(session.prefill(session.audio_input.push(wave[:16000])))
    before = len(recorder.of(Feed))
    outcome = recorder.run(session.generate(force_listen=True))
    recorder.run(session.finalize())
    speaks = ls_mode == "explicit" and limit == 1
    mark = tokenizer.ids.chunk_eos if speaks else tokenizer.ids.listen
    ending = (mark, tokenizer.ids.unit_end) if ls_mode == "explicit" else (tokenizer.ids.unit_end,)
    assert [step.pieces for step, _ in recorder.of(Feed)[before:]] == [(ending,)]
    assert outcome.is_listen != speaks
    assert (outcome.text, outcome.tokens) == ("", [])
    assert len(recorder.of(SpeechCondition)) == speaks


def test_settings_of_a_client() -> None:
    config = DuplexConfig(
        decode_mode="greedy",
        text_repetition_penalty=1.2,
        length_penalty=1.4,
        listen_top_k=3,
        tts_temperature=0.5,
    )
    sampling, speech = duplex_sampling(config), duplex_speech(config)
    assert sampling.greedy
    assert sampling.repetition_penalty == 1.2
    assert (sampling.length_penalty, sampling.listen_top_k) == (1.4, 3)
    assert speech == SpeechSettings(temperature=0.5)
    assert duplex_sampling(DuplexConfig()) == SamplingSettings()
    assert duplex_speech(DuplexConfig()) == SpeechSettings()
    for silent in (DuplexConfig(temperature=0.0), DuplexConfig(tts_temperature=0.0)):
        assert duplex_speech(silent).greedy
        assert duplex_speech(silent).temperature > 0
